// The forward recursion of hidden Markov models of few states, vectorised over sequences: a belief is a vector for each
// state.
#pragma once
#include "kernels/hmm_belief.h"
#include "kernels/lanes.h"

namespace hs {
namespace HS_ISA {

template <class T, int K>
class ForwardAbreast {
 public:
  ForwardAbreast(const HmmForward<T>& in, int64_t begin, int64_t end)
      : in_(in), abreast_(in.lengths, begin, end, in.time), memory_((3 * K * (L + 1) + 6 * (L + 1)) * L) {
    T* next = memory_.get();
    for (T** rows : {&seen_, &joint_, &before_}) *rows = next, next += K * (L + 1) * L;
    for (T** column : {&top_, &sum_, &divisor_, &scales_, &total_, &evidence_}) *column = next, next += (L + 1) * L;
  }

  void run() {
    const T scale = power_of_scale<T>();
    for (int i = 0; i < L; ++i)
      for (int j = 0; j < K; ++j) before_[j * L + i] = in_.first[abreast_.sequence(i) * K + j] * scale;
    for (int j = 0; j < K; ++j) belief_[j] = load<T>(before_ + j * L);
    scale_ = all<T>(scale);
    for (int64_t t = 0; t < abreast_.longest; t += L) {
      const int64_t steps = std::min<int64_t>(L, abreast_.longest - t);
      bool ends = false;
      for (int64_t i = 0; i < abreast_.count; ++i) ends |= ends_within(i, t, steps);
      abreast_.read(in_.likelihoods, K, t, steps, seen_);
      exponentials(steps);
      if (ends || in_.predicted)
        advance<true>(t, steps);
      else
        advance<false>(t, steps);
      for (int64_t i = 0; ends && i < abreast_.count; ++i)
        if (ends_within(i, t, steps)) end(i, abreast_.lengths[i] - t);
      write(t, steps);
    }
    for (int64_t i = 0; i < abreast_.count; ++i)
      finish_forward<T>(in_, abreast_.begin + i, abreast_.lengths[i], last_[i], last_scale_[i]);
  }

 private:
  static constexpr int L = Lanes<T>::count;

  bool ends_within(int64_t lane, int64_t t, int64_t steps) const {
    const int64_t length = abreast_.lengths[lane];
    return length <= t + steps && (length > t || t == 0);
  }

  // The likelihoods of some steps, relative to the largest of each, in place of their logarithms.
  void exponentials(int64_t steps) {
    for (int64_t s = 0; s < steps; ++s) {
      Vec<T> row[K];
      for (int j = 0; j < K; ++j) row[j] = load<T>(seen_ + (s * K + j) * L);
      const Vec<T> top = tops_of<T, K>(row), shift = top > -T(INFINITY) ? top : Vec<T>{};
      store<T>(top_ + s * L, top);
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) store<T>(seen_ + (s * K + j) * L, exp_normal<T>(row[j] - shift));
    }
  }

  // What is computed behind the end of a sequence is never looked at.
  template <bool KEEP>
  void advance(int64_t t, int64_t steps) {
    Vec<T> belief[K], scale = scale_;
    for (int j = 0; j < K; ++j) belief[j] = belief_[j];
    for (int64_t s = 0; s < steps; ++s) {
      if (KEEP) keep(s, belief, scale);
      Vec<T> joint[K];
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) {
        joint[j] = rounded<T>(belief[j] * load<T>(seen_ + (s * K + j) * L));
        store<T>(joint_ + (s * K + j) * L, joint[j]);
      }
      Vec<T> sum = sums_of<T, K>(joint);
      store<T>(sum_ + s * L, sum);
      store<T>(divisor_ + s * L, scale);
      if (__builtin_expect(any_not_above<T>(sum, Scale<T>::doubtful), 0)) {
        keep(s, belief, scale);
        doubt(t, s);
        for (int j = 0; j < K; ++j) joint[j] = load<T>(joint_ + (s * K + j) * L);
        sum = load<T>(sum_ + s * L);
      }
      const Vec<T> factor = rescaling<T, Ints<T>>(sum);
      product_in_lanes<T, K>(joint, in_.matrix, belief);
      for (int j = 0; j < K; ++j) belief[j] *= factor;
      scale = sum * factor;
    }
    if (KEEP) keep(steps, belief, scale);
    for (int j = 0; j < K; ++j) belief_[j] = belief[j];
    scale_ = scale;
  }

  HS_INLINE void keep(int64_t s, const Vec<T>* belief, Vec<T> scale) {
    for (int j = 0; j < K; ++j) store<T>(before_ + (s * K + j) * L, belief[j]);
    store<T>(scales_ + s * L, scale);
  }

  // The step s of those from t on, anew where sums are too small.
  __attribute__((noinline)) void doubt(int64_t t, int64_t s) {
    for (int64_t i = 0; i < abreast_.count; ++i) {
      T& sum = sum_[s * L + i];
      if (sum > Scale<T>::doubtful || t + s >= abreast_.lengths[i]) continue;
      T belief[K], row[K];
      for (int j = 0; j < K; ++j) belief[j] = before_[(s * K + j) * L + i];
      const T* const seen = in_.likelihoods + (abreast_.sequence(i) * in_.time + t + s) * K;
      const Joint<T> found = by_logarithms<T>(belief, scales_[s * L + i], seen, K, row);
      for (int j = 0; j < K; ++j) joint_[(s * K + j) * L + i] = row[j];
      top_[s * L + i] = found.top, sum = found.sum, divisor_[s * L + i] = found.divisor;
    }
  }

  void end(int64_t lane, int64_t s) {
    for (int j = 0; j < K; ++j) last_[lane][j] = before_[(s * K + j) * L + lane];
    last_scale_[lane] = scales_[s * L + lane];
  }

  void write(int64_t t, int64_t steps) {
    for (int64_t s = 0; s < steps; ++s) {
      const Vec<T> sum = load<T>(sum_ + s * L), total = sum / load<T>(divisor_ + s * L);
      store<T>(total_ + s * L, total);
      store<T>(evidence_ + s * L, load<T>(top_ + s * L) + logarithm<T>(total));
      if (in_.filtered) multiply(joint_ + s * K * L, T(1) / sum);
      if (in_.predicted) multiply(before_ + s * K * L, T(1) / load<T>(scales_ + s * L));
    }
    abreast_.write(in_.total, 1, t, steps, total_);
    abreast_.write(in_.top, 1, t, steps, top_);
    abreast_.write(in_.evidence, 1, t, steps, evidence_);
    if (in_.filtered) abreast_.write(in_.filtered, K, t, steps, joint_);
    if (in_.predicted) abreast_.write(in_.predicted, K, t, steps, before_);
  }

  HS_INLINE static void multiply(T* row, Vec<T> factor) {
    for (int j = 0; j < K; ++j) store<T>(row + j * L, load<T>(row + j * L) * factor);
  }

  const HmmForward<T>& in_;
  const Abreast<T> abreast_;
  const Buffer<T> memory_;
  T *seen_, *joint_, *before_, *top_, *sum_, *divisor_, *scales_, *total_, *evidence_;  // of one block of steps
  Vec<T> belief_[K], scale_;
  T last_[L][K], last_scale_[L];
};

}  // namespace HS_ISA
}  // namespace hs
