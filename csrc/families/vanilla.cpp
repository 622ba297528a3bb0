// The plain and the leaky network.
#include "kernels/vanilla.h"

#include <utility>

#include "kernels/outside.h"

namespace hs {
namespace HS_ISA {
namespace {

template <class T, Nonlinearity phi>
HS_INLINE Vec<T> applied(Vec<T> x) {
  if constexpr (phi == Nonlinearity::tanh) return tanh<T>(x);
  if constexpr (phi == Nonlinearity::relu) return T(0) > x ? Vec<T>{} : x;  // NaN stays
  if constexpr (phi == Nonlinearity::sigmoid) return sigmoid<T>(x);
  return x;
}

// The derivative of phi, from its value.
template <class T, Nonlinearity phi>
HS_INLINE Vec<T> slope(Vec<T> y) {
  if constexpr (phi == Nonlinearity::tanh) return T(1) - y * y;
  if constexpr (phi == Nonlinearity::relu) return y > T(0) ? all<T>(T(1)) : Vec<T>{};
  if constexpr (phi == Nonlinearity::sigmoid) return y * (T(1) - y);
  return all<T>(T(1));
}

// The new states of the vectors of one panel, from W h in `sums`.
template <class T, Nonlinearity phi>
__attribute__((noinline)) void forward_panel(const VanillaForward<T>& in, int64_t active, int64_t t, int64_t first,
                                             int vectors, const Elements<T>& elements, const T* sums,
                                             const T* now, T* next) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, stride = stride_of<T>(units), left = units - first;
  for (int64_t r = 0; r < active; ++r, sums += vectors * width) {
    const int64_t at = (in.rows.sequence[r] * in.rows.time + t) * units + first, place = r * stride + first;
    const T* e = elements.of(r, t) + first;
    T* to = after_step(in.rows, units, r, t, in.states, in.final) + first;
    over_units<T>(left < vectors * width ? left : vectors * width, [&](int64_t unit, auto part) {
      __builtin_prefetch(e + unit + elements.stride());
      Vec<T> h = applied<T, phi>(part.get(e + unit) + load<T>(sums + unit));
      if (in.alpha) {
        const Vec<T> alpha = part.get(in.alpha + first + unit);
        if (in.drive) part.put(in.drive + at + unit, h);
        h = (T(1) - alpha) * load<T>(now + place + unit) + alpha * h;
      }
      store<T>(next + place + unit, h);
      part.put(to + unit, h);
    });
  }
}

template <class T, Nonlinearity phi>
void forward_as(const VanillaForward<T>& in) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, count = in.rows.count, stride = stride_of<T>(units);
  const Scratch<T> first(count * stride), second(count * stride), sums(count * WIDEST * width);
  T *now = first, *next = second;
  begin_rows<T>(in.rows, units, in.start, in.states, in.final, now);
  Elements<T> elements(in.rows, in.outside, units);
  int64_t active = count;
  for (int64_t t = 0; (active = in.rows.active(t, active)) > 0; ++t) {
    elements.reach(t, active);
    for (int64_t panel = 0; panel < panels_of<T>(units); ++panel) {
      const int vectors = multiply_panel<T>(active, now, stride, in.packed, units, units, panel, sums);
      forward_panel<T, phi>(in, active, t, panel * WIDEST * width, vectors, elements, sums, now, next);
    }
    std::swap(now, next);
  }
  hold_rows<T>(in.rows, units, in.states, in.final);
}

// A sum over many steps that keeps what its rounding loses.
template <class T>
HS_INLINE void add_exactly(T* sum, T* lost, Vec<T> x) {
  const Vec<T> before = load<T>(sum), due = x - load<T>(lost), now = before + due;
  store<T>(lost, (now - before) - due);
  store<T>(sum, now);
}

// The adjoints before phi, of one vector of units, from those of h after step t; d_h becomes what leaks past the step.
// `after` holds phi of the step, which is the state after it, where nothing leaks.
template <class T, Nonlinearity phi, bool whole>
__attribute__((noinline)) void backward_units(const VanillaBackward<T>& in, int64_t active, int64_t t, int64_t unit,
                                              Units<T, whole> part, T* after, T* d_h_rows, T* d_rows, T* sum, T* lost) {
  const int64_t units = in.units, stride = stride_of<T>(units);
  for (int64_t r = 0; r < active; ++r) {
    const int64_t at = (in.rows.sequence[r] * in.rows.time + t) * units + unit, place = r * stride + unit;
    if (t > 0) {
      __builtin_prefetch(in.states + at - units);
      __builtin_prefetch(in.d_states + at - units);
    }
    const Vec<T> before = part.get(in.states + at), d_h = load<T>(d_h_rows + place);
    Vec<T> d_e, leaked = Vec<T>{};
    if (in.alpha) {
      const Vec<T> alpha = part.get(in.alpha + unit), y = part.get(in.drive + at);
      add_exactly<T>(sum + place, lost + place, d_h * (y - before));
      d_e = alpha * d_h * slope<T, phi>(y);
      leaked = (T(1) - alpha) * d_h;
    } else {
      d_e = d_h * slope<T, phi>(load<T>(after + place));
      store<T>(after + place, before);
    }
    store<T>(d_h_rows + place, leaked);
    part.put(in.d_elements + at, d_e);
    store<T>(d_rows + place, d_e);
  }
}

template <class T, Nonlinearity phi>
void backward_as(const VanillaBackward<T>& in) {
  const int64_t units = in.units, count = in.rows.count, size = count * stride_of<T>(units);
  const int64_t leaky = in.alpha ? size : 0;
  const Scratch<T> d_h(size), d_rows(size), after(size), sums(count * WIDEST * Lanes<T>::count);
  const Scratch<T> sum(leaky), lost(leaky);
  std::memset(sum, 0, size_t(leaky) * sizeof(T));
  std::memset(lost, 0, size_t(leaky) * sizeof(T));
  end_rows<T>(in.rows, units, in.d_states, in.d_final, d_h);
  end_rows<T>(in.rows, units, nullptr, in.final, after);
  clear_behind<T>(in.rows, units, in.d_elements);
  PulledInputs<T> inputs(in.rows, in.outside, units);
  for (int64_t t = in.rows.time - 1; t >= 0; --t) {
    const int64_t active = in.rows.active(t, count);
    if (!active) continue;
    over_units<T>(units, [&](int64_t unit, auto part) {
      backward_units<T, phi>(in, active, t, unit, part, after, d_h, d_rows, sum, lost);
    });
    pull_rows<T, true>(in.rows, active, units, units, t, d_rows, in.packed, in.d_states, sums, d_h);
    inputs.after(t, in.d_elements);
  }
  put_rows<T>(in.rows, units, d_h, in.d_start);
  if (in.alpha) put_rows<T>(in.rows, units, sum, in.d_alpha);
}

template <class T>
void forward(Nonlinearity phi, const VanillaForward<T>& in) {
  switch (phi) {
    case Nonlinearity::tanh: return forward_as<T, Nonlinearity::tanh>(in);
    case Nonlinearity::relu: return forward_as<T, Nonlinearity::relu>(in);
    case Nonlinearity::identity: return forward_as<T, Nonlinearity::identity>(in);
    case Nonlinearity::sigmoid: return forward_as<T, Nonlinearity::sigmoid>(in);
  }
}

template <class T>
void backward(Nonlinearity phi, const VanillaBackward<T>& in) {
  switch (phi) {
    case Nonlinearity::tanh: return backward_as<T, Nonlinearity::tanh>(in);
    case Nonlinearity::relu: return backward_as<T, Nonlinearity::relu>(in);
    case Nonlinearity::identity: return backward_as<T, Nonlinearity::identity>(in);
    case Nonlinearity::sigmoid: return backward_as<T, Nonlinearity::sigmoid>(in);
  }
}

template <class T>
constexpr VanillaKernels<T> kernels = {plain_packing<T>,      back_packing<T, 1>, input_packing<T>,
                                       input_back_packing<T>, forward<T>,         backward<T>};

}  // namespace

extern const VanillaTable vanilla_table;
const VanillaTable vanilla_table = {kernels<float>, kernels<double>};

}  // namespace HS_ISA
}  // namespace hs
