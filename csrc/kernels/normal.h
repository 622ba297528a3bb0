// Independent normal columns under each of several states: log-densities of all steps, and sums over time of deviations.
#pragma once
#include <cstdint>

namespace hs {

// Standardised deviations a = ((x - centre) - offset) inverse of every state and column, arrays (state, column).
template <class T>
struct NormalStates {
  int64_t states, columns;
  const T *centres, *offsets, *inverse;
};

// out[t][k] = constants[k] - sum over columns of a^2 / 2.
template <class T>
struct NormalDensities {
  NormalStates<T> of;
  const T *constants, *values;  // values (step, column)
  int64_t steps;
  T* out;
};

// Sums over the steps of weights[t][k], of weights times a, and of weights times a^2.
template <class T>
struct NormalMoments {
  NormalStates<T> of;
  const T *weights, *values;
  int64_t steps;
  T *weight, *first, *second;
};

struct NormalTable {
  void (*densities32)(const NormalDensities<float>&);
  void (*densities64)(const NormalDensities<double>&);
  void (*moments32)(const NormalMoments<float>&);
  void (*moments64)(const NormalMoments<double>&);

  auto densities(float) const { return densities32; }
  auto densities(double) const { return densities64; }
  auto moments(float) const { return moments32; }
  auto moments(double) const { return moments64; }
};

}  // namespace hs
