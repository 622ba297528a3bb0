// Forward recursion, derivatives, smoother and paths of chains whose state is kept or drawn afresh. Numbers of all states
// lie in buffers of whole vectors, in which those behind the last state are zero.
#include "kernels/copying.h"

#include <algorithm>
#include <limits>

#include "kernels/largest.h"
#include "kernels/rows.h"
#include "scratch.h"

namespace hs {
namespace HS_ISA {
namespace {

template <class T>
constexpr T NOTHING = -std::numeric_limits<T>::infinity();

// One sequence: how many of its steps count, and rows of its arrays.
template <class T>
struct Sequence {
  int64_t states, time, length, first;

  Sequence(const Copying<T>& chain, int64_t i)
      : states(chain.states), time(chain.time),
        length(std::min<int64_t>(std::max<int64_t>(chain.lengths[i], 0), chain.time)), first(i * time * states) {}

  // A vector of row t from state k on; `other` behind the last state.
  HS_INLINE Vec<T> get(const T* array, int64_t t, int64_t k, T other = T(0)) const {
    const int64_t at = t * states + k;
    return read<T, Lanes<T>::count>(array + first + at, states - k, time * states - at, other);
  }
  HS_INLINE void put(T* array, int64_t t, int64_t k, Vec<T> v) const {
    store_up_to<T>(array + first + t * states + k, v, int(std::min<int64_t>(Lanes<T>::count, states - k)));
  }
  // The same where rows are written in order: what is written too much the next row writes over.
  HS_INLINE void put_ahead(T* array, int64_t t, int64_t k, Vec<T> v) const {
    const int64_t at = t * states + k;
    if (__builtin_expect(time * states - at >= Lanes<T>::count, 1))
      store<T>(array + first + at, v);
    else
      put(array, t, k, v);
  }
};

template <class T>
HS_INLINE T sum_of_lanes(Vec<T> v) {
  return sum_of<T, Lanes<T>::count>(v);
}

// Numbers of all states.
template <class T>
class States {
 public:
  explicit States(int64_t states) : size((states + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count), data_(size) {
    std::fill(data_ + 0, data_ + size, T(0));
  }
  States(int64_t states, const T* from) : States(states) { std::copy(from, from + states, data_ + 0); }
  HS_INLINE Vec<T> operator[](int64_t k) const { return load<T>(data_ + k); }
  HS_INLINE void put(int64_t k, Vec<T> v) { store<T>(data_ + k, v); }
  const T* begin() const { return data_; }

  const int64_t size;

 private:
  hs::Scratch<T> data_;
};

template <class T, class F>
HS_INLINE void over(const States<T>& states, F&& body) {
  for (int64_t k = 0; k < states.size; k += Lanes<T>::count) body(k);
}
template <class T, class F>
HS_INLINE T sum_over(const States<T>& states, F&& body) {
  Vec<T> sum = {};
  for (int64_t k = 0; k < states.size; k += Lanes<T>::count) sum += body(k);
  return sum_of_lanes<T>(sum);
}

template <class T>
void forward(const Copying<T>& chain, const CopyForward<T>& in, int64_t i) {
  const Sequence<T> own(chain, i);
  const int64_t states = chain.states;
  const T stay = *chain.stay;
  const States<T> fresh(states, chain.fresh);
  States<T> belief(states, in.first + i * states), known(states);
  for (int64_t t = 0; t < own.length; ++t) {
    Vec<T> tops = all<T>(NOTHING<T>);
    over(belief, [&](int64_t k) {
      const Vec<T> before = belief[k], seen = own.get(in.likelihoods, t, k, NOTHING<T>);
      if (in.predicted) own.put_ahead(in.predicted, t, k, before);
      tops = maximum<T>(tops, before > T(0) ? seen : all<T>(NOTHING<T>));
    });
    const T top = max_of<T, Lanes<T>::count>(tops);
    T& evidence = in.evidence[i * own.time + t];
    T factor = 1, total = 1;
    if (top == NOTHING<T>) {  // no possible state could have given the observation: the belief stays
      evidence = NOTHING<T>;
      total = sum_over(belief, [&](int64_t k) { known.put(k, belief[k]); return belief[k]; });
    } else {
      const T shift = std::isfinite(top) ? top : T(0);
      const T sum = sum_over(belief, [&](int64_t k) {
        const Vec<T> before = belief[k], seen = own.get(in.likelihoods, t, k, NOTHING<T>);
        const Vec<T> joint = before > T(0) ? before * exp<T>(seen - shift) : Vec<T>{};
        known.put(k, joint);
        return joint;
      });
      evidence = shift + std::log(sum);
      factor = T(1) / sum;
    }
    over(belief, [&](int64_t k) {
      const Vec<T> now = known[k] * factor;
      if (in.filtered) own.put_ahead(in.filtered, t, k, now);
      belief.put(k, stay * now + total * fresh[k]);
    });
  }
  std::copy(belief.begin(), belief.begin() + states, in.final + i * states);
  for (int64_t t = own.length; t < own.time; ++t) {
    in.evidence[i * own.time + t] = T(0);
    over(belief, [&](int64_t k) {
      if (in.predicted) own.put_ahead(in.predicted, t, k, belief[k]);
      if (in.filtered) own.put_ahead(in.filtered, t, k, belief[k]);
    });
  }
}

// a / b, zero where b is next to nothing: a state that cannot be has no say.
template <class T>
HS_INLINE Vec<T> ratio(Vec<T> a, Vec<T> b) {
  const Ints<T> possible = b > std::numeric_limits<T>::min();
  return possible ? a / (possible ? b : all<T>(T(1))) : Vec<T>{};
}

template <class T>
void slopes(const Copying<T>& chain, const CopySlopes<T>& in, int64_t i) {
  const Sequence<T> own(chain, i);
  const int64_t states = chain.states;
  const T stay = *chain.stay;
  const States<T> fresh(states, chain.fresh), first(states, in.first + i * states);
  States<T> adjoint(states, in.d_final + i * states), sums(states);
  double d_stay = 0;  // one sum over all steps and states
  for (int64_t t = own.length - 1; t >= 0; --t) {
    Vec<T> totals = {}, drawns = {}, kepts = {}, befores = {};
    over(fresh, [&](int64_t k) {
      const Vec<T> known = own.get(in.filtered, t, k), a = adjoint[k];
      totals += known, drawns += fresh[k] * a, kepts += known * a;
      if (t > 0) befores += own.get(in.filtered, t - 1, k);
    });
    const T total = sum_of_lanes<T>(totals), drawn = sum_of_lanes<T>(drawns), kept = sum_of_lanes<T>(kepts);
    const T before_total = sum_of_lanes<T>(befores);
    d_stay += kept;
    const bool possible = in.evidence[i * own.time + t] > NOTHING<T>;
    const T mean = stay * kept + drawn * total, slope = possible ? in.d_evidence[i * own.time + t] : T(0);
    over(fresh, [&](int64_t k) {
      const Vec<T> a = adjoint[k], value = stay * a + drawn, known = own.get(in.filtered, t, k);
      sums.put(k, sums[k] + total * a);
      const Vec<T> joint = known * ((value - mean) + slope);
      // The belief before the step, which the filtered one before tells.
      const Vec<T> before = t > 0 ? stay * own.get(in.filtered, t - 1, k) + before_total * fresh[k] : first[k];
      own.put(in.d_likelihoods, t, k, possible ? joint : Vec<T>{});
      adjoint.put(k, possible ? ratio<T>(joint, before) : value);
    });
  }
  std::copy(adjoint.begin(), adjoint.begin() + states, in.d_first + i * states);
  std::copy(sums.begin(), sums.begin() + states, in.d_fresh + i * states);
  in.d_stay[i] = T(d_stay);
  T* const rows = in.d_likelihoods + own.first;
  std::fill(rows + own.length * states, rows + own.time * states, T(0));
}

template <class T>
void smooth(const Copying<T>& chain, const CopySmooth<T>& in, int64_t i) {
  const Sequence<T> own(chain, i);
  if (own.time == 0) return;
  const int64_t states = chain.states, last = std::max<int64_t>(own.length - 1, 0);
  const T stay = *chain.stay;
  const States<T> fresh(states, chain.fresh);
  States<T> later(states, in.filtered + own.first + last * states), onward(states);
  std::copy(in.filtered + own.first + last * states, in.filtered + own.first + own.time * states,
            in.smoothed + own.first + last * states);
  for (int64_t t = last - 1; t >= 0; --t) {
    const T total = sum_over(fresh, [&](int64_t k) { return own.get(in.filtered, t, k); });
    const T drawn = sum_over(fresh, [&](int64_t k) {
      const Vec<T> r = ratio<T>(later[k], stay * own.get(in.filtered, t, k) + total * fresh[k]);
      onward.put(k, r);
      return fresh[k] * r;
    });
    const T sum = sum_over(fresh, [&](int64_t k) {
      const Vec<T> joint = own.get(in.filtered, t, k) * (stay * onward[k] + drawn);
      later.put(k, joint);
      return joint;
    });
    const T factor = T(1) / sum;  // one, up to rounding, which would build up
    over(fresh, [&](int64_t k) {
      later.put(k, later[k] * factor);
      own.put(in.smoothed, t, k, later[k]);
    });
  }
}

// A byte for each lane: whether a condition holds.
template <class T>
HS_INLINE void put_flags(int8_t* to, Ints<T> condition) {
  typedef int8_t Flags __attribute__((vector_size(Lanes<T>::count)));
  const Flags flags = __builtin_convertvector(condition, Flags);
  std::memcpy(to, &flags, sizeof flags);
}

// A state is reached from itself, or from the best of all states: so of every step the best is kept, and for each state
// which of the two it was.
template <class T>
void best(const Copying<T>& chain, const CopyBest<T>& in, int64_t i) {
  const Sequence<T> own(chain, i);
  const int64_t states = chain.states, last = own.length - 1;
  const States<T> again(states, chain.stay), fresh(states, chain.fresh), first(states, in.first + i * states);
  const T* const seen = in.likelihoods + own.first;
  int32_t* const path = in.path + i * own.time;
  T* const steps = in.steps + i * own.time;
  States<T> scores(states);
  hs::Scratch<int32_t> leaders(own.length);
  hs::Scratch<int8_t> drawn(own.length * scores.size);
  for (int64_t t = 0; t < own.length; ++t) {
    const T top = t > 0 ? scores.begin()[leaders[t - 1]] : T(0), shift = top > NOTHING<T> ? top : T(0);
    over(scores, [&](int64_t k) {
      Vec<T> reached = first[k];
      if (t > 0) {
        const Vec<T> kept = (scores[k] - shift) + again[k], anew = (top - shift) + fresh[k];
        put_flags<T>(drawn + t * scores.size + k, anew >= kept);
        reached = maximum<T>(kept, anew);
      }
      scores.put(k, reached + own.get(in.likelihoods, t, k, NOTHING<T>));
    });
    leaders[t] = int32_t(first_largest<T, Lanes<T>::count>(states, [&](int64_t k) { return scores[k]; }));
  }
  int32_t state = own.length > 0 ? leaders[last] : 0;
  for (int64_t t = own.time - 1; t > last; --t) path[t] = state, steps[t] = T(0);
  for (int64_t t = last; t > 0; --t) {
    const int32_t before = drawn[t * scores.size + state] ? leaders[t - 1] : state;
    path[t] = state;
    steps[t] = (before == state ? chain.stay : chain.fresh)[state] + seen[t * states + state];
    state = before;
  }
  if (own.length > 0) path[0] = state, steps[0] = in.first[i * states + state] + seen[state];
}

template <class T>
void draw(const Copying<T>& chain, const CopyDraw<T>& in, int64_t i) {
  constexpr int W = Lanes<T>::count;
  const Sequence<T> own(chain, i);
  if (own.time == 0) return;
  const int64_t last = std::max<int64_t>(own.length - 1, 0);
  const T stay = *chain.stay;
  int32_t* const path = in.path + i * own.time;
  int64_t state = first_largest<T, W>(chain.states, [&](int64_t k) {
    return logarithm<T>(own.get(in.filtered, last, k)) + own.get(in.noise, own.time - 1, k);
  });
  for (int64_t t = last; t < own.time; ++t) path[t] = int32_t(state);
  for (int64_t t = last - 1; t >= 0; --t) {
    const Vec<T> anew = all<T>(chain.fresh[state]), again = anew + stay;
    state = first_largest<T, W>(chain.states, [&](int64_t k) {
      const Ints<T> same = places<T, W>() == Integer<T>(state - k) - Ints<T>{};
      return logarithm<T>(own.get(in.filtered, t, k) * (same ? again : anew)) + own.get(in.noise, t, k);
    });
    path[t] = int32_t(state);
  }
}

}  // namespace

extern const CopyTable copying_table;
const CopyTable copying_table = {{forward<float>, slopes<float>, smooth<float>, best<float>, draw<float>},
                                 {forward<double>, slopes<double>, smooth<double>, best<double>, draw<double>}};

}  // namespace HS_ISA
}  // namespace hs
