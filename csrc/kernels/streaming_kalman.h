// One observation of a linear Gaussian model: the belief conditioned on it and moved, as one congruence in Joseph's form,
//
//   P' = (A - G C) P (A - G C)' + G R G' + Q    with the gain G = A P C' / (C P C' + R),
//
// a sum of positive matrices whatever rounding does to G, so that covariances stay positive for any number of steps. An
// entry that is missing gets a row of zeros in C P and a noise of one of its own, so that it says and counts nothing.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/streaming_rows.h"

namespace hs {
namespace HS_ISA {

// row += factor other
HS_INLINE void add_scaled(int64_t count, double* row, double factor, const double* other) {
  each<double>(count, row, [&](int64_t i) { return load<double>(row + i) + factor * load<double>(other + i); });
}

HS_INLINE void scale(int64_t count, double* row, double factor) {
  each<double>(count, row, [&](int64_t i) { return factor * load<double>(row + i); });
}

// out += in W for any number of rows.
inline void add_products(int64_t rows, Rows<const double> in, int64_t size, Rows<const double> weight,
                         Rows<double> out) {
  for (int64_t r = 0; size > 0 && r < rows; r += ROWS)
    add_product<double>(std::min(ROWS, rows - r), {in[r], in.apart}, size, weight.data, weight.apart, out.apart,
                        {out[r], out.apart});
}

inline void clear(int64_t rows, Rows<double> out) { std::fill_n(out.data, rows * out.apart, 0.0); }

inline Rows<const double> fixed(Rows<double> rows) { return {rows.data, rows.apart}; }

// out = in', for so many rows and columns of `in`.
inline void transpose(int64_t rows, int64_t columns, Rows<double> in, Rows<double> out) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[j][i] = in[i][j];
}

struct KalmanStep {
  const StreamedKalman& model;
  const int64_t n, m, wide, tall;  // numbers of the state and of an observation; both padded
  double *apart, *mean;             // x - its expectation; the next mean
  Rows<double> seen, innovation;    // C P; C P C' + R
  Rows<double> gain;                // G'
  Rows<double> turned, right, left; // [(A - G C)'; a root of G R G']; its product with P; its transpose

  KalmanStep(const StreamedKalman& of, double* room)
      : model(of), n(of.state), m(of.event), wide(of.states), tall(of.events) {
    const auto take = [&](int64_t rows, int64_t columns) {
      double* taken = room;
      room += rows * columns;
      return Rows<double>{taken, columns};
    };
    apart = take(1, tall).data, mean = take(1, wide).data;
    seen = take(m, wide), innovation = take(m, tall), gain = take(m, wide);
    turned = take(n + m, wide), right = take(n + m, wide), left = take(n, n + m);
  }

  // apart, seen, innovation, and A P C' as rows of `gain`; gives how many entries there are.
  int64_t look(const double* belief, const double* x, const double* u) {
    const Rows<const double> covariance{belief + wide, wide}, emission{model.emission_columns, tall};
    copy(apart, model.offset, tall);
    add_products(1, {belief, wide}, n, emission, {apart, tall});
    add_products(1, {u, 0}, model.inputs, {model.emission_input, tall}, {apart, tall});
    for (int64_t i = 0; i < m; ++i) apart[i] = x[i] == x[i] ? x[i] - apart[i] : 0.0;
    clear(m, seen);
    add_products(m, {model.emission, wide}, n, covariance, seen);
    for (int64_t i = 0; i < m; ++i)
      if (x[i] != x[i]) std::fill_n(seen[i], wide, 0.0);
    copy(innovation.data, model.emission_noise, m * tall);
    add_products(m, fixed(seen), n, emission, innovation);
    clear(m, gain);
    add_products(m, fixed(seen), n, {model.transition, wide}, gain);
    return m - leave_out(x);
  }

  // The innovation of what is missing: one of its own. Gives how many entries that are.
  int64_t leave_out(const double* x) {
    int64_t missing = 0;
    for (int64_t i = 0; i < m; ++i)
      if (x[i] != x[i]) {
        std::fill_n(innovation[i], tall, 0.0);
        for (int64_t j = 0; j < m; ++j) innovation[j][i] = 0.0;
        innovation[i][i] = 1.0, ++missing;
      }
    return missing;
  }

  // Cholesky's elimination: the upper triangle of `innovation` becomes its root U, and what stands beside it, `apart` and
  // `gain`, is divided by U' from the left. Gives the log-probability.
  double whiten(int64_t count) {
    double squares = 0, log_size = 0;
    for (int64_t k = 0; k < m; ++k) {
      const double pivot = innovation[k][k], inverse = 1 / std::sqrt(pivot);
      log_size += std::log(pivot);
      scale(tall, innovation[k], inverse), scale(wide, gain[k], inverse);
      apart[k] *= inverse, squares += apart[k] * apart[k];
      for (int64_t i = k + 1; i < m; ++i) {
        const double factor = -innovation[k][i];
        add_scaled(tall, innovation[i], factor, innovation[k]), add_scaled(wide, gain[i], factor, gain[k]);
        apart[i] += factor * apart[k];
      }
    }
    return -0.5 * (squares + log_size + LOG_2_PI * double(count));
  }

  // The next mean, from the gain while it is divided by U' only.
  void move_mean(const double* belief, const double* u) {
    copy(mean, model.shift, wide);
    add_products(1, {belief, wide}, n, {model.transition, wide}, {mean, wide});
    add_products(1, {u, 0}, model.inputs, {model.transition_input, wide}, {mean, wide});
    add_products(1, {apart, tall}, m, fixed(gain), {mean, wide});
  }

  // -G', as rows.
  void divide() {
    for (int64_t i = m - 1; i >= 0; --i) {
      for (int64_t k = i + 1; k < m; ++k) add_scaled(wide, gain[i], -innovation[i][k], gain[k]);
      scale(wide, gain[i], 1 / innovation[i][i]);
    }
    for (int64_t i = 0; i < m; ++i) scale(wide, gain[i], -1.0);
  }

  void move_covariance(Rows<double> covariance) {
    const Rows<double> noise{turned[n], wide};
    copy(turned.data, model.transition, n * wide);
    add_products(n, {model.emission_columns, tall}, m, fixed(gain), turned);
    clear(m, noise);
    add_products(m, {model.emission_root, tall}, m, fixed(gain), noise);
    transpose(n + m, n, turned, left);
    clear(n, right);
    add_products(n, fixed(covariance), n, fixed(turned), right);
    copy(right[n], noise.data, m * wide);
    copy(covariance.data, model.noise, n * wide);
    add_products(n, fixed(left), n + m, fixed(right), covariance);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < i; ++j)
        covariance[i][j] = covariance[j][i] = 0.5 * (covariance[i][j] + covariance[j][i]);
  }

  double push(double* belief, const double* x, const double* u) {
    const double log_prob = whiten(look(belief, x, u));
    move_mean(belief, u);
    divide();
    move_covariance({belief + wide, wide});
    copy(belief, mean, wide);
    return log_prob;
  }
};

// The log-probability of the observation, after which the belief is that over the next state.
inline double push_kalman(const StreamedKalman& model, double* belief, const double* x, const double* u,
                          double* scratch) {
  return KalmanStep(model, scratch).push(belief, x, u);
}

}  // namespace HS_ISA
}  // namespace hs
