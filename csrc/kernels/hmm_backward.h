// The way back through hidden Markov models: derivatives of the evidence, or smoothed beliefs and expected moves.
#pragma once
#include <cstdint>

namespace hs {

// Sequences that share a transition matrix, after the forward recursion: `time` rows of `states` numbers each, of which
// the first lengths[i] count.
template <class T>
struct HmmBackward {
  bool smooth;                // smoothed beliefs and expected moves in place of derivatives
  int64_t states, time;
  const T *matrix, *plain;    // as `prepare` made it, and as it was given
  const int32_t* lengths;
  const T *likelihoods, *filtered, *top, *total;
  // Adjoints of the evidence, of the last belief and of beliefs on the way, null where there are none; none to smooth.
  const T *d_evidence, *d_final, *d_predicted, *d_filtered;
  T *rows;                    // adjoints of the log-likelihoods, or smoothed beliefs
  T *first;                   // adjoints of the first beliefs; null to smooth
  T *moves;                   // of each sequence: adjoints of the matrix, or expected moves
};

struct HmmBackwardTable {
  int64_t (*lanes32)(int64_t states);  // sequences that best go together
  int64_t (*lanes64)(int64_t states);
  int64_t (*size32)(int64_t states);  // of the prepared matrix
  int64_t (*size64)(int64_t states);
  void (*prepare32)(const float* matrix, int64_t states, float* out);
  void (*prepare64)(const double* matrix, int64_t states, double* out);
  // For the sequences from `begin` on, up to `end`.
  void (*backward32)(const HmmBackward<float>&, int64_t begin, int64_t end);
  void (*backward64)(const HmmBackward<double>&, int64_t begin, int64_t end);

  auto lanes(float) const { return lanes32; }
  auto lanes(double) const { return lanes64; }
  auto size(float) const { return size32; }
  auto size(double) const { return size64; }
  auto prepare(float) const { return prepare32; }
  auto prepare(double) const { return prepare64; }
  auto backward(float) const { return backward32; }
  auto backward(double) const { return backward64; }
};

}  // namespace hs
