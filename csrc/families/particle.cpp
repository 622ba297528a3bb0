// The bootstrap particle filter over all steps: weigh, resample where the weights have become too uneven, move. All
// sequences of a block use the same random numbers, which are drawn once for each step.
#include "kernels/particle.h"

#include <limits>
#include <vector>

#include "kernels/random.h"
#include "kernels/strata.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int64_t padded(int64_t count) { return (count + TOGETHER - 1) / TOGETHER * TOGETHER; }

// Particles that are vectors: number n of particle i is at [n * pitch + i].
template <class T, class D>
class Linear {
 public:
  typedef T Entry;

  Linear(const LinearMoves<T>& in, int64_t particles, int64_t sequences, int64_t begin)
      : in_(in), particles_(particles), pitch_(padded(particles)), begin_(begin), noise_(in.noises * pitch_),
        moved_(in.size * pitch_), clouds_(sequences * in.size * pitch_) {
    std::fill(clouds_ + 0, clouds_ + sequences * in.size * pitch_, T(0));
    for (int64_t s = 0; s < sequences; ++s)
      for (int64_t i = 0; i < particles; ++i)
        for (int64_t n = 0; n < in.size; ++n)
          cloud(s)[n * pitch_ + i] = in.first[((begin + s) * particles + i) * in.size + n];
  }

  void draw(Key key) { normals<T, D>(key, particles_, in_.noises, pitch_, noise_); }

  // log p(x | z) of all particles; behind the last whatever.
  void weigh(int64_t s, int64_t t, int64_t time, T* out) const {
    constexpr int width = Lanes<T>::count;
    const T* const x = in_.xs + ((begin_ + s) * time + t) * in_.event;
    const T constant = *in_.constant;
    for (int64_t i = 0; i < particles_; i += width) {
      Vec<T> sum = {};
      for (int64_t m = 0; m < in_.event; ++m) {
        Vec<T> apart = all<T>(x[m]);
        for (int64_t n = 0; n < in_.size; ++n)
          apart -= in_.emission[m * in_.size + n] * load<T>(cloud(s) + n * pitch_ + i);
        sum += apart * apart;
      }
      store<T>(out + i, constant - T(0.5) * sum);
    }
  }

  // Where `ancestors` is null every particle is its own.
  void move(int64_t s, int64_t t, const int32_t* ancestors) {
    constexpr int width = Lanes<T>::count;
    T* const own = cloud(s);
    const T* from = own;
    if (ancestors) {
      for (int64_t n = 0; n < in_.size; ++n)
        for (int64_t i = 0; i < particles_; ++i) moved_[n * pitch_ + i] = own[n * pitch_ + ancestors[i]];
      from = moved_;
    } else if (in_.size > 1) {
      std::copy(own, own + in_.size * pitch_, moved_ + 0);
      from = moved_;
    }
    const T* const shift = in_.shift + ((begin_ + s) * in_.shifts + (in_.shifts > 1 ? t : 0)) * in_.size;
    for (int64_t i = 0; i < particles_; i += width)
      for (int64_t n = 0; n < in_.size; ++n) {
        Vec<T> z = all<T>(shift[n]);
        for (int64_t k = 0; k < in_.size; ++k) z += in_.transition[n * in_.size + k] * load<T>(from + k * pitch_ + i);
        for (int64_t k = 0; k < in_.noises; ++k) z += in_.root[n * in_.noises + k] * load<T>(noise_ + k * pitch_ + i);
        store<T>(own + n * pitch_ + i, z);
      }
  }

  // The particles as rows, at row `row` of the last or the kept ones.
  void put(int64_t s, T* out, int64_t row) const {
    T* const to = out + row * particles_ * in_.size;
    for (int64_t i = 0; i < particles_; ++i)
      for (int64_t n = 0; n < in_.size; ++n) to[i * in_.size + n] = cloud(s)[n * pitch_ + i];
  }

  int64_t size() const { return in_.size; }

 private:
  T* cloud(int64_t s) const { return clouds_ + s * in_.size * pitch_; }

  const LinearMoves<T>& in_;
  int64_t particles_, pitch_, begin_;
  hs::Scratch<T> noise_, moved_, clouds_;
};

// Particles that are symbols.
template <class T, class D>
class Symbols {
 public:
  typedef int32_t Entry;

  Symbols(const SymbolMoves<T>& in, int64_t particles, int64_t sequences, int64_t begin)
      : in_(in), particles_(particles), begin_(begin), uniform_(padded(particles)), moved_(particles),
        clouds_(sequences * particles) {
    std::copy(in.first + begin * particles, in.first + (begin + sequences) * particles, clouds_ + 0);
  }

  void draw(Key key) { uniforms_of_keys<D>(key, particles_, uniform_); }

  void weigh(int64_t s, int64_t t, int64_t time, T* out) const {
    const T* const each = in_.log_likelihoods + ((begin_ + s) * time + t) * in_.states;
    for (int64_t i = 0; i < particles_; ++i) out[i] = each[cloud(s)[i]];
  }

  void move(int64_t s, int64_t, const int32_t* ancestors) {
    int32_t* const own = cloud(s);
    if (ancestors) {
      for (int64_t i = 0; i < particles_; ++i) moved_[i] = own[ancestors[i]];
      std::copy(moved_ + 0, moved_ + particles_, own);
    }
    const D* const table = static_cast<const D*>(in_.table);
    for (int64_t i = 0; i < particles_; ++i) {
      const D* const row = table + own[i] * (in_.states + 1);
      const D at = uniform_[i] * row[in_.states];
      int64_t found = 0;
      for (int64_t left = in_.states; left > 1;) {
        const int64_t half = left / 2;
        found += row[found + half - 1] <= at ? half : 0;
        left -= half;
      }
      own[i] = int32_t(found);
    }
  }

  void put(int64_t s, int32_t* out, int64_t row) const {
    std::copy(cloud(s), cloud(s) + particles_, out + row * particles_);
  }

  int64_t size() const { return 1; }

 private:
  int32_t* cloud(int64_t s) const { return clouds_ + s * particles_; }

  const SymbolMoves<T>& in_;
  int64_t particles_, begin_;
  hs::Scratch<D> uniform_;
  hs::Scratch<int32_t> moved_, clouds_;
};

// What the weights add up to, before they are normalised.
template <class T>
struct Sums {
  T log_total, total, size;  // the effective sample size
};

// weights = e^{logs - the largest}, and what follows from them. Lanes behind the particles hold minus infinity.
template <class T>
Sums<T> exponentiate(const T* logs, int64_t pitch, T top, T* weights) {
  constexpr int width = Lanes<T>::count;
  const T shift = std::isfinite(top) ? top : T(0);
  Vec<T> sums[2] = {}, squares[2] = {};  // two of each, since a sum waits for itself
  for (int64_t i = 0; i < pitch; i += 2 * width)
    for (int k = 0; k < 2; ++k) {
      const Vec<T> e = exp<T>(load<T>(logs + i + k * width) - shift);
      store<T>(weights + i + k * width, e);
      sums[k] += e;
      squares[k] += e * e;
    }
  const T total = sum_lanes<T>(sums[0] + sums[1]), square = sum_lanes<T>(squares[0] + squares[1]);
  return {std::log(total) + shift, total, total * total / square};
}

template <class T>
T largest(const T* numbers, int64_t pitch) {
  constexpr int width = Lanes<T>::count;
  Vec<T> top = all<T>(-std::numeric_limits<T>::infinity());
  for (int64_t i = 0; i < pitch; i += width) top = maximum<T>(top, load<T>(numbers + i));
  return max_lanes<T>(top);
}

// What all sequences of a block work in; nothing of it outlasts a step of one of them.
template <class T, class D>
class Weighing {
 public:
  explicit Weighing(const Clouds<T>& in)
      : in_(in), pitch_(padded(in.particles)), logs_(pitch_), weights_(pitch_), positions_(pitch_), drawn_(pitch_),
        ancestors_(in.particles + OVERHANG), strata_(in.particles), equal_(-std::log(T(in.particles))) {}

  // The positions in all strata, for all sequences.
  void draw(Key key) {
    constexpr T below_one = std::is_same<T, float>::value ? T(0x1.fffffep-1) : T(0x1.fffffffffffffp-1);
    if (in_.choosing == Choosing::systematic) {
      position_ = std::min(T(uniform<D>(key)), below_one);
    } else {
      uniforms<D>(key, in_.particles, drawn_);
      for (int64_t i = 0; i < in_.particles; ++i) positions_[i] = std::min(T(drawn_[i]), below_one);
    }
  }

  // Where particles say what an observation is worth.
  T* scores() { return logs_; }

  // Weights by these scores on top of `held`, the log-weights so far, which become those after the step. True where
  // particles were chosen anew. Before that, the log-weights are put into `after` unless that is null.
  bool step(T* held, bool seen, T& evidence, T& size, T* after) {
    constexpr int width = Lanes<T>::count;
    constexpr T nothing = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < in_.particles; i += width)
      store<T>(logs_ + i, load<T>(logs_ + i) + load<T>(held + i));
    std::fill(logs_ + in_.particles, logs_ + pitch_, nothing);
    T top = largest<T>(logs_, pitch_);
    const bool impossible = top == nothing;
    if (impossible) {  // the weights stay as they were
      std::copy(held, held + pitch_, logs_ + 0);
      top = largest<T>(logs_, pitch_);
    }
    const Sums<T> sums = exponentiate<T>(logs_, pitch_, top, weights_);
    evidence = !seen ? T(0) : impossible ? nothing : sums.log_total;
    size = sums.size;
    const bool chosen = seen && !(size >= in_.enough);
    if (!chosen || after) {
      for (int64_t i = 0; i < pitch_; i += width) store<T>(held + i, load<T>(logs_ + i) - sums.log_total);
      if (after) std::copy(held, held + in_.particles, after);
    }
    if (!chosen) return false;
    std::fill(held, held + in_.particles, equal_);
    const T factor = T(in_.particles) / sums.total;
    for (int64_t i = 0; i < pitch_; i += width) store<T>(weights_ + i, load<T>(weights_ + i) * factor);
    if (in_.choosing == Choosing::systematic)
      strata_.choose(weights_, [this](int64_t) { return position_; }, ancestors_);
    else
      strata_.choose(weights_, [this](int64_t i) { return positions_[i]; }, ancestors_);
    return true;
  }

  const int32_t* ancestors() const { return ancestors_; }

 private:
  const Clouds<T>& in_;
  int64_t pitch_;
  hs::Scratch<T> logs_, weights_, positions_;
  hs::Scratch<D> drawn_;
  hs::Scratch<int32_t> ancestors_;
  StrataChoice<T> strata_;
  T equal_, position_ = 0;
};

// One sequence on its way.
template <class T>
struct Track {
  int64_t length;
  T* weights;
  int32_t* ancestors;
};

template <class T, class D, template <class, class> class Model, class Moves>
void run(const Clouds<T>& in, const Moves& moves, int64_t begin, int64_t end) {
  const int64_t count = end - begin, particles = in.particles, time = in.time, pitch = padded(particles);
  Model<T, D> model(moves, particles, count, begin);
  Weighing<T, D> weighing(in);
  hs::Scratch<T> weights(count * pitch);
  hs::Scratch<int32_t> ancestors(count * particles);
  std::vector<Track<T>> tracks;
  int64_t longest = 0;
  for (int64_t s = 0; s < count; ++s) {
    const int64_t row = (begin + s) * particles;
    tracks.push_back({std::min<int64_t>(std::max<int64_t>(in.lengths[begin + s], 0), time), weights + s * pitch,
                      ancestors + s * particles});
    std::copy(in.first_weights + row, in.first_weights + row + particles, tracks[s].weights);
    std::fill(tracks[s].weights + particles, tracks[s].weights + pitch, -std::numeric_limits<T>::infinity());
    std::copy(in.first_ancestors + row, in.first_ancestors + row + particles, tracks[s].ancestors);
    longest = std::max(longest, tracks[s].length);
  }
  const bool keeps = in.keeping != Keeping::nothing;
  const auto keep = [&](int64_t s, int64_t t, Key key) {
    const int64_t at = (begin + s) * time + t;
    model.put(s, moves.kept, at);
    std::copy(tracks[s].ancestors, tracks[s].ancestors + particles, in.kept_ancestors + at * particles);
    if (in.keeping == Keeping::before || t >= tracks[s].length)
      std::copy(tracks[s].weights, tracks[s].weights + particles, in.kept_weights + at * particles);
    in.kept_keys[2 * at] = key.first, in.kept_keys[2 * at + 1] = key.second;
  };
  const auto finish = [&](int64_t s, Key key) {
    const int64_t row = begin + s, length = tracks[s].length;
    model.put(s, moves.last, row);
    std::copy(tracks[s].weights, tracks[s].weights + particles, in.weights + row * particles);
    std::copy(tracks[s].ancestors, tracks[s].ancestors + particles, in.ancestors + row * particles);
    in.keys[2 * row] = key.first, in.keys[2 * row + 1] = key.second;
    for (int64_t t = length; t < time; ++t) {
      const int64_t at = row * time + t;
      in.evidence[at] = length ? in.evidence[at - 1] : T(0);
      in.sizes[at] = length ? in.sizes[at - 1] : T(particles);
      in.resampled[at] = length ? in.resampled[at - 1] : false;
      if (keeps) keep(s, t, key);
    }
  };

  Key key{in.key[0], in.key[1]};
  for (int64_t s = 0; s < count; ++s)
    if (tracks[s].length == 0) finish(s, key);
  for (int64_t t = 0; t < longest; ++t) {
    const Key next = threefry<uint32_t>(key, 0);
    weighing.draw(threefry<uint32_t>(key, 2));
    model.draw(threefry<uint32_t>(key, 3));
    for (int64_t s = 0; s < count; ++s) {
      if (t >= tracks[s].length) continue;
      if (keeps) keep(s, t, key);
      const int64_t at = (begin + s) * time + t;
      T* const after = in.keeping == Keeping::after ? in.kept_weights + at * particles : nullptr;
      const bool seen = in.seen ? in.seen[at] : true;
      if (seen)
        model.weigh(s, t, time, weighing.scores());
      else
        std::fill(weighing.scores(), weighing.scores() + particles, T(0));
      const bool chosen = weighing.step(tracks[s].weights, seen, in.evidence[at], in.sizes[at], after);
      in.resampled[at] = chosen;
      const bool last = t + 1 == tracks[s].length;
      if (chosen && (keeps || last))
        std::copy(weighing.ancestors(), weighing.ancestors() + particles, tracks[s].ancestors);
      else if (keeps || last)
        for (int64_t i = 0; i < particles; ++i) tracks[s].ancestors[i] = int32_t(i);
      model.move(s, t, chosen ? weighing.ancestors() : nullptr);
      if (last) finish(s, next);
    }
    key = next;
  }
}

template <class T, class D>
constexpr ParticleRuns<T> runs_of() {
  return {run<T, D, Linear, LinearMoves<T>>, run<T, D, Symbols, SymbolMoves<T>>};
}

}  // namespace

extern const ParticleTable particle_table;
const ParticleTable particle_table = {runs_of<float, float>(), runs_of<float, double>(), runs_of<double, double>()};

}  // namespace HS_ISA
}  // namespace hs
