// Resampling by strata. Sums are formed in the order in which a parallel scan forms them, pair by pair, so that every
// number is that of the same computation in XLA.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/vec.h"
#include "scratch.h"

namespace hs {
namespace HS_ISA {

// So many more ancestors than particles can be written.
constexpr int64_t OVERHANG = 4;

// What was cumulated so far, as whole numbers and fractions below one.
template <class T>
HS_INLINE void add(int32_t w1, T f1, int32_t w2, T f2, int32_t& whole, T& fraction) {
  const T sum = f1 + f2;
  const bool over = sum >= T(1);
  whole = w1 + w2 + int32_t(over);
  fraction = sum - T(over);
}

// All sums up to each of `count` numbers: neighbours are added, the half as many are cumulated in the same way, and
// every other sum lacks one number.
template <class T>
void cumulate(int32_t* whole, T* fraction, int64_t count, int32_t* more_whole, T* more_fraction) {
  if (count < 2) return;
  const int64_t half = count / 2;
  for (int64_t i = 0; i < half; ++i)
    add<T>(whole[2 * i], fraction[2 * i], whole[2 * i + 1], fraction[2 * i + 1], more_whole[i], more_fraction[i]);
  cumulate<T>(more_whole, more_fraction, half, more_whole + half, more_fraction + half);
  for (int64_t i = 1; 2 * i < count; ++i)
    add<T>(more_whole[i - 1], more_fraction[i - 1], whole[2 * i], fraction[2 * i], whole[2 * i], fraction[2 * i]);
  for (int64_t i = 0; i < half; ++i) whole[2 * i + 1] = more_whole[i], fraction[2 * i + 1] = more_fraction[i];
}

template <class T>
class StrataChoice {
 public:
  explicit StrataChoice(int64_t count) : count_(count), whole_(2 * count), fraction_(2 * count) {}

  // `position(i)` is that within stratum i; `ancestors` has room for OVERHANG more.
  template <class F>
  HS_INLINE void choose(const T* shares, F&& position, int32_t* ancestors) {
    const int64_t count = count_;
    int32_t* const whole = whole_;
    T* const fraction = fraction_;
    int64_t last = -1;
    for (int64_t i = 0; i < count; ++i) {
      const T floored = std::floor(shares[i]);
      whole[i] = int32_t(floored);
      fraction[i] = shares[i] - floored;
    }
    for (last = count - 1; last >= 0 && !(shares[last] > 0);) --last;
    cumulate<T>(whole, fraction, count, whole + count, fraction + count);
    const T excess = T(whole[count - 1] - int32_t(count)) + fraction[count - 1];
    int32_t* const below = whole + count;  // how many descendants the particles up to each have together
    for (int64_t i = 0; i < last; ++i) {
      const T share = (T(whole[i]) + fraction[i]) / T(count), left = fraction[i] - excess * share;
      const T floored = std::floor(left);
      const int32_t number = whole[i] + int32_t(floored);
      const int32_t inside = std::min(std::max(number, 0), int32_t(count - 1));
      const int32_t found = std::min(std::max(number, 0), int32_t(count)) +
                            int32_t((number < int32_t(count)) & (position(inside) < left - floored));
      below[i] = shares[i] > 0 ? found : 0;
    }
    for (int64_t i = std::max<int64_t>(last, 0); i < count; ++i) below[i] = int32_t(count);
    int32_t reached = 0;
    for (int32_t i = 0; i < int32_t(count); ++i) {
      // Most have few descendants: so many are written whether they are there or not, and the next writes over them.
      for (int k = 0; k < OVERHANG; ++k) ancestors[reached + k] = i;
      if (__builtin_expect(below[i] > reached + OVERHANG, 0))
        for (int32_t k = reached + int32_t(OVERHANG); k < below[i]; ++k) ancestors[k] = i;
      reached = std::max(reached, below[i]);
    }
  }

 private:
  int64_t count_;
  hs::Scratch<int32_t> whole_;
  hs::Scratch<T> fraction_;
};

}  // namespace HS_ISA
}  // namespace hs
