// Sums over time of outer products of rows, from the last step on: what becomes of a matrix that every step used.
#pragma once
#include "kernels/rows.h"

namespace hs {
namespace HS_ISA {

template <class T, int W, int I, int J>
HS_INLINE void outer_tile(const T* left, int64_t apart, const T* right, int64_t steps, int64_t pitch, T* sums) {
  Row<T, W> part[I][J] = {};
  for (int64_t t = steps - 1; t >= 0; --t) {
    Row<T, W> columns[J];
    for (int j = 0; j < J; ++j) columns[j] = get<T, W>(right + t * pitch + j * W);
    for (int i = 0; i < I; ++i)
      for (int j = 0; j < J; ++j) part[i][j] += left[t * apart + i] * columns[j];
  }
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < J; ++j) {
      T* const at = sums + i * pitch + j * W;
      put<T, W>(at, get<T, W>(at) + part[i][j]);
    }
}

template <class T, int W, int J>
HS_INLINE int64_t outer_columns(const T* left, int64_t apart, const T* right, int64_t steps, int64_t states, int64_t pitch,
                                T* sums, int64_t j) {
  for (; j + J * W <= pitch; j += J * W) {
    int64_t i = 0;
    for (; i + 4 <= states; i += 4)
      outer_tile<T, W, 4, J>(left + i, apart, right + j, steps, pitch, sums + i * pitch + j);
    for (; i < states; ++i) outer_tile<T, W, 1, J>(left + i, apart, right + j, steps, pitch, sums + i * pitch + j);
  }
  return j;
}

// sums[i][j] += sum over t of left[t][i] right[t][j], the right in padded rows, rows of the left `apart` numbers apart.
// Sums of one call are added as a whole.
template <class T, int W>
inline void add_outer(const T* left, int64_t apart, const T* right, int64_t steps, int64_t states, int64_t pitch, T* sums) {
  int64_t j = outer_columns<T, W, MANY_REGISTERS ? 4 : 2>(left, apart, right, steps, states, pitch, sums, 0);
  outer_columns<T, W, 1>(left, apart, right, steps, states, pitch, sums, j);
}

}  // namespace HS_ISA
}  // namespace hs
