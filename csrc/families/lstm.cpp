// Long short-term memory: all gates of a vector of units come from one tile of the recurrent product.
#include "kernels/lstm.h"

#include <utility>

#include "kernels/outside.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int GATES = 4;

// The gates of one vector of units of the active rows at step t, from W h in `sums`.
template <class T, bool whole>
__attribute__((noinline)) void forward_units(const LSTMForward<T>& in, int64_t active, int64_t t, int64_t unit,
                                             Units<T, whole> part, const Elements<T>& elements, const T* sums,
                                             T* c_rows, T* h_rows) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, stride = stride_of<T>(units);
  const T* p = in.peephole;
  for (int64_t r = 0; r < active; ++r, sums += GATES * width) {
    const int64_t at = (in.rows.sequence[r] * in.rows.time + t) * GATES * units + unit;
    const T* e = elements.of(r, t) + unit;
    for (int g = 0; g < GATES; ++g) __builtin_prefetch(e + elements.stride() + g * units);
    Vec<T> i = part.get(e) + load<T>(sums), f = part.get(e + units) + load<T>(sums + width);
    Vec<T> g = part.get(e + 2 * units) + load<T>(sums + 2 * width);
    Vec<T> o = part.get(e + 3 * units) + load<T>(sums + 3 * width);
    Vec<T> c = load<T>(c_rows + r * stride + unit);
    if (p) {
      i += part.get(p + unit) * c;
      f += part.get(p + units + unit) * c;
    }
    i = sigmoid<T>(i), f = sigmoid<T>(f);
    g = in.sigmoid_input ? sigmoid<T>(g) : tanh<T>(g);
    c = f * c + i * g;
    if (p) o += part.get(p + 2 * units + unit) * c;
    o = sigmoid<T>(o);
    const Vec<T> h = o * tanh<T>(c);
    store<T>(c_rows + r * stride + unit, c);
    store<T>(h_rows + r * stride + unit, h);
    if (in.c || t + 1 == in.rows.length[r]) part.put(after_step(in.rows, units, r, t, in.c, in.final_c) + unit, c);
    part.put(after_step(in.rows, units, r, t, in.h, in.final_h) + unit, h);
    if (in.gates) {
      T* kept = in.gates + at;
      part.put(kept, i), part.put(kept + units, f), part.put(kept + 2 * units, g), part.put(kept + 3 * units, o);
    }
  }
}

template <class T>
void forward(const LSTMForward<T>& in) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, count = in.rows.count, size = count * stride_of<T>(units);
  const Scratch<T> c(size), first(size), second(size), sums(count * GATES * width);
  T *now = first, *next = second;
  if (in.c) {
    begin_rows<T>(in.rows, units, in.start_c, in.c, in.final_c, c);
  } else {  // only the last are kept, which of a sequence without steps are the first
    end_rows<T>(in.rows, units, nullptr, in.start_c, c);
    put_rows<T>(in.rows, units, c, in.final_c);
  }
  begin_rows<T>(in.rows, units, in.start_h, in.h, in.final_h, now);
  Elements<T> elements(in.rows, in.outside, GATES * units);
  int64_t active = count;
  for (int64_t t = 0; (active = in.rows.active(t, active)) > 0; ++t) {
    elements.reach(t, active);
    const T* panel = in.packed;
    over_units<T>(units, [&](int64_t unit, auto part) {
      multiply<T, GATES>(active, now, stride_of<T>(units), panel, units, sums);
      panel += units * GATES * width;
      forward_units<T>(in, active, t, unit, part, elements, sums, c, next);
    });
    std::swap(now, next);
  }
  if (in.c) hold_rows<T>(in.rows, units, in.c, in.final_c);
  hold_rows<T>(in.rows, units, in.h, in.final_h);
}

// The adjoints of the gates of one vector of units before their nonlinearities, from those of c and h after step t.
template <class T, bool whole>
__attribute__((noinline)) void backward_units(const LSTMBackward<T>& in, int64_t active, int64_t t, int64_t unit,
                                              Units<T, whole> part, const T* d_h_rows, T* d_c_rows, T* after,
                                              T* d_gates) {
  const int64_t units = in.units, stride = stride_of<T>(units), gates_stride = stride_of<T>(GATES * units);
  const T* p = in.peephole;
  for (int64_t r = 0; r < active; ++r) {
    const int64_t step = in.rows.sequence[r] * in.rows.time + t, at = step * GATES * units + unit;
    const T *kept = in.gates + at, *c_at = in.c + step * units + unit;
    if (t > 0) {
      for (int g = 0; g < GATES; ++g) __builtin_prefetch(kept + (g - GATES) * units);
      __builtin_prefetch(c_at - units);
      __builtin_prefetch(in.d_h + (step - 1) * units + unit);
    }
    const Vec<T> i = part.get(kept), f = part.get(kept + units), g = part.get(kept + 2 * units);
    const Vec<T> o = part.get(kept + 3 * units), before = part.get(c_at);
    const Vec<T> d_h = load<T>(d_h_rows + r * stride + unit), c = load<T>(after + r * stride + unit);
    const Vec<T> shown = tanh<T>(c);
    const Vec<T> d_o = d_h * shown * (o * (T(1) - o));
    Vec<T> d_c = load<T>(d_c_rows + r * stride + unit) + d_h * o * (T(1) - shown * shown);
    if (p) d_c += d_o * part.get(p + 2 * units + unit);
    const Vec<T> d_i = d_c * g * (i * (T(1) - i)), d_f = d_c * before * (f * (T(1) - f));
    const Vec<T> d_g = d_c * i * (in.sigmoid_input ? g * (T(1) - g) : T(1) - g * g);
    d_c *= f;
    if (p) d_c += d_i * part.get(p + unit) + d_f * part.get(p + units + unit);
    if (in.d_c) d_c += part.get(in.d_c + step * units + unit);
    store<T>(d_c_rows + r * stride + unit, d_c);
    store<T>(after + r * stride + unit, before);
    T *out = in.d_elements + at, *row = d_gates + r * gates_stride + unit;
    part.put(out, d_i), part.put(out + units, d_f), part.put(out + 2 * units, d_g), part.put(out + 3 * units, d_o);
    part.put(row, d_i), part.put(row + units, d_f), part.put(row + 2 * units, d_g), part.put(row + 3 * units, d_o);
  }
}

template <class T>
void backward(const LSTMBackward<T>& in) {
  const int64_t units = in.units, count = in.rows.count, size = count * stride_of<T>(units);
  const Scratch<T> d_c(size), d_h(size), after(size), d_gates(count * stride_of<T>(GATES * units));
  const Scratch<T> sums(count * WIDEST * Lanes<T>::count);
  end_rows<T>(in.rows, units, in.d_c, in.d_final_c, d_c);
  end_rows<T>(in.rows, units, in.d_h, in.d_final_h, d_h);
  end_rows<T>(in.rows, units, nullptr, in.final_c, after);
  clear_behind<T>(in.rows, GATES * units, in.d_elements);
  PulledInputs<T> inputs(in.rows, in.outside, GATES * units);
  for (int64_t t = in.rows.time - 1; t >= 0; --t) {
    const int64_t active = in.rows.active(t, count);
    if (!active) continue;
    over_units<T>(units, [&](int64_t unit, auto part) {
      backward_units<T>(in, active, t, unit, part, d_h, d_c, after, d_gates);
    });
    pull_rows<T, false>(in.rows, active, units, GATES * units, t, d_gates, in.packed, in.d_h, sums, d_h);
    inputs.after(t, in.d_elements);
  }
  put_rows<T>(in.rows, units, d_c, in.d_start_c);
  put_rows<T>(in.rows, units, d_h, in.d_start_h);
}

template <class T>
constexpr LSTMKernels<T> kernels = {gates_packing<T, GATES>, back_packing<T, GATES>, input_packing<T>,
                                    input_back_packing<T>,   forward<T>,             backward<T>};

}  // namespace

extern const LSTMTable lstm_table;
const LSTMTable lstm_table = {kernels<float>, kernels<double>};

}  // namespace HS_ISA
}  // namespace hs
