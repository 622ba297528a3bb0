// Bootstrap particle filters: all steps of several sequences that share a model and its random numbers.
#pragma once
#include <cstdint>

namespace hs {

enum class Choosing : int64_t { systematic, stratified };
enum class Keeping : int64_t { nothing, before, after };  // log-weights before a step's observation, or after it

// What is the same whatever moves. Sequence i has its own row of all arrays but the key's; `seen` may be null.
template <class T>
struct Clouds {
  int64_t particles, time;
  Choosing choosing;
  Keeping keeping;
  T enough;  // resampled where the effective sample size is not that large
  const uint32_t* key;
  const int32_t* lengths;
  const bool* seen;  // [time]
  const T* first_weights;
  const int32_t* first_ancestors;
  T *evidence, *sizes;  // [time]: behind the end the last one stands
  bool* resampled;
  T* weights;  // after the last step: [particle], and the same for all that follows
  int32_t* ancestors;
  uint32_t* keys;
  T* kept_weights;  // before or at each step: [time, particle]; null where nothing is kept
  int32_t* kept_ancestors;
  uint32_t* kept_keys;
};

// z' = transition z + shift + root noise; a particle weighs constant - |x - emission z|^2 / 2. Particles are rows.
template <class T>
struct LinearMoves {
  int64_t size, noises, event;
  const T *transition, *root, *emission, *constant;
  int64_t shifts;  // one, or one a step
  const T *first, *xs, *shift;
  T *last, *kept;
};

// z' is the first number whose entry in row z of the table is larger than a uniform number times the row's last entry. The
// table is of the precision in which numbers are drawn; entries do not fall along a row.
template <class T>
struct SymbolMoves {
  int64_t states;
  const void* table;  // [state, state + 1]
  const int32_t* first;
  const T* log_likelihoods;  // [time, state]
  int32_t *last, *kept;
};

// The second type is that in which numbers are drawn.
template <class T>
struct ParticleRuns {
  void (*linear)(const Clouds<T>&, const LinearMoves<T>&, int64_t begin, int64_t end);
  void (*symbols)(const Clouds<T>&, const SymbolMoves<T>&, int64_t begin, int64_t end);
};

struct ParticleTable {
  ParticleRuns<float> single, mixed;
  ParticleRuns<double> precise;

  const ParticleRuns<float>& runs(float, bool drawn_in_double) const { return drawn_in_double ? mixed : single; }
  const ParticleRuns<double>& runs(double, bool) const { return precise; }
};

}  // namespace hs
