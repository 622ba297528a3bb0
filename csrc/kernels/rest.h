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

  Rest(Columns<T> now, Columns<T> marked, int size) : now_(now), marked_(marked), size_(size) {}

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

  // Rows are measured by their own length, so that the units of a state do not matter.
  bool near() const {
    for (int i = 0; i < size_; ++i) {
      T length = 0, moved = 0;
      for (int j = 0; j < size_; ++j) {
        const T step = std::abs(now_.at(i, j) - marked_.at(i, j));
        length += now_.at(i, j) * now_.at(i, j);
        moved = step > moved ? step : moved;
      }
      if (!(moved <= UNITS * std::numeric_limits<T>::epsilon() * std::sqrt(length))) return false;
    }
    return true;
  }

  const Columns<T> now_, marked_;
  const int size_;
  int64_t at_ = 0, limit_ = 1;
};

}  // namespace HS_ISA
}  // namespace hs
