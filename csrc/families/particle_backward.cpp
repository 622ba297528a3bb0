// The way back through bootstrap particle filters. Adjoints go from particles to those that they descend from; the noise
// that moved them is drawn once more, together for neighbours in a block that begin with one key.
#include "kernels/particle_backward.h"

#include <algorithm>
#include <limits>

#include "kernels/random.h"
#include "scratch.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int64_t padded(int64_t count) { return (count + TOGETHER - 1) / TOGETHER * TOGETHER; }

// out[ancestor] += in[i], for all that `out` stands for; lanes behind the particles become zero.
template <class T>
void to_ancestors(const T* in, const int32_t* ancestors, int64_t particles, int64_t pitch, T* out) {
  std::fill(out, out + pitch, T(0));
  for (int64_t i = 0; i < particles; ++i) out[ancestors[i]] += in[i];
}

// Sums over all particles and steps, a vector of parts each.
template <class T>
class Totals {
 public:
  explicit Totals(int64_t count) : count_(count), parts_(count * Lanes<T>::count) {
    std::fill(parts_ + 0, parts_ + count * Lanes<T>::count, T(0));
  }
  void add(int64_t number, Vec<T> more) {
    T* const at = parts_ + number * Lanes<T>::count;
    store<T>(at, load<T>(at) + more);
  }
  void put(int64_t from, int64_t to, T* out) const {
    for (int64_t n = from; n < to; ++n) out[n - from] = sum_lanes<T>(load<T>(parts_ + n * Lanes<T>::count));
  }
  int64_t count() const { return count_; }

 private:
  int64_t count_;
  hs::Scratch<T> parts_;
};

template <class T>
Vec<T> dot(const T* a, const T* b, int64_t pitch) {
  Vec<T> sum = {};
  for (int64_t i = 0; i < pitch; i += Lanes<T>::count) sum += load<T>(a + i) * load<T>(b + i);
  return sum;
}

template <class T>
Vec<T> sum_of(const T* a, int64_t pitch) {
  Vec<T> sum = {};
  for (int64_t i = 0; i < pitch; i += Lanes<T>::count) sum += load<T>(a + i);
  return sum;
}

// The adjoints of one sequence's particles that are vectors: number n of particle i is at [n * pitch + i].
template <class T, class D>
class Linear {
 public:
  Linear(const LinearBack<T>& in, int64_t particles, int64_t time, int64_t sequences, int64_t begin)
      : in_(in), particles_(particles), time_(time), pitch_(padded(particles)), begin_(begin), noise_(in.noises * pitch_),
        at_(in.size * pitch_), moved_(in.size * pitch_), rest_(pitch_), adjoints_(sequences * in.size * pitch_),
        roots_(in.size * in.size), emissions_(roots_ + in.size * in.noises), constant_(emissions_ + in.event * in.size),
        totals_(sequences * (constant_ + 1)) {
    std::fill(at_ + 0, at_ + in.size * pitch_, T(0));
    std::fill(adjoints_ + 0, adjoints_ + sequences * in.size * pitch_, T(0));
    for (int64_t s = 0; s < sequences; ++s) add_rows(in.d_last + (begin + s) * particles * in.size, adjoint(s));
  }

  void draw(Key key) { normals<T, D>(key, particles_, in_.noises, pitch_, noise_); }

  // What stands behind the end is the last.
  void add_behind(int64_t s, int64_t t) {
    if (in_.d_particles) add_rows(in_.d_particles + row(s, t) * particles_ * in_.size, adjoint(s));
    clear(s, t);
  }

  // From the particles behind step t to those at it; `ancestors` is null where every particle is its own.
  void move(int64_t s, int64_t t, const int32_t* ancestors, const T*, const T*) {
    T* const own = adjoint(s);
    const int64_t total = s * (constant_ + 1);
    load_rows(in_.particles + row(s, t) * particles_ * in_.size);
    for (int64_t n = 0; n < in_.size; ++n) {
      const T* const each = own + n * pitch_;
      in_.d_shift[row(s, t) * in_.size + n] = sum_lanes<T>(sum_of<T>(each, pitch_));
      for (int64_t k = 0; k < in_.noises; ++k)
        totals_.add(total + roots_ + n * in_.noises + k, dot<T>(each, noise_ + k * pitch_, pitch_));
      if (ancestors)
        to_ancestors<T>(each, ancestors, particles_, pitch_, moved_ + n * pitch_);
      else
        std::copy(each, each + pitch_, moved_ + n * pitch_);
      for (int64_t k = 0; k < in_.size; ++k)
        totals_.add(total + n * in_.size + k, dot<T>(moved_ + n * pitch_, at_ + k * pitch_, pitch_));
    }
    for (int64_t i = 0; i < pitch_; i += Lanes<T>::count)
      for (int64_t k = 0; k < in_.size; ++k) {
        Vec<T> sum = {};
        for (int64_t n = 0; n < in_.size; ++n)
          sum += in_.transition[n * in_.size + k] * load<T>(moved_ + n * pitch_ + i);
        store<T>(own + k * pitch_ + i, sum);
      }
    if (in_.d_particles) add_rows(in_.d_particles + row(s, t) * particles_ * in_.size, own);
  }

  // Adjoints of log p(x | z) at step t, where the last move has left the particles of that step.
  void weigh(int64_t s, int64_t t, const T* scores) {
    T* const own = adjoint(s);
    const int64_t total = s * (constant_ + 1);
    totals_.add(total + constant_, sum_of<T>(scores, pitch_));
    for (int64_t m = 0; m < in_.event; ++m) {
      const T* const emission = in_.emission + m * in_.size;
      Vec<T> seen = {};
      for (int64_t i = 0; i < pitch_; i += Lanes<T>::count) {
        Vec<T> apart = all<T>(in_.xs[row(s, t) * in_.event + m]);
        for (int64_t n = 0; n < in_.size; ++n) apart -= emission[n] * load<T>(at_ + n * pitch_ + i);
        const Vec<T> pull = apart * load<T>(scores + i);
        store<T>(rest_ + i, pull);
        seen -= pull;
        for (int64_t n = 0; n < in_.size; ++n)
          store<T>(own + n * pitch_ + i, load<T>(own + n * pitch_ + i) + emission[n] * pull);
      }
      in_.d_xs[row(s, t) * in_.event + m] = sum_lanes<T>(seen);
      for (int64_t n = 0; n < in_.size; ++n)
        totals_.add(total + emissions_ + m * in_.size + n, dot<T>(rest_, at_ + n * pitch_, pitch_));
    }
  }

  // Where nothing was seen.
  void skip(int64_t s, int64_t t) {
    T* const out = in_.d_xs + row(s, t) * in_.event;
    std::fill(out, out + in_.event, T(0));
  }

  void finish(int64_t s) {
    const int64_t to = begin_ + s, total = s * (constant_ + 1);
    totals_.put(total, total + roots_, in_.d_transition + to * roots_);
    totals_.put(total + roots_, total + emissions_, in_.d_root + to * in_.size * in_.noises);
    totals_.put(total + emissions_, total + constant_, in_.d_emission + to * in_.event * in_.size);
    totals_.put(total + constant_, total + constant_ + 1, in_.d_constant + to);
    for (int64_t i = 0; i < particles_; ++i)
      for (int64_t n = 0; n < in_.size; ++n)
        in_.d_first[(to * particles_ + i) * in_.size + n] = adjoint(s)[n * pitch_ + i];
  }

 private:
  T* adjoint(int64_t s) const { return adjoints_ + s * in_.size * pitch_; }
  int64_t row(int64_t s, int64_t t) const { return (begin_ + s) * time_ + t; }
  void clear(int64_t s, int64_t t) {
    skip(s, t);
    std::fill(in_.d_shift + row(s, t) * in_.size, in_.d_shift + (row(s, t) + 1) * in_.size, T(0));
  }
  void load_rows(const T* rows) {
    for (int64_t i = 0; i < particles_; ++i)
      for (int64_t n = 0; n < in_.size; ++n) at_[n * pitch_ + i] = rows[i * in_.size + n];
  }
  void add_rows(const T* rows, T* out) const {
    for (int64_t i = 0; i < particles_; ++i)
      for (int64_t n = 0; n < in_.size; ++n) out[n * pitch_ + i] += rows[i * in_.size + n];
  }

  const LinearBack<T>& in_;
  int64_t particles_, time_, pitch_, begin_;
  hs::Scratch<T> noise_, at_, moved_, rest_, adjoints_;
  int64_t roots_, emissions_, constant_;  // where their totals begin
  Totals<T> totals_;
};

// Particles that are symbols: what moves them is the derivative of the log-probability of their moves.
template <class T, class D>
class Symbols {
 public:
  Symbols(const SymbolBack<T>& in, int64_t particles, int64_t time, int64_t sequences, int64_t begin)
      : in_(in), particles_(particles), time_(time), begin_(begin) {
    const int64_t moves = in.states * in.states;
    std::fill(in.d_log_probs + begin * moves, in.d_log_probs + (begin + sequences) * moves, T(0));
  }

  void draw(Key) {}

  void add_behind(int64_t s, int64_t t) { skip(s, t); }

  // `after` are adjoints of the log-weights behind step t, `shares` the weights of particles before they moved (null: equal).
  void move(int64_t s, int64_t t, const int32_t* ancestors, const T* after, const T* shares) {
    const int32_t* const from = in_.particles + row(s, t) * particles_;
    const int32_t* const to = t + 1 < time_ ? from + particles_ : in_.last + (begin_ + s) * particles_;
    T* const out = in_.d_log_probs + (begin_ + s) * in_.states * in_.states;
    const T total = sum_lanes<T>(sum_of<T>(after, padded(particles_))), equal = T(1) / T(particles_);
    for (int64_t i = 0; i < particles_; ++i)
      out[from[ancestors ? ancestors[i] : i] * in_.states + to[i]] += after[i] - (shares ? shares[i] : equal) * total;
  }

  void weigh(int64_t s, int64_t t, const T* scores) {
    skip(s, t);
    const int32_t* const at = in_.particles + row(s, t) * particles_;
    T* const out = in_.d_log_likelihoods + row(s, t) * in_.states;
    for (int64_t i = 0; i < particles_; ++i) out[at[i]] += scores[i];
  }

  void skip(int64_t s, int64_t t) {
    T* const out = in_.d_log_likelihoods + row(s, t) * in_.states;
    std::fill(out, out + in_.states, T(0));
  }

  void finish(int64_t) {}

 private:
  int64_t row(int64_t s, int64_t t) const { return (begin_ + s) * time_ + t; }

  const SymbolBack<T>& in_;
  int64_t particles_, time_, begin_;
};

// The adjoints of log-weights of all sequences of a block, those behind a step and then those at it.
template <class T>
class Weights {
 public:
  Weights(const CloudsBack<T>& in, int64_t sequences, int64_t begin)
      : in_(in), pitch_(padded(in.particles)), begin_(begin), shares_(pitch_), known_(pitch_), adjoints_(sequences * pitch_) {
    std::fill(adjoints_ + 0, adjoints_ + sequences * pitch_, T(0));
    for (int64_t s = 0; s < sequences; ++s) add(in.d_last_weights + (begin + s) * in.particles, adjoint(s));
  }

  T* adjoint(int64_t s) const { return adjoints_ + s * pitch_; }
  const T* shares() const { return shares_; }

  void add_behind(int64_t s, int64_t t) {
    if (in_.d_weights) add(in_.d_weights + row(s, t) * in_.particles, adjoint(s));
  }

  // The weights of particles at step t, given what was observed there.
  void load(int64_t s, int64_t t) {
    std::copy(in_.weights + row(s, t) * in_.particles, in_.weights + (row(s, t) + 1) * in_.particles, known_ + 0);
    std::fill(known_ + in_.particles, known_ + pitch_, -std::numeric_limits<T>::infinity());
    for (int64_t i = 0; i < pitch_; i += Lanes<T>::count) store<T>(shares_ + i, exp<T>(hs::HS_ISA::load<T>(known_ + i)));
  }

  // Through the choice of ancestors, from which derivatives take the weights that these had, less their mean.
  void choose(int64_t s, const int32_t* ancestors) {
    T* const own = adjoint(s);
    const T mean = sum_lanes<T>(sum_of<T>(own, pitch_)) / T(in_.particles);
    for (int64_t i = 0; i < in_.particles; ++i) own[i] -= mean;
    to_ancestors<T>(own, ancestors, in_.particles, pitch_, known_);
    std::copy(known_ + 0, known_ + pitch_, own);
  }

  // Through the normalisation: from weights to scores, with the adjoints of the evidence and of the effective sample size.
  void normalise(int64_t s, int64_t t, T d_evidence, T d_size) {
    T* const own = adjoint(s);
    add_behind(s, t);
    const T size = in_.sizes[row(s, t)], slope = T(-2) * size * size * d_size;
    if (slope != 0)
      for (int64_t i = 0; i < in_.particles; ++i) own[i] += slope * shares_[i] * shares_[i];
    const T left = d_evidence - sum_lanes<T>(sum_of<T>(own, pitch_));
    for (int64_t i = 0; i < in_.particles; ++i) own[i] += left * shares_[i];
  }

 private:
  int64_t row(int64_t s, int64_t t) const { return (begin_ + s) * in_.time + t; }
  void add(const T* more, T* out) const {
    for (int64_t i = 0; i < in_.particles; ++i) out[i] += more[i];
  }

  const CloudsBack<T>& in_;
  int64_t pitch_, begin_;
  hs::Scratch<T> shares_, known_, adjoints_;
};

template <class T, class D, template <class, class> class Model, class Moves>
void run(const CloudsBack<T>& in, const Moves& moves, int64_t begin, int64_t end) {
  const int64_t count = end - begin, particles = in.particles, time = in.time;
  Model<T, D> model(moves, particles, time, count, begin);
  Weights<T> weights(in, count, begin);
  hs::Scratch<T> late(2 * count);  // adjoints of what stands behind the end
  std::fill(late + 0, late + 2 * count, T(0));
  for (int64_t t = time - 1; t >= 0; --t) {
    bool drawn = false;
    Key last{};
    for (int64_t s = 0; s < count; ++s) {
      const int64_t at = (begin + s) * time + t;
      T &evidence = late[2 * s], &size = late[2 * s + 1];
      evidence += in.d_evidence[at], size += in.d_sizes[at];
      if (t >= in.lengths[begin + s]) {
        model.add_behind(s, t), weights.add_behind(s, t);
        continue;
      }
      const Key key{in.keys[2 * at], in.keys[2 * at + 1]};
      if (!drawn || key.first != last.first || key.second != last.second) model.draw(threefry<uint32_t>(key, 3));
      drawn = true, last = key;
      weights.load(s, t);
      const int32_t* const led = t + 1 < time ? in.ancestors + (at + 1) * particles : in.last_ancestors + (begin + s) * particles;
      const int32_t* const chosen = in.resampled[at] ? led : nullptr;
      model.move(s, t, chosen, weights.adjoint(s), chosen ? nullptr : weights.shares());
      if (chosen) weights.choose(s, chosen);
      const bool told = (!in.seen || in.seen[at]) && in.evidence[at] != -std::numeric_limits<T>::infinity();
      weights.normalise(s, t, told ? evidence : T(0), size);
      told ? model.weigh(s, t, weights.adjoint(s)) : model.skip(s, t);
      evidence = size = T(0);
    }
  }
  for (int64_t s = 0; s < count; ++s) {
    model.finish(s);
    std::copy(weights.adjoint(s), weights.adjoint(s) + particles, in.d_first_weights + (begin + s) * particles);
  }
}

template <class T, class D>
constexpr ParticleBackRuns<T> runs_of() {
  return {run<T, D, Linear, LinearBack<T>>, run<T, D, Symbols, SymbolBack<T>>};
}

}  // namespace

extern const ParticleBackTable particle_backward_table;
const ParticleBackTable particle_backward_table = {runs_of<float, float>(), runs_of<float, double>(),
                                                   runs_of<double, double>()};

}  // namespace HS_ISA
}  // namespace hs
