// The forward recursion of hidden Markov models: beliefs conditioned on observations and moved by a matrix.
#pragma once
#include <cstdint>

namespace hs {

// Sequences that share a transition matrix: `time` rows of `states` numbers each, of which the first lengths[i] count.
template <class T>
struct HmmForward {
  int64_t states, time;
  const T* matrix;       // as `prepare` made it
  const int32_t* lengths;
  const T *first;        // beliefs before the first observation
  const T *likelihoods;  // logarithms
  T *evidence, *final;
  T *predicted, *filtered;  // or null, where nobody asks
  // The evidence is top + log(total): the largest log-likelihood that counts, and the sum of all relative to it. Where
  // no state could have given the observation, top is minus infinity and total one.
  T *top, *total;
};

struct HmmForwardTable {
  int64_t (*lanes32)(int64_t states);  // sequences that best go together
  int64_t (*lanes64)(int64_t states);
  int64_t (*size32)(int64_t states);  // of the prepared matrix
  int64_t (*size64)(int64_t states);
  void (*prepare32)(const float* matrix, int64_t states, float* out);
  void (*prepare64)(const double* matrix, int64_t states, double* out);
  // For the sequences from `begin` on, up to `end`.
  void (*forward32)(const HmmForward<float>&, int64_t begin, int64_t end);
  void (*forward64)(const HmmForward<double>&, int64_t begin, int64_t end);

  auto lanes(float) const { return lanes32; }
  auto lanes(double) const { return lanes64; }
  auto size(float) const { return size32; }
  auto size(double) const { return size64; }
  auto prepare(float) const { return prepare32; }
  auto prepare(double) const { return prepare64; }
  auto forward(float) const { return forward32; }
  auto forward(double) const { return forward64; }
};

}  // namespace hs
