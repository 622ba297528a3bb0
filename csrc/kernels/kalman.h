// The Kalman filter of z' = A z + shift + Q^(1/2) e, x = C z + R^(1/2) e', with covariances as square roots.
//
// Matrices are held by rows. Q and R are given by lower triangular roots.
#pragma once
#include <cstdint>

namespace hs {

constexpr int KALMAN_LARGEST = 32;  // of a state or an observation: beyond, LAPACK is as fast

template <class T>
struct KalmanSystem {
  int64_t time;
  int state, event;
  const T *transition, *noise, *emission, *emission_noise;
};

// What does not depend on the observations where none of them is missing.
template <class T>
struct KalmanFactors {
  KalmanSystem<T> system;
  const T* start;   // a root of the first covariance
  T* predicted;     // (time + 1, state, state): roots before every step, and after the last
  T* filtered;      // (time, state, state): roots given the observation too
  T* gain;          // (time, state, event): what a whitened observation adds to the mean
  T* innovation;    // (time, event, event): lower triangular roots of the covariance of what is observed
  T* log_size;      // (time): the logarithm of the innovation's determinant
};

// The means of up to a vector of sequences that share those factors. `shifts` is 1 or `time`: the rows of each shift.
// `predicted` and `filtered` may be null. Numbers of sequence i lie i times their size behind those of the first.
template <class T>
struct KalmanMeans {
  KalmanSystem<T> system;
  const T *gain, *innovation, *log_size;
  int64_t shifts;
  const T *start, *x, *shift;
  const int32_t* length;
  T *log_prob, *last, *predicted, *filtered;
};

// The same for sequences that share only the system: their starts, and which entries are observed, differ. The four
// arrays of every step may be null.
template <class T>
struct KalmanEach {
  KalmanSystem<T> system;
  int64_t shifts;
  const T *start, *start_root, *x, *shift;
  const bool* observed;
  const int32_t* length;
  T *log_prob, *last, *last_root, *predicted, *predicted_root, *filtered, *filtered_root;
};

struct KalmanTable {
  void (*factors32)(const KalmanFactors<float>&);
  void (*factors64)(const KalmanFactors<double>&);
  void (*means32)(const KalmanMeans<float>&, int sequences);
  void (*means64)(const KalmanMeans<double>&, int sequences);
  void (*each32)(const KalmanEach<float>&, int sequences);
  void (*each64)(const KalmanEach<double>&, int sequences);
  int bytes;  // of a vector: so many sequences run at once

  auto factors(float) const { return factors32; }
  auto factors(double) const { return factors64; }
  auto means(float) const { return means32; }
  auto means(double) const { return means64; }
  auto each(float) const { return each32; }
  auto each(double) const { return each64; }
};

}  // namespace hs
