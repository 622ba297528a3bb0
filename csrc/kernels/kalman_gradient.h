// The way back through the Kalman filter: from slopes of its log-probabilities, and of its last belief, to those of all
// that it was given. Matrices are held by rows.
#pragma once
#include <cstdint>

namespace hs {

// Of up to a vector of sequences. `mean` and `root` are the beliefs before every step that the filter kept; sequences have
// roots of their own, `root_stride` numbers apart, or share them, where that is zero. `observed` may be null. `shifts` is
// 1 or `time`: the rows of each `shift_slope`. Covariances, not roots, have slopes, which are symmetric. Numbers of
// sequence i lie i times their size behind those of the first.
template <class T>
struct KalmanGradient {
  int64_t time;
  int state, event;
  int64_t shifts, root_stride;
  const T *transition, *emission, *emission_covariance;
  const T *mean, *root, *x;
  const bool* observed;
  const int32_t* length;
  const T *log_prob_slope, *last_slope, *last_covariance_slope;
  T *start_slope, *start_covariance_slope, *x_slope, *shift_slope;
  T *transition_slope, *noise_slope, *emission_slope, *emission_noise_slope;
};

struct KalmanGradientTable {
  void (*run32)(const KalmanGradient<float>&, int sequences);
  void (*run64)(const KalmanGradient<double>&, int sequences);
  int bytes;  // of a vector: so many sequences run at once

  auto run(float) const { return run32; }
  auto run(double) const { return run64; }
};

}  // namespace hs
