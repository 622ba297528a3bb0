// The most probable path of a hidden Markov model: what its recursion over states and that over sequences share.
#pragma once
#include "kernels/hmm_paths.h"
#include "kernels/largest.h"

namespace hs {
namespace HS_ISA {

// The log-probability of a path's state at step t with its observation, from the state before where t is not the first.
template <class T>
HS_INLINE T step_of(const HmmBest<T>& in, int64_t pitch, int64_t sequence, int64_t t, int64_t before, int64_t state) {
  const T move = t > 0 ? in.matrix[before * pitch + state] : in.first[sequence * in.states + state];
  return in.likelihoods[(sequence * in.time + t) * in.states + state] + move;
}

// What stands behind the end of a path.
template <class T>
void finish_best(const HmmBest<T>& in, int64_t sequence, int64_t length) {
  const int64_t from = sequence * in.time;
  for (int64_t t = from + length; t < from + in.time; ++t) {
    in.path[t] = length > 0 ? in.path[from + length - 1] : 0;
    in.steps[t] = T(0);
  }
}

}  // namespace HS_ISA
}  // namespace hs
