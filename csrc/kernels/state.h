// States of several rows beside each other, and what every recurrent kernel does at the ends of a sequence.
#pragma once
#include "kernels/product.h"
#include "kernels/recurrent.h"
#include "scratch.h"

namespace hs {
namespace HS_ISA {

// A whole vector of units, or the first `lanes` of one.
template <class T, bool whole>
struct Units {
  int lanes;
  HS_INLINE Vec<T> get(const T* p) const { return whole ? load<T>(p) : load_some<T>(p, lanes); }
  HS_INLINE void put(T* p, Vec<T> v) const { whole ? store<T>(p, v) : store_some<T>(p, v, lanes); }
};

// Numbers between the rows of a matrix of so many columns: whole vectors, and not a power of two, whose rows would
// share a place in the cache.
template <class T>
constexpr int64_t stride_of(int64_t columns) {
  return (vectors_of<T>(columns) + 1) * Lanes<T>::count;
}

// Calls body(vector of units, Units) for all units; the last vector may be a part of one.
template <class T, class F>
HS_INLINE void over_units(int64_t units, F&& body) {
  constexpr int width = Lanes<T>::count;
  int64_t unit = 0;
  for (; unit + width <= units; unit += width) body(unit, Units<T, true>{width});
  if (unit < units) body(unit, Units<T, false>{int(units - unit)});
}

// The first states of the rows into `rows`, and to where they are kept; lanes behind the units are zero.
template <class T>
void begin_rows(const Rows& in, int64_t units, const T* start, T* states, T* final, T* rows) {
  const int64_t stride = stride_of<T>(units);
  for (int64_t r = 0; r < in.count; ++r) {
    const int64_t i = in.sequence[r];
    T* to = in.length[r] > 0 ? states + i * in.time * units : final + i * units;
    over_units<T>(units, [&](int64_t unit, auto part) {
      const Vec<T> v = part.get(start + i * units + unit);
      part.put(to + unit, v);
      store<T>(rows + r * stride + unit, v);
    });
  }
}

// Behind the end the last state stands.
template <class T>
void hold_rows(const Rows& in, int64_t units, T* states, const T* final) {
  for (int64_t r = 0; r < in.count; ++r) {
    const int64_t i = in.sequence[r];
    for (int64_t t = in.length[r]; t < in.time; ++t)
      std::memcpy(states + (i * in.time + t) * units, final + i * units, size_t(units) * sizeof(T));
  }
}

// The adjoints of the last states: their own and those of all the states behind the end. `d_states` may be null.
template <class T>
void end_rows(const Rows& in, int64_t units, const T* d_states, const T* d_final, T* rows) {
  const int64_t stride = stride_of<T>(units);
  for (int64_t r = 0; r < in.count; ++r) {
    const int64_t i = in.sequence[r];
    over_units<T>(units, [&](int64_t unit, auto part) {
      Vec<T> sum = part.get(d_final + i * units + unit);
      if (d_states)
        for (int64_t t = in.time - 1; t >= in.length[r]; --t) sum += part.get(d_states + (i * in.time + t) * units + unit);
      store<T>(rows + r * stride + unit, sum);
    });
  }
}

// What depends on no step is zero.
template <class T>
void clear_behind(const Rows& in, int64_t numbers, T* array) {
  for (int64_t r = 0; r < in.count; ++r) {
    T* const first = array + in.sequence[r] * in.time * numbers;
    std::memset(first + in.length[r] * numbers, 0, size_t((in.time - in.length[r]) * numbers) * sizeof(T));
  }
}

// Rows of vectors into an array with one row a sequence, such as the last states.
template <class T>
void put_rows(const Rows& in, int64_t units, const T* from, T* to) {
  const int64_t stride = stride_of<T>(units);
  for (int64_t r = 0; r < in.count; ++r)
    std::memcpy(to + in.sequence[r] * units, from + r * stride, size_t(units) * sizeof(T));
}

// Where the state after step t goes: among the states, or, after the last step, to the last ones.
template <class T>
HS_INLINE T* after_step(const Rows& in, int64_t units, int64_t r, int64_t t, T* states, T* final) {
  const int64_t i = in.sequence[r];
  return t + 1 < in.length[r] ? states + (i * in.time + t + 1) * units : final + i * units;
}

// rows = d_gates W + d_states[t] + what rows[r] holds where `adding`: the adjoints of the states before step t.
template <class T, bool adding>
__attribute__((noinline)) void pull_rows(const Rows& in, int64_t active, int64_t units, int64_t inputs, int64_t t,
                                         const T* d_gates, const T* packed, const T* d_states, T* sums, T* rows) {
  constexpr int width = Lanes<T>::count;
  const int64_t stride = stride_of<T>(units);
  for (int64_t panel = 0; panel < panels_of<T>(units); ++panel) {
    const int vectors = multiply_panel<T>(active, d_gates, stride_of<T>(inputs), packed, units, inputs, panel, sums);
    const int64_t first = panel * WIDEST * width;
    for (int64_t r = 0; r < active; ++r) {
      const T* d_state = d_states + (in.sequence[r] * in.time + t) * units + first;
      const T* sum = sums + r * vectors * width;
      T* row = rows + r * stride + first;
      const int64_t left = units - first;
      over_units<T>(left < vectors * width ? left : vectors * width, [&](int64_t unit, auto part) {
        Vec<T> d = load<T>(sum + unit) + part.get(d_state + unit);
        if constexpr (adding) d += load<T>(row + unit);
        store<T>(row + unit, d);
      });
    }
  }
}

}  // namespace HS_ISA
}  // namespace hs
