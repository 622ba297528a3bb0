// Which of many numbers is the largest.
#pragma once
#include "kernels/rows.h"

namespace hs {
namespace HS_ISA {

template <class T>
using Integer = typename Lanes<T>::integer;

// The first place of the largest of `count` numbers f(j, lanes), vectors of which are computed from place j on.
template <class T, int W, class F>
HS_INLINE int64_t first_largest(int64_t count, F&& values) {
  typedef typename Wide<T, W>::integers Places;
  Row<T, W> best = row_of<T, W>(-T(INFINITY));
  Places where = places<T, W>();
  for (int64_t j = 0; j < count; j += W) {
    const Row<T, W> v = values(j);
    const auto better = v > best;
    where = better ? places<T, W>() + Integer<T>(j) : where;
    best = better ? v : best;
  }
  const T top = max_of<T, W>(best);
  int64_t first = count;
  for (int i = 0; i < W; ++i) first = best[i] == top && where[i] < first ? where[i] : first;
  return top > -T(INFINITY) ? first : 0;
}

}  // namespace HS_ISA
}  // namespace hs
