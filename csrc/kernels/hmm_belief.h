// Beliefs of hidden Markov models on the way forward, which are held near a large power of two: what their recursion
// over states and that over sequences share.
#pragma once
#include "kernels/hmm_forward.h"
#include "kernels/logarithm.h"

namespace hs {
namespace HS_ISA {

template <class T>
struct Scale;
template <>
struct Scale<float> {
  static constexpr int power = 60;             // beliefs sum to about 2^power
  static constexpr float doubtful = 0x1p-30f;  // below, likelihoods that matter may have underflowed
};
template <>
struct Scale<double> {
  static constexpr int power = 500;
  static constexpr double doubtful = 0x1p-400;
};

// The power of two that brings a sum, or a vector of sums, to the scale.
template <class T, class Bits, class Sum>
HS_INLINE Sum rescaling(Sum sum) {
  using L = Lanes<T>;
  Bits bits;
  std::memcpy(&bits, &sum, sizeof bits);
  const Bits power = (2 * L::bias + Scale<T>::power - (bits >> L::mantissa)) << L::mantissa;
  Sum factor;
  std::memcpy(&factor, &power, sizeof factor);
  return factor;
}

template <class T>
T power_of_scale() {
  return std::ldexp(T(1), Scale<T>::power);
}

// What one step of one sequence found: top + log(sum / divisor) is its evidence.
template <class T>
struct Joint {
  T top, sum, divisor;
};

// The joint weights of one step by their logarithms, where likelihoods relative to the largest of all are too small:
// relative to the largest joint weight nothing that matters underflows. Where none is possible the belief, which is
// `scale` times a distribution, stays.
template <class T>
__attribute__((noinline)) Joint<T> by_logarithms(const T* belief, T scale, const T* seen, int64_t states, T* row) {
  constexpr int W = Lanes<T>::count;
  const T unit = logarithm<T>(all<T>(scale))[0];
  T largest = -T(INFINITY), top = largest;
  for (int64_t j = 0; j < states; ++j) largest = belief[j] > T(0) && seen[j] > largest ? seen[j] : largest;
  const T shift = largest > -T(INFINITY) ? largest : T(0);
  for (int64_t j = 0; j < states; j += W) {
    const int count = int(states - j < W ? states - j : W);
    const Vec<T> joint = logarithm<T>(load_some<T>(belief + j, count)) - unit + (load_some<T>(seen + j, count) - shift);
    store_some<T>(row + j, joint, count);
    for (int i = 0; i < count; ++i) top = joint[i] > top ? joint[i] : top;
  }
  if (!(top > -T(INFINITY))) {
    std::memcpy(row, belief, size_t(states) * sizeof(T));
    return {top + shift, scale, scale};
  }
  T sum = 0;
  for (int64_t j = 0; j < states; j += W) {
    const int count = int(states - j < W ? states - j : W);
    const Vec<T> weights = exp<T>(load_some<T>(row + j, count, -T(INFINITY)) - top);
    store_some<T>(row + j, weights, count);
    for (int i = 0; i < count; ++i) sum += weights[i];
  }
  return {top + shift, sum, T(1)};
}

// The last belief of a sequence that ended, and what stands behind the end.
template <class T>
void finish_forward(const HmmForward<T>& in, int64_t sequence, int64_t length, const T* belief, T scale) {
  const int64_t states = in.states, from = sequence * in.time;
  T* const final = in.final + sequence * states;
  for (int64_t j = 0; j < states; ++j) final[j] = belief[j] / scale;
  const T* const last = length > 0 && in.filtered ? in.filtered + (from + length - 1) * states : final;
  for (int64_t t = from + length; t < from + in.time; ++t) {
    in.evidence[t] = in.top[t] = T(0);
    in.total[t] = T(1);
    if (in.predicted) std::memcpy(in.predicted + t * states, final, size_t(states) * sizeof(T));
    if (in.filtered) std::memcpy(in.filtered + t * states, last, size_t(states) * sizeof(T));
  }
}

}  // namespace HS_ISA
}  // namespace hs
