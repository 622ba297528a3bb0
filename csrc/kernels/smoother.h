// The smoother of Rauch, Tung and Striebel, backward from a Kalman filter: z_t = known_t + gain_t (z_{t+1} - ahead_t) + e,
// where e has the covariance open_t. So covariance_t = open_t + gain_t covariance_{t+1} gain_t', a sum of two that are
// positive, of which nothing is taken off: roots are needed for open_t alone. Matrices are held by rows.
#pragma once
#include <cstdint>

namespace hs {

// The gains, and the covariances of what the next state leaves open, of many steps; both noises as in the Kalman filter.
template <class T>
struct SmootherGains {
  int state;
  const T *transition, *noise;
  const T* filtered;  // (step, state, state): roots given the observations so far
  T *gain, *residual;  // (step, state, state)
};

// The covariances given all observations, of one chain of `time` states.
template <class T>
struct SmootherChain {
  int64_t time;
  int state;
  const T *gain, *residual, *last;  // (time - 1, state, state), and a root of the last covariance
  T *covariance, *crossed;          // (time, state, state) and (time - 1, state, state), of each state with the next
};

// Means, and where asked for covariances, of up to a vector of sequences of different lengths. Where `own` they have
// gains, roots and residuals of their own, otherwise they share them; the rest is of each. `ahead` is the mean
// before each step. Numbers of sequence i lie i times their size behind those of the first.
template <class T>
struct SmootherEach {
  int64_t time;
  int state;
  bool own;
  const T *gain, *residual, *filtered_root, *filtered, *ahead;
  const int32_t* length;
  T *mean, *covariance, *crossed;  // the last two may be null
};

struct SmootherTable {
  void (*gains32)(const SmootherGains<float>&, int64_t steps);
  void (*gains64)(const SmootherGains<double>&, int64_t steps);
  void (*chain32)(const SmootherChain<float>&);
  void (*chain64)(const SmootherChain<double>&);
  void (*each32)(const SmootherEach<float>&, int sequences);
  void (*each64)(const SmootherEach<double>&, int sequences);
  int bytes;  // of a vector: so many steps or sequences run at once

  auto gains(float) const { return gains32; }
  auto gains(double) const { return gains64; }
  auto chain(float) const { return chain32; }
  auto chain(double) const { return chain64; }
  auto each(float) const { return each32; }
  auto each(double) const { return each64; }
};

}  // namespace hs
