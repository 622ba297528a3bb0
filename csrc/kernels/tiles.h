// Squares of as many vectors as a vector has lanes, whose rows and columns change places in registers.
#pragma once
#include <utility>

#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

// The items in even places of two vectors, or in odd ones, those of the first before those of the second, within windows
// of N items of U numbers each.
template <class T, int U, int N, bool ODD, int... P>
HS_INLINE Vec<T> dealt(Vec<T> a, Vec<T> b, std::integer_sequence<int, P...>) {
#ifdef HS_SHUFFLES
  return __builtin_shufflevector(
      a, b, (P / U % N < N / 2 ? 0 : Lanes<T>::count) + P / (U * N) * (U * N) + (P / U % (N / 2) * 2 + ODD) * U + P % U...);
#else
  return Vec<T>{(P / U % N < N / 2 ? a : b)[P / (U * N) * (U * N) + (P / U % (N / 2) * 2 + ODD) * U + P % U]...};
#endif
}

// Rows at distances S, 2 S, ... are dealt, until a window has all of them.
template <class T, int U, int N, int S>
HS_INLINE void deal(Vec<T> (&tile)[Lanes<T>::count]) {
  if constexpr (S < U * N) {
    const auto lanes = std::make_integer_sequence<int, Lanes<T>::count>();
#pragma GCC unroll 16
    for (int i = 0; i < Lanes<T>::count; ++i)
      if (!(i & S)) {
        const Vec<T> a = tile[i], b = tile[i + S];
        tile[i] = dealt<T, U, N, false>(a, b, lanes);
        tile[i + S] = dealt<T, U, N, true>(a, b, lanes);
      }
    deal<T, U, N, 2 * S>(tile);
  }
}

// First within 16 bytes, then these as a whole: machines have an instruction for each.
template <class T>
HS_INLINE void transpose(Vec<T> (&tile)[Lanes<T>::count]) {
  constexpr int within = 16 / sizeof(T);
  deal<T, 1, within, 1>(tile);
  deal<T, within, Lanes<T>::count / within, within>(tile);
}

}  // namespace HS_ISA
}  // namespace hs
