// The way back through bootstrap particle filters, along the ancestors that were chosen on the way there.
#pragma once
#include <cstdint>

namespace hs {

// What is the same whatever moves: what the way there gave, with the clouds of all steps as weighted by what was observed
// there, and adjoints of its results. Sequence i has its own row of all arrays; `seen` and `d_weights` may be null.
template <class T>
struct CloudsBack {
  int64_t particles, time;
  const int32_t* lengths;
  const bool* seen;  // [time]
  const T *evidence, *sizes;
  const bool* resampled;
  const T* weights;          // [time, particle]
  const int32_t* ancestors;  // [time, particle]: those that led to each step
  const uint32_t* keys;      // [time, 2]
  const int32_t* last_ancestors;
  const T *d_evidence, *d_sizes, *d_last_weights, *d_weights;
  T* d_first_weights;
};

// The second row are results. Those of a model's own arrays are of each sequence by itself.
template <class T>
struct LinearBack {
  int64_t size, noises, event;
  const T *transition, *emission, *xs, *particles, *d_last, *d_particles;  // the last may be null
  T *d_transition, *d_root, *d_emission, *d_constant, *d_first, *d_xs, *d_shift;
};

// Moves by the logarithms of their probabilities.
template <class T>
struct SymbolBack {
  int64_t states;
  const int32_t *particles, *last;
  T *d_log_probs, *d_log_likelihoods;
};

template <class T>
struct ParticleBackRuns {
  void (*linear)(const CloudsBack<T>&, const LinearBack<T>&, int64_t begin, int64_t end);
  void (*symbols)(const CloudsBack<T>&, const SymbolBack<T>&, int64_t begin, int64_t end);
};

struct ParticleBackTable {
  ParticleBackRuns<float> single, mixed;
  ParticleBackRuns<double> precise;

  const ParticleBackRuns<float>& runs(float, bool drawn_in_double) const { return drawn_in_double ? mixed : single; }
  const ParticleBackRuns<double>& runs(double, bool) const { return precise; }
};

}  // namespace hs
