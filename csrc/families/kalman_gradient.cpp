// The way back through the Kalman filter, a vector of sequences at once.
//
// With m, P the belief before a step, v = x - C m, S = C P C' + R, u = S^-1 v, K = P C' S^-1 and E = 1 - K C, the belief
// after it is m + K v, E P, and the gain is the best: what changes the covariance through K alone changes nothing. So
// with slopes a of that mean, B of that covariance and g of log p(x)
//     of P   E' B E + C' W C + (c (C'u)' + (C'u) c') / 2      W = g (u u' - S^-1) / 2,  c = E'a
//     of m   c + g C'u
//     of R   W + K'B K - (q u' + u q') / 2                    q = K'a
//     of C   (g u - q)(m + K v)' + u (E P a)' - 2 K'B E P - g K'
//     of x   q - g u.
// Where entries are missing their rows of S^-1, and so of u and K', are zero, and with them all of their slopes.
//
// Where P is large beside R, E is small in what is observed, and differences such as P - K C P lose their digits there.
// Then E is applied from both sides, one after the other: what the first has lost, the second makes small.
#include "kernels/kalman_gradient.h"

#include <cmath>
#include <initializer_list>
#include <limits>

#include "kernels/kalman.h"
#include "kernels/roots.h"
#include "kernels/sequences.h"

namespace hs {
namespace HS_ISA {
namespace {

// out = x matrix, for a matrix that all lanes share and x of `rows` rows.
template <class T>
HS_INLINE void multiply_shared(const Vec<T>* x, const T* matrix, Vec<T>* out, int rows, int inner, int width) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < width; ++j) {
      Vec<T> s = {};
      for (int k = 0; k < inner; ++k) s += x[i * inner + k] * matrix[k * width + j];
      out[i * width + j] = s;
    }
}

// out = x' y, for x and y of `inner` rows.
template <class T>
HS_INLINE void multiply_turned(const Vec<T>* x, const Vec<T>* y, Vec<T>* out, int inner, int rows, int width) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < width; ++j) {
      Vec<T> s = {};
      for (int k = 0; k < inner; ++k) s += x[k * rows + i] * y[k * width + j];
      out[i * width + j] = s;
    }
}

// The inverse of a positive matrix, of which the lower half is read and lost; `work` has as much room.
template <class T>
HS_INLINE void invert(Vec<T>* matrix, Vec<T>* work, Vec<T>* inverse, int size) {
  for (int j = 0; j < size; ++j)  // L D L', with the parts of D in the diagonal
    for (int i = j; i < size; ++i) {
      Vec<T> s = matrix[i * size + j];
      for (int k = 0; k < j; ++k) s -= matrix[i * size + k] * matrix[j * size + k] * matrix[k * size + k];
      matrix[i * size + j] = i > j ? s / matrix[j * size + j] : s;
    }
  for (int j = 0; j < size; ++j)  // L^-1
    for (int i = j; i < size; ++i) {
      Vec<T> s = all<T>(T(i == j ? 1 : 0));
      for (int k = j; k < i; ++k) s -= matrix[i * size + k] * work[k * size + j];
      work[i * size + j] = s;
    }
  for (int i = 0; i < size; ++i)
    for (int j = 0; j <= i; ++j) {
      Vec<T> s = {};
      for (int k = i; k < size; ++k) s += work[k * size + i] * work[k * size + j] / matrix[k * size + k];
      inverse[i * size + j] = inverse[j * size + i] = s;
    }
}

// What a step was, and the slopes of what comes behind it. Lanes that have ended get slopes of zero.
template <class T, int N, int M>
struct Back {
  const KalmanGradient<T>& in;
  const int n, m, sequences;
  Scratch<T> memory;
  T* turned;  // the transition
  Vec<T> *mean, *known, *white;                       // before a step, after it; u
  Vec<T> *covariance, *known_covariance, *precision;  // likewise; S^-1
  Vec<T> *crossed, *gain;                             // C P and K'
  Vec<T> *of_mean, *of_covariance;                    // of the belief before the step behind, and then of this one
  Vec<T> *of_known, *of_known_covariance;
  Vec<T> *of_transition, *of_noise, *of_emission, *of_emission_noise, *of_shift;  // sums over steps
  Vec<T> *square, *other, *thin, *rest, *small, *work, *along, *through, *against, *apart;  // to work in
  Ints<T> seen[KALMAN_LARGEST];
  Ints<T> vague;  // the lanes in which P is large beside R
  bool some_vague;

  Back(const KalmanGradient<T>& in, int sequences)
      : in(in), n(N ? N : in.state), m(M ? M : in.event), sequences(sequences),
        memory(size_t(9 * n * n + 5 * m * n + 4 * m * m + 7 * n + 3 * m)) {
    turned = memory.take_numbers(size_t(n * n));
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) turned[j * n + i] = in.transition[i * n + j];
    take(n, {&mean, &known, &of_mean, &of_known, &of_shift, &along, &through});
    take(m, {&white, &against, &apart});
    take(n * n, {&covariance, &known_covariance, &of_covariance, &of_known_covariance, &of_transition, &of_noise, &square,
                 &other});
    take(m * n, {&crossed, &gain, &thin, &rest, &of_emission});
    take(m * m, {&precision, &small, &work, &of_emission_noise});
  }

  void take(int count, std::initializer_list<Vec<T>**> vectors) {
    for (Vec<T>** vector : vectors) {
      *vector = memory.take(size_t(count));
      for (int i = 0; i < count; ++i) (*vector)[i] = Vec<T>{};
    }
  }

  void read_belief(int64_t t) {
    const int64_t time = in.time;
    gather<T>(mean, in.mean + t * n, n, time * n, sequences);
    Vec<T>* const root = square;
    if (in.root_stride)
      gather<T>(root, in.root + t * n * n, n * n, in.root_stride, sequences);
    else
      for (int i = 0; i < n * n; ++i) root[i] = all<T>(in.root[t * n * n + i]);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j)
        covariance[i * n + j] = covariance[j * n + i] = strands<T, N>(root + i * n, root + j * n, n, Vec<T>{});
  }

  // Which entries are there, and `apart`, what they have that the mean has not.
  void read_observation(int64_t t, Ints<T> inside) {
    const int64_t stride = in.time * m;
    gather<T>(apart, in.x + t * m, m, stride, sequences);
    for (int i = 0; i < m; ++i) {
      seen[i] = inside;
      for (int s = 0; in.observed && s < sequences; ++s)
        if (!in.observed[s * stride + t * m + i]) seen[i][s] = 0;
      Vec<T> expected = {};
      for (int k = 0; k < n; ++k) expected += in.emission[i * n + k] * mean[k];
      apart[i] = select<T>(seen[i], apart[i] - expected, Vec<T>{});
    }
  }

  void condition() {
    multiply<T>(in.emission, covariance, crossed, m, n, n);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j <= i; ++j) {
        Vec<T> s = all<T>(in.emission_covariance[i * m + j]);
        for (int k = 0; k < n; ++k) s += crossed[i * n + k] * in.emission[j * n + k];
        small[i * m + j] = select<T>(seen[i] & seen[j], s, all<T>(T(i == j ? 1 : 0)));
      }
    look_for_vague();
    invert<T>(small, work, precision, m);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) precision[i * m + j] = select<T>(seen[i] & seen[j], precision[i * m + j], Vec<T>{});
    multiply<T>(precision, apart, white, m, m, 1);
    multiply<T>(precision, crossed, gain, m, m, n);
    for (int i = 0; i < n; ++i) {
      known[i] = mean[i];
      for (int k = 0; k < m; ++k) known[i] += gain[k * n + i] * apart[k];
    }
    multiply_turned<T>(gain, crossed, known_covariance, m, n, n);
    for (int i = 0; i < n * n; ++i) known_covariance[i] = covariance[i] - known_covariance[i];
    if (some_vague) make_known_again();
  }

  // Of a covariance C P C' + R with a large part that comes from P, before it is inverted.
  void look_for_vague() {
    const T share = T(16) * std::sqrt(std::numeric_limits<T>::epsilon());
    vague = Ints<T>{};
    for (int i = 0; i < m; ++i) vague |= seen[i] & (small[i * m + i] * share > in.emission_covariance[i * m + i]);
    some_vague = false;
    for (int lane = 0; lane < Lanes<T>::count; ++lane) some_vague |= vague[lane] != 0;
  }

  // E P is (E P) E' + K R K' as well: what rounding left over of K R - (E P) C', times K', is added.
  void make_known_again() {
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < m; ++k) {
        Vec<T> s = {};
        for (int l = 0; l < m; ++l) s += gain[l * n + i] * in.emission_covariance[l * m + k];
        for (int l = 0; l < n; ++l) s -= known_covariance[i * n + l] * in.emission[k * n + l];
        rest[k] = select<T>(vague, s, Vec<T>{});
      }
      for (int j = 0; j < n; ++j) {
        Vec<T> s = known_covariance[i * n + j];
        for (int k = 0; k < m; ++k) s += rest[k] * gain[k * n + j];
        known_covariance[i * n + j] = s;
      }
    }
  }

  // Back over the move to the next step: from the slopes of the belief before that to those of the one after this.
  void move(int64_t t, Ints<T> inside) {
    Vec<T>*const now = along, *const now_covariance = of_known_covariance;
    for (int i = 0; i < n; ++i) now[i] = select<T>(inside, of_mean[i], Vec<T>{});
    for (int i = 0; i < n * n; ++i) now_covariance[i] = select<T>(inside, of_covariance[i], Vec<T>{});
    for (int i = 0; i < n; ++i) of_shift[i] += now[i];
    if (in.shifts > 1) scatter<T>(in.shift_slope + t * n, now, n, in.shifts * n, sequences);
    for (int i = 0; i < n * n; ++i) of_noise[i] += now_covariance[i];
    multiply_shared<T>(now_covariance, in.transition, square, n, n, n);
    multiply<T>(square, known_covariance, other, n, n, n);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) of_transition[i * n + j] += now[i] * known[j] + T(2) * other[i * n + j];
    multiply<T>(turned, now, of_known, n, n, 1);
    multiply<T>(turned, square, of_known_covariance, n, n, n);
  }

  // Back over the observation: what the slopes of log p(x) and of the belief after it say of the one before and of C, R, x.
  void condition_back(int64_t t, Ints<T> inside, Vec<T> slope) {
    Vec<T>*const c = along, *const h = through, *const q = against, *const KB = thin, *const KBK = small;
    const T* const C = in.emission;
    multiply<T>(gain, of_known, q, m, n, 1);
    multiply<T>(gain, of_known_covariance, KB, m, n, n);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) KBK[i * m + j] = strands<T, N>(KB + i * n, gain + j * n, n, Vec<T>{});
    for (int i = 0; i < n; ++i) {
      c[i] = of_known[i], h[i] = Vec<T>{};
      for (int k = 0; k < m; ++k) c[i] -= C[k * n + i] * q[k], h[i] += C[k * n + i] * white[k];
    }
    add_to_emission(slope);
    for (int i = 0; i < m; ++i) white[i] *= slope;  // g u from here on
    for (int i = 0; i < m; ++i) apart[i] = q[i] - white[i];
    scatter<T>(in.x_slope + t * m, apart, m, in.time * m, sequences);
    // rest = K'B E - W C
    const Vec<T> half = T(0.5) * slope;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) work[i * m + j] = half * precision[i * m + j] - KBK[i * m + j];
    multiply_shared<T>(work, C, rest, m, m, n);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) rest[i * n + j] += KB[i * n + j] - T(0.5) * white[i] * h[j];
    for (int i = 0; i < n; ++i) {
      of_mean[i] = select<T>(inside, c[i] + slope * h[i], of_mean[i]);
      for (int j = 0; j <= i; ++j) {
        Vec<T> s = of_known_covariance[i * n + j] + T(0.5) * (c[i] * h[j] + h[i] * c[j]);
        for (int k = 0; k < m; ++k) s -= KB[k * n + i] * C[k * n + j] + C[k * n + i] * rest[k * n + j];
        of_covariance[i * n + j] = of_covariance[j * n + i] = select<T>(inside, s, of_covariance[i * n + j]);
      }
    }
    if (some_vague) pull_again(inside & vague, half);
  }

  // The slopes of P once more, as (E'B) E + C'W C + (c h' + h c') / 2.
  void pull_again(Ints<T> where, Vec<T> half) {
    const Vec<T>*const c = along, *const h = through, *const KB = thin;
    const T* const C = in.emission;
    Vec<T>*const EB = square, *const EBK = against;
    for (int i = 0; i < m * m; ++i) work[i] = half * precision[i];
    multiply_shared<T>(work, C, rest, m, m, n);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) rest[i * n + j] -= T(0.5) * white[i] * h[j];  // - W C
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        Vec<T> s = of_known_covariance[i * n + j];
        for (int k = 0; k < m; ++k) s -= C[k * n + i] * KB[k * n + j];
        EB[i * n + j] = s;
      }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) {
        Vec<T> s = EB[i * n + j] + T(0.5) * (c[i] * h[j] + h[i] * c[j]);
        for (int k = 0; k < m; ++k) {
          if (j == 0) EBK[k] = strands<T, N>(EB + i * n, gain + k * n, n, Vec<T>{});
          s -= EBK[k] * C[k * n + j] + C[k * n + i] * rest[k * n + j];
        }
        of_covariance[i * n + j] = of_covariance[j * n + i] = select<T>(where, s, of_covariance[i * n + j]);
      }
  }

  void add_to_emission(Vec<T> slope) {
    const Vec<T>*const q = against, *const KB = thin, *const KBK = small;
    Vec<T>* const spread = other;
    multiply<T>(known_covariance, of_known, spread, n, n, 1);
    multiply<T>(KB, known_covariance, rest, m, n, n);
    for (int i = 0; i < m; ++i) {
      const Vec<T> outward = slope * white[i] - q[i];
      for (int j = 0; j < n; ++j)
        of_emission[i * n + j] +=
            outward * known[j] + white[i] * spread[j] - T(2) * rest[i * n + j] - slope * gain[i * n + j];
      for (int j = 0; j < m; ++j)
        of_emission_noise[i * m + j] += T(0.5) * (slope * (white[i] * white[j] - precision[i * m + j]) -
                                                  q[i] * white[j] - white[i] * q[j]) + KBK[i * m + j];
    }
  }
};

template <class T, int N, int M>
void back(const KalmanGradient<T>& in, int sequences) {
  Back<T, N, M> step(in, sequences);
  const int n = step.n, m = step.m;
  const int64_t time = in.time;
  int64_t longest;
  const Ints<T> lengths = lengths_of<T>(in.length, sequences, longest);
  gather<T>(step.of_mean, in.last_slope, n, n, sequences);
  gather<T>(step.square, in.last_covariance_slope, n * n, n * n, sequences);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      step.of_covariance[i * n + j] = T(0.5) * (step.square[i * n + j] + step.square[j * n + i]);
  for (int64_t t = time - 1; t >= 0; --t) {
    const Ints<T> inside = longer<T>(lengths, t);
    const Vec<T> slope = select<T>(inside, gather_one<T>(in.log_prob_slope + t, time, sequences), Vec<T>{});
    step.read_belief(t);
    step.read_observation(t, inside);
    step.condition();
    step.move(t, inside);
    step.condition_back(t, inside, slope);
  }
  scatter<T>(in.start_slope, step.of_mean, n, n, sequences);
  scatter<T>(in.start_covariance_slope, step.of_covariance, n * n, n * n, sequences);
  if (in.shifts == 1) scatter<T>(in.shift_slope, step.of_shift, n, n, sequences);
  scatter<T>(in.transition_slope, step.of_transition, n * n, n * n, sequences);
  scatter<T>(in.noise_slope, step.of_noise, n * n, n * n, sequences);
  scatter<T>(in.emission_slope, step.of_emission, m * n, m * n, sequences);
  scatter<T>(in.emission_noise_slope, step.of_emission_noise, m * m, m * m, sequences);
}

// Sizes that are common are known to the compiler; what is computed is the same.
template <class T>
void back_of(const KalmanGradient<T>& in, int sequences) {
  const int n = in.state, m = in.event;
  if (n == 1 && m == 1) return back<T, 1, 1>(in, sequences);
  if (n == 2 && m == 1) return back<T, 2, 1>(in, sequences);
  if (n == 2) return back<T, 2, 0>(in, sequences);
  if (n == 4) return back<T, 4, 0>(in, sequences);
  if (n == 8) return back<T, 8, 0>(in, sequences);
  if (n == 16) return back<T, 16, 0>(in, sequences);
  return back<T, 0, 0>(in, sequences);
}

}  // namespace

extern const KalmanGradientTable kalman_gradient_table;
const KalmanGradientTable kalman_gradient_table = {back_of<float>, back_of<double>, HS_VECTOR_BYTES};

}  // namespace HS_ISA
}  // namespace hs
