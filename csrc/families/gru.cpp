// The gated recurrent unit: all gates of a vector of units come from one tile of the recurrent product.
#include "kernels/gru.h"

#include <utility>

#include "kernels/outside.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int GATES = 3;

// h' = (1 - z) n + z h.
template <class T>
HS_INLINE Vec<T> mixed(Vec<T> z, Vec<T> n, Vec<T> h) {
  return (T(1) - z) * n + z * h;
}

// The step of one vector of units of the active rows, from W h in `sums`.
template <class T, bool whole>
__attribute__((noinline)) void forward_units(const GRUForward<T>& in, int64_t active, int64_t t, int64_t unit,
                                             Units<T, whole> part, const Elements<T>& elements, const T* sums,
                                             const T* now, T* next) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, stride = stride_of<T>(units);
  const Vec<T> bias = in.bias ? part.get(in.bias + unit) : Vec<T>{};
  for (int64_t row = 0; row < active; ++row, sums += GATES * width) {
    const int64_t step = in.rows.sequence[row] * in.rows.time + t, at = step * GATES * units + unit;
    const T* e = elements.of(row, t) + unit;
    for (int g = 0; g < GATES; ++g) __builtin_prefetch(e + elements.stride() + g * units);
    const Vec<T> recurrent = load<T>(sums + 2 * width) + bias;
    const Vec<T> r = sigmoid<T>(part.get(e) + load<T>(sums));
    const Vec<T> z = sigmoid<T>(part.get(e + units) + load<T>(sums + width));
    const Vec<T> n = tanh<T>(part.get(e + 2 * units) + r * recurrent);
    const Vec<T> h = mixed<T>(z, n, load<T>(now + row * stride + unit));
    store<T>(next + row * stride + unit, h);
    part.put(after_step(in.rows, units, row, t, in.states, in.final) + unit, h);
    if (in.gates) {
      T* kept = in.gates + at;
      part.put(kept, r), part.put(kept + units, z), part.put(kept + 2 * units, n);
      part.put(in.recurrent + step * units + unit, recurrent);
    }
  }
}

template <class T>
void forward_after(const GRUForward<T>& in) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, count = in.rows.count, size = count * stride_of<T>(units);
  const Scratch<T> first(size), second(size), sums(count * GATES * width);
  T *now = first, *next = second;
  begin_rows<T>(in.rows, units, in.start, in.states, in.final, now);
  Elements<T> elements(in.rows, in.outside, GATES * units);
  int64_t active = count;
  for (int64_t t = 0; (active = in.rows.active(t, active)) > 0; ++t) {
    elements.reach(t, active);
    const T* panel = in.packed;
    over_units<T>(units, [&](int64_t unit, auto part) {
      multiply<T, GATES>(active, now, stride_of<T>(units), panel, units, sums);
      panel += units * GATES * width;
      forward_units<T>(in, active, t, unit, part, elements, sums, now, next);
    });
    std::swap(now, next);
  }
  hold_rows<T>(in.rows, units, in.states, in.final);
}

// Adjoints before the nonlinearities, from those of h after step t; d_h becomes what reaches the h before it directly.
template <class T, bool whole>
__attribute__((noinline)) void backward_units(const GRUBackward<T>& in, int64_t active, int64_t t, int64_t unit,
                                              Units<T, whole> part, T* d_h_rows, T* d_gates) {
  const int64_t units = in.units, stride = stride_of<T>(units), gates_stride = stride_of<T>(GATES * units);
  for (int64_t row = 0; row < active; ++row) {
    const int64_t step = in.rows.sequence[row] * in.rows.time + t, at = step * GATES * units + unit;
    const int64_t at_unit = step * units + unit;
    const T* kept = in.gates + at;
    if (t > 0) {
      for (int g = 0; g < GATES; ++g) __builtin_prefetch(kept + (g - GATES) * units);
      __builtin_prefetch(in.recurrent + at_unit - units);
      __builtin_prefetch(in.states + at_unit - units);
      __builtin_prefetch(in.d_states + at_unit - units);
    }
    const Vec<T> r = part.get(kept), z = part.get(kept + units), n = part.get(kept + 2 * units);
    const Vec<T> recurrent = part.get(in.recurrent + at_unit), h = part.get(in.states + at_unit);
    const Vec<T> d_h = load<T>(d_h_rows + row * stride + unit);
    const Vec<T> d_n = d_h * (T(1) - z) * (T(1) - n * n), d_z = d_h * (h - n) * (z * (T(1) - z));
    const Vec<T> d_r = d_n * recurrent * (r * (T(1) - r)), d_recurrent = d_n * r;
    store<T>(d_h_rows + row * stride + unit, d_h * z);
    T *out = in.d_elements + at, *gates = d_gates + row * gates_stride + unit;
    part.put(out, d_r), part.put(out + units, d_z), part.put(out + 2 * units, d_n);
    part.put(gates, d_r), part.put(gates + units, d_z), part.put(gates + 2 * units, d_recurrent);
    part.put(in.d_recurrent + at_unit, d_recurrent);
  }
}

template <class T>
void backward_after(const GRUBackward<T>& in) {
  const int64_t units = in.units, count = in.rows.count;
  const Scratch<T> d_h(count * stride_of<T>(units)), d_gates(count * stride_of<T>(GATES * units));
  const Scratch<T> sums(count * WIDEST * Lanes<T>::count);
  end_rows<T>(in.rows, units, in.d_states, in.d_final, d_h);
  clear_behind<T>(in.rows, GATES * units, in.d_elements);
  clear_behind<T>(in.rows, units, in.d_recurrent);
  PulledInputs<T> inputs(in.rows, in.outside, GATES * units);
  for (int64_t t = in.rows.time - 1; t >= 0; --t) {
    const int64_t active = in.rows.active(t, count);
    if (!active) continue;
    over_units<T>(units, [&](int64_t unit, auto part) {
      backward_units<T>(in, active, t, unit, part, d_h, d_gates);
    });
    pull_rows<T, true>(in.rows, active, units, GATES * units, t, d_gates, in.packed, in.d_states, sums, d_h);
    inputs.after(t, in.d_elements);
  }
  put_rows<T>(in.rows, units, d_h, in.d_start);
}

// r and z of one vector of units; r h and z into rows of their own.
template <class T, bool whole>
__attribute__((noinline)) void open_units(const GRUForward<T>& in, int64_t active, int64_t t, int64_t unit,
                                          Units<T, whole> part, const Elements<T>& elements, const T* sums,
                                          const T* now, T* z_rows, T* reset_rows) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, stride = stride_of<T>(units);
  for (int64_t row = 0; row < active; ++row, sums += 2 * width) {
    const int64_t at = (in.rows.sequence[row] * in.rows.time + t) * GATES * units + unit;
    const T* e = elements.of(row, t) + unit;
    const Vec<T> r = sigmoid<T>(part.get(e) + load<T>(sums));
    const Vec<T> z = sigmoid<T>(part.get(e + units) + load<T>(sums + width));
    store<T>(z_rows + row * stride + unit, z);
    store<T>(reset_rows + row * stride + unit, r * load<T>(now + row * stride + unit));
    if (in.gates) part.put(in.gates + at, r), part.put(in.gates + at + units, z);
  }
}

// n and the new state, for the vectors of one panel, from W_n (r h) in `sums`.
template <class T>
__attribute__((noinline)) void close_panel(const GRUForward<T>& in, int64_t active, int64_t t, int64_t first,
                                           int vectors, const Elements<T>& elements, const T* sums,
                                           const T* z_rows, const T* now, T* next) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, stride = stride_of<T>(units), left = units - first;
  for (int64_t row = 0; row < active; ++row, sums += vectors * width) {
    const int64_t at = (in.rows.sequence[row] * in.rows.time + t) * GATES * units + 2 * units + first;
    const int64_t place = row * stride + first;
    const T* e = elements.of(row, t) + 2 * units + first;
    T* to = after_step(in.rows, units, row, t, in.states, in.final) + first;
    over_units<T>(left < vectors * width ? left : vectors * width, [&](int64_t unit, auto part) {
      const Vec<T> n = tanh<T>(part.get(e + unit) + load<T>(sums + unit));
      const Vec<T> h = mixed<T>(load<T>(z_rows + place + unit), n, load<T>(now + place + unit));
      store<T>(next + place + unit, h);
      part.put(to + unit, h);
      if (in.gates) part.put(in.gates + at + unit, n);
    });
  }
}

template <class T>
void forward_before(const GRUForward<T>& in) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, count = in.rows.count, stride = stride_of<T>(units), size = count * stride;
  const Scratch<T> first(size), second(size), z(size), reset(size), sums(count * WIDEST * width);
  T *now = first, *next = second;
  begin_rows<T>(in.rows, units, in.start, in.states, in.final, now);
  Elements<T> elements(in.rows, in.outside, GATES * units);
  int64_t active = count;
  for (int64_t t = 0; (active = in.rows.active(t, active)) > 0; ++t) {
    elements.reach(t, active);
    const T* panel = in.packed;
    over_units<T>(units, [&](int64_t unit, auto part) {
      multiply<T, 2>(active, now, stride, panel, units, sums);
      panel += units * 2 * width;
      open_units<T>(in, active, t, unit, part, elements, sums, now, z, reset);
    });
    for (int64_t p = 0; p < panels_of<T>(units); ++p) {
      const int vectors = multiply_panel<T>(active, reset, stride, in.packed_candidate, units, units, p, sums);
      close_panel<T>(in, active, t, p * WIDEST * width, vectors, elements, sums, z, now, next);
    }
    std::swap(now, next);
  }
  hold_rows<T>(in.rows, units, in.states, in.final);
  // What stands there is multiplied by adjoints that are zero.
  if (in.gates) clear_behind<T>(in.rows, GATES * units, in.gates);
}

// The adjoints of z and n before their nonlinearities; d_h as in `backward_units`.
template <class T, bool whole>
__attribute__((noinline)) void close_back(const GRUBackward<T>& in, int64_t active, int64_t t, int64_t unit,
                                          Units<T, whole> part, T* d_h_rows, T* d_gates, T* d_candidate) {
  const int64_t units = in.units, stride = stride_of<T>(units), gates_stride = stride_of<T>(2 * units);
  for (int64_t row = 0; row < active; ++row) {
    const int64_t step = in.rows.sequence[row] * in.rows.time + t, at = step * GATES * units + unit;
    const Vec<T> z = part.get(in.gates + at + units), n = part.get(in.gates + at + 2 * units);
    const Vec<T> h = part.get(in.states + step * units + unit), d_h = load<T>(d_h_rows + row * stride + unit);
    const Vec<T> d_n = d_h * (T(1) - z) * (T(1) - n * n), d_z = d_h * (h - n) * (z * (T(1) - z));
    store<T>(d_h_rows + row * stride + unit, d_h * z);
    part.put(in.d_elements + at + units, d_z), part.put(in.d_elements + at + 2 * units, d_n);
    part.put(d_gates + row * gates_stride + units + unit, d_z);
    part.put(d_candidate + row * stride + unit, d_n);
  }
}

// The adjoint of r before its nonlinearity, from that of r h in `sums`; what reaches h through r h is added to d_h.
template <class T>
__attribute__((noinline)) void open_back(const GRUBackward<T>& in, int64_t active, int64_t t, int64_t first, int vectors,
                                         const T* sums, T* d_h_rows, T* d_gates) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, stride = stride_of<T>(units), gates_stride = stride_of<T>(2 * units);
  const int64_t left = units - first;
  for (int64_t row = 0; row < active; ++row, sums += vectors * width) {
    const int64_t step = in.rows.sequence[row] * in.rows.time + t, at = step * GATES * units + first;
    T* d_h = d_h_rows + row * stride + first;
    over_units<T>(left < vectors * width ? left : vectors * width, [&](int64_t unit, auto part) {
      const Vec<T> r = part.get(in.gates + at + unit), d_reset = load<T>(sums + unit);
      const Vec<T> d_r = d_reset * part.get(in.states + step * units + first + unit) * (r * (T(1) - r));
      store<T>(d_h + unit, load<T>(d_h + unit) + d_reset * r);
      part.put(in.d_elements + at + unit, d_r);
      part.put(d_gates + row * gates_stride + first + unit, d_r);
    });
  }
}

template <class T>
void backward_before(const GRUBackward<T>& in) {
  constexpr int width = Lanes<T>::count;
  const int64_t units = in.units, count = in.rows.count, stride = stride_of<T>(units);
  const Scratch<T> d_h(count * stride), d_gates(count * stride_of<T>(2 * units)), d_candidate(count * stride);
  const Scratch<T> sums(count * WIDEST * width);
  end_rows<T>(in.rows, units, in.d_states, in.d_final, d_h);
  clear_behind<T>(in.rows, GATES * units, in.d_elements);
  PulledInputs<T> inputs(in.rows, in.outside, GATES * units);
  for (int64_t t = in.rows.time - 1; t >= 0; --t) {
    const int64_t active = in.rows.active(t, count);
    if (!active) continue;
    over_units<T>(units, [&](int64_t unit, auto part) {
      close_back<T>(in, active, t, unit, part, d_h, d_gates, d_candidate);
    });
    for (int64_t p = 0; p < panels_of<T>(units); ++p) {
      const int vectors = multiply_panel<T>(active, d_candidate, stride, in.packed_candidate, units, units, p, sums);
      open_back<T>(in, active, t, p * WIDEST * width, vectors, sums, d_h, d_gates);
    }
    pull_rows<T, true>(in.rows, active, units, 2 * units, t, d_gates, in.packed, in.d_states, sums, d_h);
    inputs.after(t, in.d_elements);
  }
  put_rows<T>(in.rows, units, d_h, in.d_start);
}

template <class T>
constexpr GRUKernels<T> kernels = {gates_packing<T, 3>, back_packing<T, 3>, gates_packing<T, 2>, back_packing<T, 2>,
                                   plain_packing<T>,    back_packing<T, 1>, input_packing<T>,    input_back_packing<T>,
                                   forward_after<T>,    backward_after<T>,  forward_before<T>,   backward_before<T>};

}  // namespace

extern const GRUTable gru_table;
const GRUTable gru_table = {kernels<float>, kernels<double>};

}  // namespace HS_ISA
}  // namespace hs
