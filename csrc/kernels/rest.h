// When a matrix that is moved on and on by the same rule comes to rest.
#pragma once
#include <limits>

#include "kernels/roots.h"

namespace hs {
namespace HS_ISA {

// Brent's search for a matrix that was met before: `period` steps ago stood the same bit for bit, or, where that is a
// while ago, the same but for rounding. Rounding may keep a matrix from standing still for ever. One that moved by less
// than a few units in the last place in LONG steps moves by less than half a unit in each, which a sum with it drops.
template <class T>
class Rest {
 public:
  int64_t period = 0;

  // Of a covariance, or of its root.
  Rest(Columns<T> now, Columns<T> marked, int size, bool root) : now_(now), marked_(marked), size_(size), root_(root) {}

  // Asked at every step t = 0, 1, ... in turn.
  bool reached(int64_t t) {
    period = t - at_;
    const bool same = t > 0 && std::memcmp(now_.data, marked_.data, bytes()) == 0;
    if (t > 0 && period < limit_) return same;
    const bool still = same || (period >= LONG && near());
    std::memcpy(marked_.data, now_.data, bytes());
    limit_ = t > 0 ? 2 * limit_ : 1;
    at_ = t;
    return still;
  }

 private:
  static constexpr int64_t LONG = 32;
  static constexpr T UNITS = 8;

  size_t bytes() const { return sizeof(T) * size_t(size_) * size_t(now_.padded); }

  // Entries are measured by deviations, so that the units of a state do not matter: those of a covariance by the product
  // of two, those of a root by that of their row, which is its length. Nothing that is not finite is settled.
  bool near() const {
    constexpr T fine = UNITS * std::numeric_limits<T>::epsilon();
    T deviation[LARGEST_ROOT];
    for (int i = 0; i < size_; ++i) {
      T square = 0;
      for (int j = 0; j < size_; ++j) square += now_.at(i, j) * now_.at(i, j);
      deviation[i] = std::sqrt(root_ ? square : now_.at(i, i));
      if (!(deviation[i] <= std::numeric_limits<T>::max())) return false;
    }
    for (int i = 0; i < size_; ++i)
      for (int j = 0; j < size_; ++j) {
        const T due = fine * deviation[i] * (root_ ? T(1) : deviation[j]);
        if (!(std::abs(now_.at(i, j) - marked_.at(i, j)) <= due)) return false;
      }
    return true;
  }

  const Columns<T> now_, marked_;
  const int size_;
  const bool root_;
  int64_t at_ = 0, limit_ = 1;
};

}  // namespace HS_ISA
}  // namespace hs
