// The way back through hidden Markov models: what its recursion over states and that over sequences share.
#pragma once
#include <algorithm>
#include <cstring>

#include "kernels/hmm_backward.h"
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

constexpr int64_t SETTLED = 64;  // so many pieces of time are summed before they join the rest: precise over long time

// Steps of a piece of time, of rows of so many numbers.
constexpr int64_t piece_for(int64_t pitch) {
  constexpr int64_t kept = 8192;  // numbers of one sequence that are worked on at a time
  return std::max<int64_t>(16, std::min<int64_t>(256, kept / pitch));
}

template <class T>
HS_INLINE void add_row(const T* rows, int64_t at, int64_t states, T* to) {
  for (int64_t j = 0; j < states; ++j) to[j] += rows[at * states + j];
}

// What stands behind the end; the adjoint of the first belief; and what the matrix gets, from sums in rows of `pitch`.
template <class T>
void finish_backward(const HmmBackward<T>& in, int64_t sequence, const T* adjoint, const T* sums, int64_t pitch) {
  const int64_t states = in.states, length = in.lengths[sequence], from = sequence * in.time;
  for (int64_t t = from + length; t < from + in.time; ++t) {
    T* const row = in.rows + t * states;
    if (in.smooth && length > 0)
      std::memcpy(row, in.rows + (from + length - 1) * states, size_t(states) * sizeof(T));
    else
      std::memset(row, 0, size_t(states) * sizeof(T));
  }
  if (in.first) {
    T* const first = in.first + sequence * states;
    for (int64_t j = 0; j < states; ++j) first[j] = adjoint[j];
    if (in.d_filtered && length == 0)
      for (int64_t t = from; t < from + in.time; ++t) add_row<T>(in.d_filtered, t, states, first);
  }
  T* const moves = in.moves + sequence * states * states;
  for (int64_t i = 0; i < states; ++i)
    for (int64_t j = 0; j < states; ++j) {
      const T sum = sums[i * pitch + j];
      moves[i * states + j] = in.smooth ? sum * in.plain[i * states + j] : sum;
    }
}

}  // namespace HS_ISA
}  // namespace hs
