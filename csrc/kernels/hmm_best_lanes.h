// The most probable paths of hidden Markov models of few states, vectorised over sequences: scores are a vector for each
// state, and where the states came from is one whole number for each step, four bits for each state.
#pragma once
#include "kernels/hmm_best.h"
#include "kernels/lanes.h"

namespace hs {
namespace HS_ISA {

template <class T, int K>
class BestAbreast {
 public:
  BestAbreast(const HmmBest<T>& in, int64_t begin, int64_t end)
      : in_(in),
        abreast_(in.lengths, begin, end, in.time),
        seen_(K * (L + 1) * L),
        origins_(abreast_.longest * L),
        last_(L * (W + 1)) {}

  void run() {
    for (int64_t i = 0; i < L * W; ++i) last_.get()[i] = -T(INFINITY);
    for (int i = 0; i < L; ++i)
      for (int j = 0; j < K; ++j) last_.get()[i * W + j] = in_.first[abreast_.sequence(i) * K + j];
    for (int j = 0; j < K; ++j)
      for (int i = 0; i < L; ++i) scores_[j][i] = last_.get()[i * W + j];
    shift_ = Vec<T>{};
    for (int64_t t = 0; t < abreast_.longest; t += L) {
      const int64_t steps = std::min<int64_t>(L, abreast_.longest - t);
      abreast_.read(in_.likelihoods, K, t, steps, seen_.get());
      for (int64_t s = 0; s < steps;) {
        const int64_t until = std::min(t + steps, next_end(t + s));
        advance(t, s, until - t);
        s = until - t;
        for (int64_t i = 0; i < abreast_.count; ++i)
          if (abreast_.lengths[i] == until) keep(i);
      }
    }
    trace();
  }

 private:
  using Integer = typename Lanes<T>::integer;
  static constexpr int L = Lanes<T>::count, W = width_in_lanes(K);

  // The first step behind t at which a sequence ends.
  int64_t next_end(int64_t t) const {
    int64_t end = abreast_.longest;
    for (int64_t i = 0; i < abreast_.count; ++i)
      if (abreast_.lengths[i] > t) end = std::min(end, abreast_.lengths[i]);
    return end;
  }

  // The steps from s up to `until` of those from t on.
  void advance(int64_t t, int64_t s, int64_t until) {
    Vec<T> scores[K], shift = shift_;
    for (int j = 0; j < K; ++j) scores[j] = scores_[j];
    for (; s < until; ++s) {
      Vec<T> now[K];
      Ints<T> origins = {};
      if (__builtin_expect(t + s == 0, 0)) {
        for (int j = 0; j < K; ++j) now[j] = scores[j];
      } else {
#pragma GCC unroll 8
        for (int j = 0; j < K; ++j) {
          Vec<T> best = scores[0] + in_.matrix[j];
          Ints<T> from = {};
#pragma GCC unroll 8
          for (int i = 1; i < K; ++i) {
            const Vec<T> reached = scores[i] + in_.matrix[i * W + j];
            from = reached > best ? Integer(int64_t(i) << 4 * j) - Ints<T>{} : from;
            best = maximum<T>(reached, best);
          }
          now[j] = best;
          origins |= from;
        }
      }
      store<T>(origins_.get() + (t + s) * L, (Vec<T>)origins);
      for (int j = 0; j < K; ++j) scores[j] = now[j] + (load<T>(seen_.get() + (s * K + j) * L) - shift);
      const Vec<T> top = tops_of<T, K>(scores);
      shift = top > -T(INFINITY) ? top : Vec<T>{};
    }
    for (int j = 0; j < K; ++j) scores_[j] = scores[j];
    shift_ = shift;
  }

  // The last scores of a sequence that ended.
  void keep(int64_t lane) {
    for (int j = 0; j < K; ++j) last_.get()[lane * W + j] = scores_[j][lane];
  }

  // Back from the last states; behind the end of a sequence its lane holds what is never looked at.
  void trace() {
    Ints<T> state = {};
    T states[L * L];
    for (int64_t t = (abreast_.longest - 1) / L * L; t >= 0; t -= L) {
      const int64_t steps = std::min<int64_t>(L, abreast_.longest - t);
      for (int64_t s = steps - 1; s >= 0; --s) {
        if (t + s + 1 >= abreast_.shortest)
          for (int64_t i = 0; i < abreast_.count; ++i)
            if (abreast_.lengths[i] == t + s + 1) {
              const T* const last = last_.get() + i * W;
              state[i] = Integer(first_largest<T, W>(W, [&](int64_t j) { return get<T, W>(last + j); }));
            }
        store<T>(states + s * L, (Vec<T>)state);
        const Vec<T> origins = load<T>(origins_.get() + (t + s) * L);
        state = (Ints<T>)origins >> (state << 2) & 15;
      }
      abreast_.write(in_.path, 1, t, steps, states);
    }
    for (int64_t sequence = abreast_.begin; sequence < abreast_.begin + abreast_.count; ++sequence) {
      const int32_t* const path = in_.path + sequence * in_.time;
      const int64_t length = in_.lengths[sequence];
      T* const each = in_.steps + sequence * in_.time;
      for (int64_t t = 0; t < length; ++t) each[t] = step_of<T>(in_, W, sequence, t, t > 0 ? path[t - 1] : 0, path[t]);
      finish_best<T>(in_, sequence, length);
    }
  }

  const HmmBest<T>& in_;
  const Abreast<T> abreast_;
  const Buffer<T> seen_, origins_, last_;
  Vec<T> scores_[K], shift_;
};

}  // namespace HS_ISA
}  // namespace hs
