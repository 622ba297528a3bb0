// Paths through hidden Markov models: the most probable one, and ones drawn from the posterior.
#pragma once
#include <cstdint>

namespace hs {

// Sequences that share a transition matrix: `time` rows of `states` numbers each, of which the first lengths[i] count.
// Behind the end the last state stands.
template <class T>
struct HmmBest {
  int64_t states, time;
  const T *matrix, *columns;  // logarithms: as `prepare_best` made them, and its transpose
  const int32_t* lengths;
  const T *first, *likelihoods;  // logarithms
  int32_t* path;
  T* steps;  // the log-probability of each step of the path with its observation
};

template <class T>
struct HmmDraw {
  int64_t states, time;
  const T* columns;  // as `prepare_draw` made it
  const int32_t* lengths;
  const T *filtered, *noise;  // Gumbel noise; that of the last row is for the last state
  int32_t* path;
};

struct HmmPathsTable {
  int64_t (*lanes32)(int64_t states);  // sequences that best go together to find the most probable paths
  int64_t (*lanes64)(int64_t states);
  int64_t (*size32)(int64_t states);  // of a prepared matrix
  int64_t (*size64)(int64_t states);
  void (*prepare32)(const float* matrix, int64_t states, bool transposed, float padding, float* out);
  void (*prepare64)(const double* matrix, int64_t states, bool transposed, double padding, double* out);
  // For the sequences from `begin` on, up to `end`.
  void (*best32)(const HmmBest<float>&, int64_t begin, int64_t end);
  void (*best64)(const HmmBest<double>&, int64_t begin, int64_t end);
  void (*draw32)(const HmmDraw<float>&, int64_t begin, int64_t end);
  void (*draw64)(const HmmDraw<double>&, int64_t begin, int64_t end);

  auto lanes(float) const { return lanes32; }
  auto lanes(double) const { return lanes64; }
  auto size(float) const { return size32; }
  auto size(double) const { return size64; }
  auto prepare(float) const { return prepare32; }
  auto prepare(double) const { return prepare64; }
  auto best(float) const { return best32; }
  auto best(double) const { return best64; }
  auto draw(float) const { return draw32; }
  auto draw(double) const { return draw64; }
};

}  // namespace hs
