// The smoother behind a Kalman filter: gains of many steps at once, then one chain of covariances for all sequences
// where they share it, otherwise a vector of sequences at once.
#include "kernels/smoother.h"

#include "kernels/rest.h"
#include "kernels/roots.h"
#include "kernels/sequences.h"

namespace hs {
namespace HS_ISA {
namespace {

template <class T>
HS_INLINE void square(const Vec<T>* root, Vec<T>* out, int n) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      Vec<T> s = {};
      for (int k = 0; k < n; ++k) s += root[i * n + k] * root[j * n + k];
      out[i * n + j] = out[j * n + i] = s;
    }
}

// Of the joint root [[ahead, 0], [crossed, left]] of z_{t+1} and z_t, `gain` is crossed / ahead.
template <class T, int N>
void gains_of_vector(const SmootherGains<T>& in, int64_t first, int steps, Vec<T>* triangle, Vec<T>* dense) {
  const int n = N ? N : in.state;
  Vec<T>* const left = dense + n * n;
  Vec<T>* const crossed = triangle + n * n;
  gather<T>(left, in.filtered + first * n * n, n * n, n * n, steps);
  multiply<T>(in.transition, left, dense, n, n, n);
  for (int i = 0; i < n * n; ++i) triangle[i] = all<T>(in.noise[i]);
  for (int i = 0; i < n * n; ++i) crossed[i] = Vec<T>{};
  absorb<T, N>(triangle, dense, n, 2 * n, n);
  for (int r = 0; r < n; ++r)
    for (int j = n - 1; j >= 0; --j) {
      Vec<T> s = crossed[r * n + j];
      for (int k = j + 1; k < n; ++k) s -= crossed[r * n + k] * triangle[k * n + j];
      crossed[r * n + j] = s / triangle[j * n + j];
    }
  scatter<T>(in.gain + first * n * n, crossed, n * n, n * n, steps);
  square<T>(left, dense, n);
  scatter<T>(in.residual + first * n * n, dense, n * n, n * n, steps);
}

template <class T, int N>
void gains(const SmootherGains<T>& in, int64_t steps) {
  constexpr int lanes = Lanes<T>::count;
  const int n = N ? N : in.state;
  Scratch<T> memory(size_t(4 * n * n));
  Vec<T>*triangle = memory.take(2 * n * n), *dense = memory.take(2 * n * n);
  for (int64_t first = 0; first < steps; first += lanes)
    gains_of_vector<T, N>(in, first, int(steps - first < lanes ? steps - first : lanes), triangle, dense);
}

template <class T>
void turn(Columns<T> from, Columns<T> to, int n) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) to.at(j, i) = from.at(i, j);
}

// Whether a step has the matrices of a later one.
template <class T>
bool repeats(const SmootherChain<T>& in, int64_t t, int64_t later) {
  const int64_t nn = int64_t(in.state) * in.state;
  const size_t bytes = sizeof(T) * size_t(nn);
  return later < in.time - 1 && std::memcmp(in.gain + t * nn, in.gain + later * nn, bytes) == 0 &&
         std::memcmp(in.residual + t * nn, in.residual + later * nn, bytes) == 0;
}

// Where the covariance has come to rest it is copied for as long as the matrices repeat themselves: the first step that
// does not.
template <class T>
int64_t copy_back(const SmootherChain<T>& in, int64_t t, int64_t period) {
  const int64_t nn = int64_t(in.state) * in.state;
  for (; t >= 0 && repeats<T>(in, t, t + period); --t)
    for (T* matrices : {in.covariance, in.crossed})
      std::memcpy(matrices + t * nn, matrices + (t + period) * nn, sizeof(T) * size_t(nn));
  return t;
}

template <class T>
void chain(const SmootherChain<T>& in) {
  const int n = in.state, padded = Columns<T>::pad(n);
  Scratch<T> memory(6 * size_t(n) * size_t(padded) / Lanes<T>::count);
  auto make = [&] {
    const Columns<T> made{memory.take_numbers(size_t(padded) * size_t(n)), n, padded};
    clear<T>(made, n);
    return made;
  };
  const Columns<T> covariance = make(), gain = make(), turned = make(), crossed = make(), residual = make(),
                   before = make();
  read<T>(gain, in.last, n);
  turn<T>(gain, turned, n);
  multiply<T>(gain, turned, covariance, n);
  write<T>(in.covariance + (in.time - 1) * n * n, covariance, n);
  Rest<T> rest(covariance, before, n, false);
  bool rested = false;
  for (int64_t t = in.time - 2; t >= 0; --t) {
    if (!rested && rest.reached(in.time - 2 - t) && repeats<T>(in, t, t + rest.period)) {
      rested = true;
      t = copy_back<T>(in, t, rest.period);
      if (t < 0) break;
      read<T>(covariance, in.covariance + (t + 1) * n * n, n);
    }
    const int64_t at = t * n * n;
    read<T>(gain, in.gain + at, n);
    read<T>(residual, in.residual + at, n);
    turn<T>(gain, turned, n);
    multiply<T>(gain, covariance, crossed, n);
    write<T>(in.crossed + at, crossed, n);
    multiply<T>(crossed, turned, covariance, n);
    for (int j = 0; j < n; ++j)
      for (int i = j; i < n; ++i) covariance.at(i, j) = covariance.at(j, i) = covariance.at(i, j) + residual.at(i, j);
    write<T>(in.covariance + at, covariance, n);
  }
}

// -- sequences in lanes ------------------------------------------------------------------------------------------------

template <class T>
struct Matrices {  // of one step: shared ones are given as they are, own ones with a sequence in each lane
  const T* shared;
  Vec<T>* own;
};

template <class T>
HS_INLINE Matrices<T> matrices(const T* all_steps, bool own, int64_t t, int n, int64_t steps, Vec<T>* to, int sequences) {
  if (own) gather<T>(to, all_steps + t * n * n, n * n, steps * n * n, sequences);
  return {all_steps + t * n * n, to};
}

template <class T>
HS_INLINE void times(bool own, Matrices<T> matrix, const Vec<T>* x, Vec<T>* out, int n, int width) {
  if (own)
    multiply<T>(matrix.own, x, out, n, n, width);
  else
    multiply<T>(matrix.shared, x, out, n, n, width);
}

// covariance = residual + crossed gain', of which only one half is computed.
template <class T, class Gain>
HS_INLINE void close(const Vec<T>* crossed, const Gain* gain, const Vec<T>* residual, Vec<T>* covariance, int n) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      Vec<T> s = residual[i * n + j];
      for (int k = 0; k < n; ++k) s += crossed[i * n + k] * gain[j * n + k];
      covariance[i * n + j] = covariance[j * n + i] = s;
    }
}

template <class T, int N>
void each(const SmootherEach<T>& in, int sequences) {
  const int n = N ? N : in.state, nn = n * n;
  const int64_t time = in.time;
  const bool spreads = in.covariance != nullptr;
  int64_t longest;
  const Ints<T> lengths = lengths_of<T>(in.length, sequences, longest);
  Scratch<T> memory(size_t(4 * n + 5 * nn));
  Vec<T>*mean = memory.take(n), *apart = memory.take(n), *moved = memory.take(n), *ahead = memory.take(n),
        *gain = memory.take(nn), *residual = memory.take(nn), *covariance = memory.take(nn), *crossed = memory.take(nn),
        *next = memory.take(nn);
  Vec<T>* const root = next;
  for (int i = 0; i < nn; ++i) root[i] = Vec<T>{};
  for (int i = 0; i < n; ++i) mean[i] = Vec<T>{};
  for (int s = 0; s < sequences; ++s) {
    const int64_t last = in.length[s] > 0 ? in.length[s] - 1 : 0;
    for (int i = 0; i < n; ++i) mean[i][s] = in.filtered[(s * time + last) * n + i];
    for (int i = 0; spreads && i < nn; ++i) root[i][s] = in.filtered_root[((in.own ? s * time : 0) + last) * nn + i];
  }
  if (spreads) square<T>(root, covariance, n);
  for (int64_t t = time - 1; t >= 0; --t) {
    if (t + 1 < longest) {
      const Ints<T> inside = longer<T>(lengths, t + 1);
      const Matrices<T> by = matrices<T>(in.gain, in.own, t, n, time - 1, gain, sequences);
      gather<T>(apart, in.ahead + (t + 1) * n, n, time * n, sequences);
      for (int i = 0; i < n; ++i) apart[i] = mean[i] - apart[i];
      times<T>(in.own, by, apart, moved, n, 1);
      gather<T>(ahead, in.filtered + t * n, n, time * n, sequences);
      for (int i = 0; i < n; ++i) mean[i] = select<T>(inside, ahead[i] + moved[i], mean[i]);
      if (spreads) {
        times<T>(in.own, by, covariance, crossed, n, n);
        for (int i = 0; i < nn; ++i) crossed[i] = select<T>(inside, crossed[i], Vec<T>{});
        const T* left = in.residual + t * nn;
        if (in.own) gather<T>(residual, left, nn, (time - 1) * nn, sequences);
        for (int i = 0; !in.own && i < nn; ++i) residual[i] = all<T>(left[i]);
        in.own ? close<T>(crossed, by.own, residual, next, n) : close<T>(crossed, by.shared, residual, next, n);
        for (int i = 0; i < nn; ++i) covariance[i] = select<T>(inside, next[i], covariance[i]);
      }
    } else if (spreads) {
      for (int i = 0; i < nn; ++i) crossed[i] = Vec<T>{};
    }
    scatter<T>(in.mean + t * n, mean, n, time * n, sequences);
    if (spreads) scatter<T>(in.covariance + t * nn, covariance, nn, time * nn, sequences);
    if (spreads && t + 1 < time) scatter<T>(in.crossed + t * nn, crossed, nn, (time - 1) * nn, sequences);
  }
}

// Sizes that are common are known to the compiler; what is computed is the same.
template <class T>
void gains_of(const SmootherGains<T>& in, int64_t steps) {
  if (in.state == 1) return gains<T, 1>(in, steps);
  if (in.state == 2) return gains<T, 2>(in, steps);
  if (in.state == 4) return gains<T, 4>(in, steps);
  if (in.state == 8) return gains<T, 8>(in, steps);
  if (in.state == 16) return gains<T, 16>(in, steps);
  gains<T, 0>(in, steps);
}

template <class T>
void each_of(const SmootherEach<T>& in, int sequences) {
  if (in.state == 1) return each<T, 1>(in, sequences);
  if (in.state == 2) return each<T, 2>(in, sequences);
  if (in.state == 4) return each<T, 4>(in, sequences);
  if (in.state == 8) return each<T, 8>(in, sequences);
  if (in.state == 16) return each<T, 16>(in, sequences);
  each<T, 0>(in, sequences);
}

}  // namespace

extern const SmootherTable smoother_table;
const SmootherTable smoother_table = {gains_of<float>, gains_of<double>, chain<float>,   chain<double>,
                                      each_of<float>,  each_of<double>,  HS_VECTOR_BYTES};

}  // namespace HS_ISA
}  // namespace hs
