// Minimal gated cells: gates, candidate and recurrence in one pass over the products with the inputs.
#include "kernels/minimal.h"

#include "kernels/outside.h"

namespace hs {
namespace HS_ISA {
namespace {

// e^x for x up to zero; not below the smallest normal number.
template <class T>
HS_INLINE Vec<T> exp_falling(Vec<T> x) {
  const T least = std::is_same<T, float>::value ? T(-87) : T(-708);
  const Reduced<T> part = reduce_exponent<T>(x < least ? all<T>(least) : x);
  return (part.p + T(1)) * power_of_two<T>(part.n);
}

template <class T>
struct Gate {
  Vec<T> keep, take;
};

// take = sigmoid(k), and keep = 1 - take without loss.
template <class T>
HS_INLINE Gate<T> gate_of(Vec<T> k) {
  const Ints<T> open = k >= T(0);
  const Vec<T> e = exp_falling<T>(open ? -k : k), large = T(1) / (e + T(1)), little = e * large;
  return {open ? little : large, open ? large : little};
}

// One, e^{-f} and e^{-i}, up to a common factor: such that two closed gates are no 0/0, for which the one is nothing.
template <class T>
struct Closing {
  Vec<T> one, f, i;
};

template <class T>
HS_INLINE Closing<T> closing(Vec<T> f, Vec<T> i) {
  constexpr bool single = std::is_same<T, float>::value;
  constexpr T least = single ? T(-87) : T(-708), most = single ? T(86) : T(707);  // the sum of two has an inverse
  const Vec<T> open = f > i ? f : i;
  const Ints<T> closed = open < T(10) - most;
  const Vec<T> shift = closed ? open : Vec<T>{};
  const Reduced<T> at_f = reduce_exponent<T>(clamped<T>(shift - f, least, most));
  const Reduced<T> at_i = reduce_exponent<T>(clamped<T>(shift - i, least, most));
  return {closed ? Vec<T>{} : all<T>(T(1)), (at_f.p + T(1)) * power_of_two<T>(at_f.n),
          (at_i.p + T(1)) * power_of_two<T>(at_i.n)};
}

// keep : take = sigmoid(f) : sigmoid(i).
template <class T>
HS_INLINE Gate<T> gate_of(Closing<T> e) {
  const Vec<T> take = e.one + e.f, keep = e.one + e.i, factor = T(1) / (take + keep);
  return {keep * factor, take * factor};
}

// g(c) = c + 1/2 from zero on, sigmoid(c) below; or c itself.
template <class T, bool positive>
HS_INLINE Vec<T> candidate_of(Vec<T> c) {
  if constexpr (!positive) return c;
  return c >= T(0) ? c + T(0.5) : sigmoid<T>(c);
}

template <class T, bool positive>
HS_INLINE Vec<T> candidate_slope(Vec<T> c, Vec<T> candidate) {
  if constexpr (!positive) return all<T>(T(1));
  return c >= T(0) ? all<T>(T(1)) : candidate * (T(1) - candidate);
}

template <class T, bool lstm, bool whole>
HS_INLINE Gate<T> gate_at(const T* row, int64_t units, Units<T, whole> part) {
  if constexpr (lstm)
    return gate_of<T>(closing<T>(part.get(row), part.get(row + units)));
  else
    return gate_of<T>(part.get(row));
}

// A slow change of h as such, so that rounding does not build up; a fast one as a mixture.
template <class T>
HS_INLINE Vec<T> moved(Gate<T> gate, Vec<T> h, Vec<T> candidate) {
  const Vec<T> drive = gate.take * candidate;
  return gate.keep > T(0.60653066) ? h + (drive - gate.take * h) : gate.keep * h + drive;
}

template <class T, bool lstm, bool positive, bool whole>
__attribute__((noinline)) void forward_column(const MinimalForward<T>& in, int64_t unit, Units<T, whole> part, int64_t t,
                                              int64_t steps, const T* rows, int64_t pitch) {
  constexpr int lines = lstm ? 3 : 2;
  const int64_t units = in.units;
  Vec<T> h = part.get((t ? in.final : in.start) + unit);
  for (int64_t s = 0; s < steps; ++s) {
    const T* row = rows + s * pitch + unit;
    const Vec<T> c = part.get(row + (lines - 1) * units);
    part.put(in.states + (t + s) * units + unit, h);
    if (in.lines)
      for (int g = 0; g < lines; ++g)
        part.put(in.lines + ((t + s) * lines + g) * units + unit, part.get(row + g * units));
    h = moved<T>(gate_at<T, lstm>(row, units, part), h, candidate_of<T, positive>(c));
  }
  part.put(in.final + unit, h);
}

template <class T, bool lstm, bool positive, bool whole>
__attribute__((noinline)) void backward_column(const MinimalBackward<T>& in, int64_t unit, Units<T, whole> part, int64_t t,
                                               int64_t steps) {
  constexpr int lines = lstm ? 3 : 2;
  const int64_t units = in.units;
  Vec<T> s = part.get(in.d_start + unit);
  for (int64_t at = t + steps - 1; at >= t; --at) {
    T* row = in.lines + at * lines * units + unit;
    const Vec<T> c = part.get(row + (lines - 1) * units), h = part.get(in.states + at * units + unit);
    const Vec<T> candidate = candidate_of<T, positive>(c);
    Gate<T> gate;
    if constexpr (lstm) {
      const Closing<T> e = closing<T>(part.get(row), part.get(row + units));
      gate = gate_of<T>(e);
      const Vec<T> d_take = s * (candidate - h) * gate.take * gate.keep;
      part.put(row, -d_take * (e.f / (e.one + e.f)));  // times sigmoid(-f)
      part.put(row + units, d_take * (e.i / (e.one + e.i)));
    } else {
      gate = gate_of<T>(part.get(row));
      part.put(row, s * (candidate - h) * gate.take * gate.keep);
    }
    part.put(row + (lines - 1) * units, s * gate.take * candidate_slope<T, positive>(c, candidate));
    s = gate.keep * s + part.get(in.d_states + at * units + unit);
  }
  part.put(in.d_start + unit, s);
}

// Calls body with two constants.
template <class F>
HS_INLINE void with_kind(MinimalKind kind, F&& body) {
  using Yes = std::true_type;
  using No = std::false_type;
  if (kind.lstm) return kind.positive ? body(Yes(), Yes()) : body(Yes(), No());
  return kind.positive ? body(No(), Yes()) : body(No(), No());
}

template <class T>
void project(const Outside<T>& from, int64_t numbers, int64_t t, int64_t steps, T* rows, int64_t pitch) {
  for (int64_t panel = 0; panel < panels_of<T>(numbers); ++panel)
    multiply_panel<T>(steps, from.rows + t * from.inputs, from.inputs, from.packed, numbers, from.inputs, panel,
                      rows + panel * WIDEST * Lanes<T>::count, from.bias, pitch);
}

template <class T>
void forward(MinimalKind kind, const MinimalForward<T>& in, int64_t begin, int64_t end, int64_t t, int64_t steps,
             const T* rows, int64_t pitch) {
  with_kind(kind, [&](auto lstm, auto positive) {
    over_units<T>(end - begin, [&](int64_t unit, auto part) {
      forward_column<T, lstm.value, positive.value>(in, begin + unit, part, t, steps, rows, pitch);
    });
  });
}

// Behind the end the last state stands.
template <class T>
void hold(const MinimalForward<T>& in) {
  const size_t bytes = size_t(in.units) * sizeof(T);
  if (in.length == 0) std::memcpy(in.final, in.start, bytes);
  for (int64_t t = in.length; t < in.time; ++t) std::memcpy(in.states + t * in.units, in.final, bytes);
}

// The adjoint of the last state, with those of all states behind the end; what depends on no step is zero.
template <class T>
void begin_back(MinimalKind kind, const MinimalBackward<T>& in) {
  const int64_t sequence = 0, behind = in.time - in.length, numbers = kind.gates() * in.units;
  const Rows rows{1, in.time, &sequence, &in.length};
  over_units<T>(in.units, [&](int64_t unit, auto part) {
    Vec<T> s = part.get(in.d_final + unit);
    for (int64_t t = in.time - 1; t >= in.length; --t) s += part.get(in.d_states + t * in.units + unit);
    part.put(in.d_start + unit, s);
  });
  std::memset(in.lines + in.length * numbers, 0, size_t(behind * numbers) * sizeof(T));
  if (in.outside.d_rows) clear_behind<T>(rows, in.outside.inputs, in.outside.d_rows);
}

template <class T>
void backward(MinimalKind kind, const MinimalBackward<T>& in, int64_t begin, int64_t end, int64_t t, int64_t steps) {
  with_kind(kind, [&](auto lstm, auto positive) {
    over_units<T>(end - begin, [&](int64_t unit, auto part) {
      backward_column<T, lstm.value, positive.value>(in, begin + unit, part, t, steps);
    });
  });
}

template <class T>
void pull(MinimalKind kind, const MinimalBackward<T>& in, int64_t t, int64_t steps) {
  if (!in.outside.d_rows) return;
  const int64_t sequence = 0;
  const Rows rows{1, in.time, &sequence, &in.length};
  const Scratch<T> sums(steps * WIDEST * Lanes<T>::count);
  pull_steps<T>(rows, in.outside, kind.gates() * in.units, t, steps, in.lines, sums);
}

template <class T>
constexpr MinimalKernels<T> kernels = {input_packing<T>, input_back_packing<T>, project<T>,  forward<T>,
                                       hold<T>,          begin_back<T>,         backward<T>, pull<T>};

}  // namespace

extern const MinimalTable minimal_table;
const MinimalTable minimal_table = {kernels<float>, kernels<double>};

}  // namespace HS_ISA
}  // namespace hs
