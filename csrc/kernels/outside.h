// What comes from outside to the gates of a recurrent network: products with the inputs, a few steps of all rows at a
// time, which stay in the cache until the recurrence needs them.
#pragma once
#include "kernels/state.h"

namespace hs {
namespace HS_ISA {

constexpr int64_t STEPS_TOGETHER = 12;  // whole tiles of rows

// Elements of `numbers` numbers: those that were given, or those of the steps from the last `reach` on.
template <class T>
class Elements {
 public:
  Elements(const Rows& rows, const Outside<T>& from, int64_t numbers)
      : rows_(rows),
        from_(from),
        numbers_(numbers),
        stride_(from.elements ? numbers : stride_of<T>(numbers)),
        steps_(steps_for(rows, stride_)),
        first_(-steps_),
        chunk_(from.elements ? 0 : rows.count * steps_ * stride_) {}

  // Before step t, which the first `active` rows have.
  HS_INLINE void reach(int64_t t, int64_t active) {
    if (!from_.elements && t == first_ + steps_) compute(first_ = t, active);
  }

  HS_INLINE const T* of(int64_t row, int64_t t) const {
    if (from_.elements) return from_.elements + (rows_.sequence[row] * rows_.time + t) * numbers_;
    return chunk_ + (row * steps_ + t - first_) * stride_;
  }

  // From the numbers of one step of a row to those of the next.
  int64_t stride() const { return stride_; }

 private:
  // So many steps that the elements take half of a cache of a megabyte, if that is enough for whole tiles.
  static int64_t steps_for(const Rows& rows, int64_t stride) {
    const int64_t most = (int64_t(1) << 19) / (rows.count * stride * int64_t(sizeof(T)) + 1);
    return most < STEPS_TOGETHER ? STEPS_TOGETHER / 2 : most < 4 * STEPS_TOGETHER ? STEPS_TOGETHER : 4 * STEPS_TOGETHER;
  }

  __attribute__((noinline)) void compute(int64_t t, int64_t active) {
    constexpr int width = Lanes<T>::count;
    for (int64_t panel = 0; panel < panels_of<T>(numbers_); ++panel)
      for (int64_t r = 0; r < active; ++r) {
        const int64_t left = rows_.length[r] - t, steps = left < steps_ ? left : steps_;
        const T* in = from_.rows + (rows_.sequence[r] * rows_.time + t) * from_.inputs;
        T* out = chunk_ + r * steps_ * stride_ + panel * WIDEST * width;
        multiply_panel<T>(steps, in, from_.inputs, from_.packed, numbers_, from_.inputs, panel, out, from_.bias, stride_);
      }
  }

  const Rows& rows_;
  const Outside<T>& from_;
  int64_t numbers_, stride_, steps_, first_;  // the first step of the chunk
  Scratch<T> chunk_;
};

// d_rows[t] = d_elements[t] W for `steps` steps from t on, of every row that has them.
template <class T>
__attribute__((noinline)) void pull_steps(const Rows& rows, const OutsideBack<T>& to, int64_t numbers, int64_t t,
                                          int64_t steps, const T* d_elements, T* sums) {
  constexpr int width = Lanes<T>::count;
  for (int64_t panel = 0; panel < panels_of<T>(to.inputs); ++panel)
    for (int64_t r = 0; r < rows.count && rows.length[r] > t; ++r) {
      const int64_t step = rows.sequence[r] * rows.time + t, left = rows.length[r] - t;
      const int64_t count = left < steps ? left : steps, first = panel * WIDEST * width;
      const int vectors = multiply_panel<T>(count, d_elements + step * numbers, numbers, to.packed, to.inputs, numbers,
                                            panel, sums);
      const int64_t columns = to.inputs - first < vectors * width ? to.inputs - first : vectors * width;
      for (int64_t s = 0; s < count; ++s)
        over_units<T>(columns, [&](int64_t column, auto part) {
          part.put(to.d_rows + (step + s) * to.inputs + first + column, load<T>(sums + s * vectors * width + column));
        });
    }
}

// After step t, from the last to the first: the adjoints of the inputs of a few steps, as soon as they are complete.
template <class T>
class PulledInputs {
 public:
  PulledInputs(const Rows& rows, const OutsideBack<T>& to, int64_t numbers)
      : rows_(rows), to_(to), numbers_(numbers), sums_(STEPS_TOGETHER * WIDEST * Lanes<T>::count) {
    if (to.d_rows) clear_behind<T>(rows, to.inputs, to.d_rows);
  }
  HS_INLINE void after(int64_t t, const T* d_elements) {
    if (to_.d_rows && t % STEPS_TOGETHER == 0)
      pull_steps<T>(rows_, to_, numbers_, t, STEPS_TOGETHER, d_elements, sums_);
  }

 private:
  const Rows& rows_;
  const OutsideBack<T>& to_;
  int64_t numbers_;
  Scratch<T> sums_;
};

}  // namespace HS_ISA
}  // namespace hs
