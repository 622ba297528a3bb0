// The way back through hidden Markov models of few states, vectorised over sequences: the recursion of `few` in
// families/hmm_backward.cpp, where every number is a vector.
#pragma once
#include "kernels/hmm_adjoint.h"
#include "kernels/lanes.h"

namespace hs {
namespace HS_ISA {

template <class T, int K>
class BackwardAbreast {
 public:
  BackwardAbreast(const HmmBackward<T>& in, int64_t begin, int64_t end)
      : in_(in), abreast_(in.lengths, begin, end, in.time), memory_((4 * K * (L + 1) + 3 * L + 3 * K * K) * L) {
    T* next = memory_.get();
    for (T** rows : {&filtered_, &ratios_, &adjoints_, &results_}) *rows = next, next += K * (L + 1) * L;
    for (T** column : {&top_, &total_, &slopes_}) *column = next, next += L * L;
    for (T** square : {&part_, &recent_, &sums_}) *square = next, next += K * K * L;
  }

  void run() {
    std::memset(memory_.get(), 0, size_t((4 * K * (L + 1) + 3 * L + 3 * K * K) * L) * sizeof(T));
    for (int j = 0; j < K; ++j) chain_[j] = Vec<T>{};
    expected_ = Vec<T>{}, known_ = Ints<T>{};
    for (int64_t t = (abreast_.longest - 1) / L * L; t >= 0; t -= L) {
      const int64_t steps = std::min<int64_t>(L, abreast_.longest - t);
      std::memcpy(adjoints_ + steps * K * L, adjoints_, size_t(K * L) * sizeof(T));
      read(t, steps);
      if (in_.smooth)
        retreat<true>(t, steps);
      else
        retreat<false>(t, steps);
      abreast_.write(in_.rows, K, t, steps, results_);
      add_outer(steps);
      if (t % PIECE == 0) settle(t);
    }
    finish();
  }

 private:
  static constexpr int L = Lanes<T>::count, W = width_in_lanes(K);
  static constexpr int64_t PIECE = piece_for(W);
  static_assert(PIECE % L == 0, "a piece of time is some blocks of steps");

  HS_INLINE static T* row(T* rows, int64_t s, int j) { return rows + (s * K + j) * L; }

  // f and g of some steps.
  void read(int64_t t, int64_t steps) {
    abreast_.read(in_.filtered, K, t, steps, filtered_);
    abreast_.read(in_.likelihoods, K, t, steps, ratios_);
    abreast_.read(in_.top, 1, t, steps, top_);
    abreast_.read(in_.total, 1, t, steps, total_);
    if (in_.d_evidence) abreast_.read(in_.d_evidence, 1, t, steps, slopes_);
    for (int64_t s = 0; s < steps; ++s) {
      const Vec<T> top = load<T>(top_ + s * L), factor = T(1) / load<T>(total_ + s * L);
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) {
        const Vec<T> seen = load<T>(row(ratios_, s, j));
        const Vec<T> likely = exp_normal<T>(top > -T(INFINITY) ? seen - top : Vec<T>{}) * factor;
        store<T>(row(ratios_, s, j), load<T>(row(filtered_, s, j)) > T(0) ? likely : Vec<T>{});
      }
    }
  }

  // A lane is idle until its sequence begins, from its end: what it did before is forgotten.
  template <bool SMOOTH>
  void retreat(int64_t t, int64_t steps) {
    Vec<T> chain[K], expected = expected_;
    Ints<T> known = known_;
    for (int j = 0; j < K; ++j) chain[j] = chain_[j];
    for (int64_t s = steps - 1; s >= 0; --s) {
      const bool begins = t + s + 1 >= abreast_.shortest && begin(t, s, steps);
      if (__builtin_expect(begins, 0))
        for (int j = 0; j < K; ++j) chain[j] = last_ ? load<T>(row(adjoints_, s + 1, j)) : chain[j];
      const Vec<T> top = load<T>(top_ + s * L), slope = load<T>(slopes_ + s * L);
      Vec<T> moved[K], weighed[K];
      product_in_lanes<T, K>(chain, in_.matrix, moved);
      const bool special = begins || any_not_above<T>(top, -T(INFINITY));
      if (__builtin_expect(SMOOTH && begins, 0))
        for (int j = 0; j < K; ++j) moved[j] = last_ ? all<T>(T(1)) : moved[j];
      for (int j = 0; j < K; ++j) weighed[j] = rounded<T>(load<T>(row(filtered_, s, j)) * moved[j]);
      const Vec<T> sum = sums_of<T, K>(weighed);
      const Vec<T> factor = T(1) / sum, shift = slope - sum, ahead = slope - (known ? expected : sum);
      Vec<T> adjoint[K], result[K];
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) {
        const Vec<T> g = load<T>(row(ratios_, s, j)), v = SMOOTH ? moved[j] * factor : moved[j] + shift;
        chain[j] = g * (SMOOTH ? moved[j] : moved[j] + ahead);
        adjoint[j] = g * v;
        result[j] = load<T>(row(filtered_, s, j)) * v;
      }
      expected = slope;
      known = Ints<T>{} - 1;
      if (__builtin_expect(special, 0)) {
        const Ints<T> possible = top > -T(INFINITY), anew = begins ? last_ | ~possible : ~possible;
        for (int j = 0; j < K; ++j) {
          if (!SMOOTH) adjoint[j] = possible ? adjoint[j] : moved[j];
          if (!SMOOTH) result[j] = possible ? result[j] : Vec<T>{};
          chain[j] = anew ? adjoint[j] : chain[j];
        }
        known = ~anew;
      }
      for (int j = 0; j < K; ++j) store<T>(row(adjoints_, s, j), adjoint[j]), store<T>(row(results_, s, j), result[j]);
    }
    for (int j = 0; j < K; ++j) chain_[j] = chain[j];
    expected_ = expected;
    known_ = known;
  }

  // Starts the sequences whose last step is s of those from t on, and says whether there are any.
  __attribute__((noinline)) bool begin(int64_t t, int64_t s, int64_t steps) {
    bool any = false;
    last_ = Ints<T>{};
    for (int64_t i = 0; i < abreast_.count; ++i) {
      if (abreast_.lengths[i] != t + s + 1) continue;
      any = true;
      last_[i] = -1;
      clear(i);
      for (int j = 0; j < K; ++j) {
        row(adjoints_, s + 1, j)[i] = in_.smooth ? T(0) : in_.d_final[(abreast_.begin + i) * K + j];
        for (int64_t later = s + 2; later <= steps; ++later) row(adjoints_, later, j)[i] = T(0);
      }
    }
    return any;
  }

  void clear(int64_t lane) {
    for (int64_t k = 0; k < K * K; ++k) part_[k * L + lane] = recent_[k * L + lane] = sums_[k * L + lane] = T(0);
  }

  // The outer products of f_t and a_{t+1}, from the last step on, I rows at a time.
  template <int I, int FROM = 0>
  void add_rows(int64_t steps) {
    if constexpr (FROM + I <= K) {
      Vec<T> part[I][K];
      for (int i = 0; i < I; ++i)
        for (int j = 0; j < K; ++j) part[i][j] = load<T>(part_ + ((FROM + i) * K + j) * L);
      for (int64_t s = steps - 1; s >= 0; --s)
#pragma GCC unroll 8
        for (int j = 0; j < K; ++j) {
          const Vec<T> a = load<T>(row(adjoints_, s + 1, j));
#pragma GCC unroll 8
          for (int i = 0; i < I; ++i) part[i][j] += load<T>(row(filtered_, s, FROM + i)) * a;
        }
      for (int i = 0; i < I; ++i)
        for (int j = 0; j < K; ++j) store<T>(part_ + ((FROM + i) * K + j) * L, part[i][j]);
      add_rows<I, FROM + I>(steps);
    } else if constexpr (FROM < K) {
      add_rows<K - FROM, FROM>(steps);
    }
  }

  void add_outer(int64_t steps) {
    constexpr int most = (MANY_REGISTERS ? 25 : 10) / K;  // rows of sums that registers hold
    add_rows<(most < 1 ? 1 : most > K ? K : most)>(steps);
  }

  // The piece of time from t on is done: its sums are added, and the next one begins anew.
  void settle(int64_t t) {
    for (int64_t k = 0; k < K * K * L; k += L) {
      store<T>(recent_ + k, load<T>(recent_ + k) + load<T>(part_ + k));
      store<T>(part_ + k, Vec<T>{});
    }
    for (int64_t i = 0; i < abreast_.count; ++i) {
      const int64_t pieces = (abreast_.lengths[i] - t + PIECE - 1) / PIECE;
      if (pieces > 0 && pieces % SETTLED == 0)
        for (int64_t k = i; k < K * K * L; k += L) sums_[k] += recent_[k], recent_[k] = T(0);
    }
    for (int j = 0; j < K; ++j) chain_[j] = load<T>(row(adjoints_, 0, j));
    known_ = Ints<T>{};
  }

  void finish() {
    for (int64_t i = 0; i < abreast_.count; ++i) {
      T adjoint[K], sums[K * K];
      const int64_t sequence = abreast_.begin + i;
      if (abreast_.lengths[i] == 0) clear(i);
      for (int j = 0; j < K; ++j) adjoint[j] = row(adjoints_, 0, j)[i];
      if (in_.d_final && abreast_.lengths[i] == 0) std::memcpy(adjoint, in_.d_final + sequence * K, sizeof adjoint);
      for (int64_t k = 0; k < K * K; ++k) sums[k] = sums_[k * L + i] + recent_[k * L + i];
      finish_backward<T>(in_, sequence, adjoint, sums, K);
    }
  }

  const HmmBackward<T>& in_;
  const Abreast<T> abreast_;
  const Buffer<T> memory_;
  T *filtered_, *ratios_, *adjoints_, *results_, *top_, *total_, *slopes_;  // of one block of steps
  T *part_, *recent_, *sums_;  // of a block's piece of time, of some pieces, of the others
  Vec<T> chain_[K], expected_;
  Ints<T> known_, last_;  // last_: the sequences that start
};

}  // namespace HS_ISA
}  // namespace hs
