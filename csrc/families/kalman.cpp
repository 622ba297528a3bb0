// The Kalman filter in square-root form: one chain of covariances for all sequences where no observation is missing,
// otherwise one for each sequence, a vector of sequences at once.
#include "kernels/kalman.h"

#include "kernels/rest.h"
#include "kernels/roots.h"
#include "kernels/sequences.h"

namespace hs {
namespace HS_ISA {
namespace {

template <class T>
constexpr T half_log_two_pi = T(0.91893853320467274178);

// -- the chain of covariances, lanes over rows -----------------------------------------------------------------------

template <class T>
struct Chain {
  int n, m, n_padded, m_padded;
  Scratch<T> memory;
  Columns<T> transition, noise, emission, emission_noise;
  Columns<T> root, gain, seen, innovation, ahead, before;
  T* mirror;

  explicit Chain(const KalmanSystem<T>& system)
      : n(system.state), m(system.event), n_padded(Columns<T>::pad(n)), m_padded(Columns<T>::pad(m)),
        memory(size_t((6 * n + m) * n_padded + (2 * n + 2 * m) * m_padded) / Lanes<T>::count + size_t(n + 2 * m + 8)),
        transition(make(n, n)), noise(make(n, n)), emission(make(m, n)), emission_noise(make(m, m)), root(make(n, n)),
        gain(make(n, m)), seen(make(m, n)), innovation(make(m, m)), ahead(make(n, n)), before(make(n, n)) {
    mirror = memory.take_numbers(size_t(n));
    read<T>(transition, system.transition, n);
    read<T>(noise, system.noise, n);
    read<T>(emission, system.emission, n);
    read<T>(emission_noise, system.emission_noise, m);
  }

  Columns<T> make(int rows, int columns) {
    const int padded = rows == n ? n_padded : m_padded;
    Columns<T> made{memory.take_numbers(size_t(padded) * size_t(columns)), rows, padded};
    clear<T>(made, columns);
    return made;
  }

  // `root` given the observation, with `gain` and `innovation`.
  void condition() {
    std::memcpy(innovation.data, emission_noise.data, sizeof(T) * size_t(m) * size_t(m_padded));
    clear<T>(gain, m);
    multiply<T>(emission, root, seen, n);
    absorb<T>(innovation, seen, &gain, &root, n, mirror);
  }

  // `root` one step later.
  void move() {
    multiply<T>(transition, root, ahead, n);
    std::memcpy(root.data, noise.data, sizeof(T) * size_t(n) * size_t(n_padded));
    absorb<T>(root, ahead, nullptr, nullptr, n, mirror);
  }

  T log_size() {
    constexpr int lanes = Lanes<T>::count;
    T total = 0;
    for (int v = 0; v < m; v += lanes) {
      Vec<T> part = all<T>(T(1));
      for (int i = v; i < m && i < v + lanes; ++i) part[i - v] = std::abs(innovation.at(i, i));
      total += sum_lanes<T>(logarithm<T>(part));
    }
    return total;
  }
};

template <class T>
void copy_steps(T* rows, int64_t size, int64_t from, int64_t to, int64_t period) {
  for (int64_t t = from; t < to; ++t)
    std::memcpy(rows + t * size, rows + (t - period) * size, sizeof(T) * size_t(size));
}

// Covariances of a stable system come to rest, in the end bit for bit, in a short cycle, or but for rounding. A root
// that was met before (Brent's search) is followed by what followed it then, so that the rest is copied.
template <class T>
void factors(const KalmanFactors<T>& in) {
  const int64_t time = in.system.time, n = in.system.state, m = in.system.event;
  Chain<T> chain(in.system);
  read<T>(chain.root, in.start, int(n));
  Rest<T> rest(chain.root, chain.before, int(n), true);
  int64_t t = 0;
  for (; t < time && !rest.reached(t); ++t) {
    write<T>(in.predicted + t * n * n, chain.root, int(n));
    chain.condition();
    write<T>(in.filtered + t * n * n, chain.root, int(n));
    write<T>(in.gain + t * n * m, chain.gain, int(m));
    write<T>(in.innovation + t * m * m, chain.innovation, int(m));
    in.log_size[t] = chain.log_size();
    chain.move();
  }
  write<T>(in.predicted + t * n * n, chain.root, int(n));
  if (t == time) return;
  const int64_t period = rest.period;
  copy_steps<T>(in.predicted, n * n, t + 1, time + 1, period);
  copy_steps<T>(in.filtered, n * n, t, time, period);
  copy_steps<T>(in.gain, n * m, t, time, period);
  copy_steps<T>(in.innovation, m * m, t, time, period);
  copy_steps<T>(in.log_size, 1, t, time, period);
}

// -- sequences in lanes ------------------------------------------------------------------------------------------------

// What is left of an observation once the mean is known, divided by the innovation's root; and the sum of its squares.
template <class T, class Root>
HS_INLINE Vec<T> whiten(Vec<T>* apart, const Root* innovation, int m) {
  Vec<T> squares = {};
  for (int i = 0; i < m; ++i) {
    Vec<T> s = apart[i];
    for (int k = 0; k < i; ++k) s -= innovation[i * m + k] * apart[k];
    apart[i] = s / innovation[i * m + i];
    squares += apart[i] * apart[i];
  }
  return squares;
}

template <class T>
HS_INLINE void hold(Ints<T> inside, Vec<T>* kept, const Vec<T>* now, int count) {
  for (int k = 0; k < count; ++k) kept[k] = select<T>(inside, now[k], kept[k]);
}

template <class T, int N, int M>
void means(const KalmanMeans<T>& in, int sequences) {
  const int n = N ? N : in.system.state, m = M ? M : in.system.event;
  const int64_t time = in.system.time;
  int64_t longest;
  const Ints<T> lengths = lengths_of<T>(in.length, sequences, longest);
  Scratch<T> memory(size_t(4 * n + m));
  Vec<T>*mean = memory.take(n), *known = memory.take(n), *next = memory.take(n), *shift = memory.take(n),
        *apart = memory.take(m);
  gather<T>(mean, in.start, n, n, sequences);
  for (int i = 0; i < n; ++i) known[i] = mean[i];
  for (int64_t t = 0; t < time; ++t) {
    if (in.predicted) scatter<T>(in.predicted + t * n, mean, n, time * n, sequences);
    Vec<T> log_prob = {};
    if (t < longest) {
      const Ints<T> inside = longer<T>(lengths, t);
      const T *gain = in.gain + t * n * m, *innovation = in.innovation + t * m * m;
      gather<T>(apart, in.x + t * m, m, time * m, sequences);
      for (int i = 0; i < m; ++i) {
        Vec<T> s = {};
        for (int k = 0; k < n; ++k) s += in.system.emission[i * n + k] * mean[k];
        apart[i] = apart[i] - s;
      }
      const Vec<T> squares = whiten<T, T>(apart, innovation, m);
      log_prob = T(-0.5) * squares - in.log_size[t] - half_log_two_pi<T> * T(m);
      log_prob = select<T>(inside, log_prob, Vec<T>{});
      for (int i = 0; i < n; ++i) {
        Vec<T> s = mean[i];
        for (int k = 0; k < m; ++k) s += gain[i * m + k] * apart[k];
        known[i] = select<T>(inside, s, known[i]);
      }
      gather<T>(shift, in.shift + (in.shifts > 1 ? t * n : 0), n, in.shifts * n, sequences);
      for (int i = 0; i < n; ++i) {
        Vec<T> s = {};
        for (int k = 0; k < n; ++k) s += in.system.transition[i * n + k] * known[k];
        next[i] = s + shift[i];
      }
      hold<T>(inside, mean, next, n);
    }
    if (in.filtered) scatter<T>(in.filtered + t * n, known, n, time * n, sequences);
    scatter<T>(in.log_prob + t, &log_prob, 1, time, sequences);
  }
  scatter<T>(in.last, mean, n, n, sequences);
}

// The belief of each lane: `root` is lower triangular before an observation.
template <class T, int N, int M>
struct Each {
  const KalmanSystem<T>& system;
  const int n, m;
  Scratch<T> memory;
  Vec<T> *mean, *root, *known, *known_root, *next, *shift, *x, *triangle, *dense, *noise, *own;
  Ints<T> seen[KALMAN_LARGEST];
  bool diagonal = true;  // the noise of an observation

  explicit Each(const KalmanSystem<T>& system)
      : system(system), n(N ? N : system.state), m(M ? M : system.event),
        memory(size_t(4 * n + m + 2 * n * n + (m + n) * (m > n ? m : n) + (m + n) * n + 2 * m * m)) {
    mean = memory.take(n), known = memory.take(n), next = memory.take(n), shift = memory.take(n), x = memory.take(m);
    root = memory.take(n * n), known_root = memory.take(n * n);
    triangle = memory.take((m + n) * (m > n ? m : n)), dense = memory.take((m + n) * n);
    noise = memory.take(m * m), own = memory.take(m * m);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < i; ++j) diagonal &= system.emission_noise[i * m + j] == 0;
  }

  // A root of the noise of the entries that are there, with a noise of one for each of the others; it is that of the
  // model where all are there.
  void mask_noise(Ints<T> whole, bool everywhere) {
    for (int i = 0; i < m * m; ++i) noise[i] = all<T>(system.emission_noise[i]);
    if (everywhere) return;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) {
        const Vec<T> entry = j <= i ? select<T>(seen[i], noise[i * m + j], Vec<T>{}) : Vec<T>{};
        triangle[i * m + j] = select<T>(seen[j], entry, all<T>(T(i == j ? 1 : 0)));
        own[i * m + j] = select<T>(seen[j], Vec<T>{}, entry);
      }
    if (!diagonal) absorb<T, 0>(triangle, own, m, m, m);
    for (int i = 0; i < m * m; ++i) noise[i] = select<T>(whole, noise[i], triangle[i]);
  }

  // known, known_root: the belief given x; gives the log-probability.
  Vec<T> condition(const bool* observed, int64_t stride, int sequences) {
    Ints<T> whole = Ints<T>{} - 1, anything = {};
    Vec<T> count = {};
    bool everywhere = true, nowhere = true;
    for (int i = 0; i < m; ++i) {
      seen[i] = Ints<T>{};
      for (int s = 0; s < sequences; ++s) seen[i][s] = !observed || observed[s * stride + i] ? -1 : 0;
      for (int s = 0; s < sequences; ++s) (seen[i][s] ? nowhere : everywhere) = false;
      whole &= seen[i];
      anything |= seen[i];
      count += select<T>(seen[i], all<T>(T(1)), Vec<T>{});
    }
    for (int i = 0; i < n; ++i) known[i] = mean[i];
    for (int i = 0; i < n * n; ++i) known_root[i] = root[i];
    if (nowhere) return Vec<T>{};
    mask_noise(whole, everywhere);
    for (int i = 0; i < m * m; ++i) triangle[i] = noise[i];
    for (int i = m * m; i < (m + n) * m; ++i) triangle[i] = Vec<T>{};
    multiply<T>(system.emission, root, dense, m, n, n);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) dense[i * n + j] = select<T>(seen[i], dense[i * n + j], Vec<T>{});
    for (int i = 0; i < n * n; ++i) dense[m * n + i] = root[i];
    absorb<T, N>(triangle, dense, m, m + n, n);
    for (int i = 0; i < m; ++i) {
      Vec<T> s = {};
      for (int k = 0; k < n; ++k) s += system.emission[i * n + k] * mean[k];
      x[i] = select<T>(seen[i], x[i] - s, Vec<T>{});
    }
    Vec<T> log_size = {};
    for (int i = 0; i < m; ++i) log_size += logarithm<T>(absolute<T>(triangle[i * m + i]));
    const Vec<T> squares = whiten<T, Vec<T>>(x, triangle, m);
    const Vec<T>* gain = triangle + m * m;
    for (int i = 0; i < n; ++i) {
      Vec<T> s = mean[i];
      for (int k = 0; k < m; ++k) s += gain[i * m + k] * x[k];
      known[i] = select<T>(anything, s, mean[i]);
    }
    hold<T>(anything, known_root, dense + m * n, n * n);
    return select<T>(anything, T(-0.5) * squares - log_size - half_log_two_pi<T> * count, Vec<T>{});
  }

  // next, triangle: the belief one step later.
  void move() {
    for (int i = 0; i < n; ++i) {
      Vec<T> s = {};
      for (int k = 0; k < n; ++k) s += system.transition[i * n + k] * known[k];
      next[i] = s + shift[i];
    }
    multiply<T>(system.transition, known_root, dense, n, n, n);
    for (int i = 0; i < n * n; ++i) triangle[i] = all<T>(system.noise[i]);
    absorb<T, N>(triangle, dense, n, n, n);
  }
};

template <class T, int N, int M>
void each(const KalmanEach<T>& in, int sequences) {
  Each<T, N, M> belief(in.system);
  const int n = belief.n, m = belief.m;
  const int64_t time = in.system.time;
  int64_t longest;
  const Ints<T> lengths = lengths_of<T>(in.length, sequences, longest);
  Scratch<T> memory(size_t(n + n * n));
  Vec<T>*held = memory.take(n), *held_root = memory.take(n * n);
  gather<T>(belief.mean, in.start, n, n, sequences);
  gather<T>(belief.root, in.start_root, n * n, n * n, sequences);
  for (int i = 0; i < n; ++i) held[i] = belief.mean[i];
  for (int i = 0; i < n * n; ++i) held_root[i] = belief.root[i];
  for (int64_t t = 0; t < time; ++t) {
    if (in.predicted) scatter<T>(in.predicted + t * n, belief.mean, n, time * n, sequences);
    if (in.predicted_root) scatter<T>(in.predicted_root + t * n * n, belief.root, n * n, time * n * n, sequences);
    Vec<T> log_prob = {};
    if (t < longest) {
      const Ints<T> inside = longer<T>(lengths, t);
      gather<T>(belief.x, in.x + t * m, m, time * m, sequences);
      gather<T>(belief.shift, in.shift + (in.shifts > 1 ? t * n : 0), n, in.shifts * n, sequences);
      log_prob = belief.condition(in.observed ? in.observed + t * m : nullptr, time * m, sequences);
      log_prob = select<T>(inside, log_prob, Vec<T>{});
      belief.move();
      hold<T>(inside, held, belief.known, n);
      hold<T>(inside, held_root, belief.known_root, n * n);
      hold<T>(inside, belief.mean, belief.next, n);
      hold<T>(inside, belief.root, belief.triangle, n * n);
    }
    if (in.filtered) scatter<T>(in.filtered + t * n, held, n, time * n, sequences);
    if (in.filtered_root) scatter<T>(in.filtered_root + t * n * n, held_root, n * n, time * n * n, sequences);
    scatter<T>(in.log_prob + t, &log_prob, 1, time, sequences);
  }
  scatter<T>(in.last, belief.mean, n, n, sequences);
  scatter<T>(in.last_root, belief.root, n * n, n * n, sequences);
}

// Sizes that are common are known to the compiler; what is computed is the same.
#define HS_BY_SIZE(function)                                                            \
  const int n = in.system.state, m = in.system.event;                                   \
  if (n == 1 && m == 1) return function<T, 1, 1>(in, sequences);                        \
  if (n == 2 && m == 1) return function<T, 2, 1>(in, sequences);                        \
  if (n == 2) return function<T, 2, 0>(in, sequences);                                  \
  if (n == 4) return function<T, 4, 0>(in, sequences);                                  \
  if (n == 8) return function<T, 8, 0>(in, sequences);                                  \
  if (n == 16) return function<T, 16, 0>(in, sequences);                                \
  return function<T, 0, 0>(in, sequences);

template <class T>
void means_of(const KalmanMeans<T>& in, int sequences) {
  HS_BY_SIZE(means)
}

template <class T>
void each_of(const KalmanEach<T>& in, int sequences) {
  HS_BY_SIZE(each)
}

}  // namespace

extern const KalmanTable kalman_table;
const KalmanTable kalman_table = {factors<float>,   factors<double>, means_of<float>, means_of<double>,
                                  each_of<float>, each_of<double>, HS_VECTOR_BYTES};

}  // namespace HS_ISA
}  // namespace hs
