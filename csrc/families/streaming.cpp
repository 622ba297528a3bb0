// Steps of networks, chains and linear Gaussian models for streams, vectorised over units, parameters and states.
#include "kernels/streaming.h"

#include <algorithm>

#include "kernels/decay.h"
#include "kernels/logarithm.h"
#include "kernels/streaming_kalman.h"

namespace hs {
namespace HS_ISA {
namespace {

// -- cells -------------------------------------------------------------------------------------------------------------

template <class T>
HS_INLINE Vec<T> apply(Nonlinearity kind, Vec<T> a) {
  if (kind == Nonlinearity::tanh) return tanh<T>(a);
  if (kind == Nonlinearity::sigmoid) return sigmoid<T>(a);
  return kind == Nonlinearity::relu ? maximum<T>(a, Vec<T>{}) : a;
}

// (1 - z) h + z c with z = sigmoid(k), 1 - z by its logarithm. In log space the candidate is g(c): c + 1/2 from 0 on,
// sigmoid(c) below.
template <class T>
HS_INLINE Vec<T> mixed(bool logarithms, Vec<T> h, Vec<T> k, Vec<T> c) {
  if (!logarithms) return decayed<T>(h, log_sigmoid<T>(-k), sigmoid<T>(k) * c);
  const Vec<T> above = maximum<T>(c, Vec<T>{}) + T(0.5);
  const Vec<T> log_candidate = c >= T(0) ? logarithm<T>(above) : log_sigmoid<T>(c);
  return decayed<T>(h, log_sigmoid<T>(-k), exp<T>(log_sigmoid<T>(k) + log_candidate));
}

template <class T>
void update_lstm(const Layer<T>& cell, const T* gates, T* state) {
  const int64_t n = cell.units;
  T *c = state, *h = state + n;
  const T* peephole = cell.own;
  for (int64_t j = 0; j < n; j += Lanes<T>::count) {
    const auto gate = [&](int64_t number) { return load<T>(gates + number * n + j); };
    const auto seen = [&](int64_t number, Vec<T> held) {
      return peephole == nullptr ? Vec<T>{} : load<T>(peephole + number * n + j) * held;
    };
    const Vec<T> before = load<T>(c + j);
    const Vec<T> i = sigmoid<T>(gate(0) + seen(0, before)), f = sigmoid<T>(gate(1) + seen(1, before));
    const Vec<T> after = f * before + i * apply<T>(cell.nonlinearity, gate(2));
    store<T>(c + j, after);
    store<T>(h + j, sigmoid<T>(gate(3) + seen(2, after)) * tanh<T>(after));
  }
}

// The parts of a gated recurrent unit: what comes from the input (three gates), and r and z from the state.
template <class T>
HS_INLINE Vec<T> gru_gate(const T* element, const T* recurrent, int64_t at) {
  return sigmoid<T>(load<T>(element + at) + load<T>(recurrent + at));
}

template <class T>
void update_gru(int64_t n, const T* element, const T* recurrent, T* h) {
  each<T>(n, h, [&](int64_t j) {
    const Vec<T> r = gru_gate<T>(element, recurrent, j), z = gru_gate<T>(element, recurrent, n + j);
    const Vec<T> c = tanh<T>(load<T>(element + 2 * n + j) + r * load<T>(recurrent + 2 * n + j));
    return (T(1) - z) * c + z * load<T>(h + j);
  });
}

template <class T>
void update_gru_before(const Layer<T>& cell, int64_t rows, Rows<T> elements, Rows<T> recurrents, Rows<T> states) {
  const int64_t n = cell.units;
  for (int64_t r = 0; r < rows; ++r) std::fill_n(recurrents[r], 2 * n, T(0));
  const Rows<const T> before{states.data, states.apart};
  add_product<T>(rows, before, n, cell.recurrent_weight, cell.gates, 2 * n, recurrents);
  for (int64_t r = 0; r < rows; ++r)  // what is let through of the state stands where the candidate's part will not
    each<T>(n, recurrents[r] + 2 * n,
            [&](int64_t j) { return gru_gate<T>(elements[r], recurrents[r], j) * load<T>(states[r] + j); });
  add_product<T>(rows, {recurrents.data + 2 * n, recurrents.apart}, n, cell.recurrent_weight + 2 * n, cell.gates, n,
                 {elements.data + 2 * n, elements.apart});
  for (int64_t r = 0; r < rows; ++r)
    each<T>(n, states[r], [&](int64_t j) {
      const Vec<T> z = gru_gate<T>(elements[r], recurrents[r], n + j);
      return (T(1) - z) * tanh<T>(load<T>(elements[r] + 2 * n + j)) + z * load<T>(states[r] + j);
    });
}

// The update of one stream from all its gates, which hold W h too where the cell has recurrent weights.
template <class T>
void update(const Layer<T>& cell, const T* gates, T* state) {
  const int64_t n = cell.units;
  const T* own = cell.own;
  const auto gate = [&](int64_t number, int64_t j) { return load<T>(gates + number * n + j); };
  const auto held = [&](int64_t j) { return load<T>(state + j); };
  switch (cell.update) {
    case Update::vanilla:
      return each<T>(n, state, [&](int64_t j) { return apply<T>(cell.nonlinearity, gate(0, j)); });
    case Update::leaky:
      return each<T>(n, state, [&](int64_t j) {
        const Vec<T> alpha = load<T>(own + j);
        return (T(1) - alpha) * held(j) + alpha * apply<T>(cell.nonlinearity, gate(0, j));
      });
    case Update::lstm:
      return update_lstm<T>(cell, gates, state);
    case Update::minimal_gru:
      return each<T>(n, state, [&](int64_t j) { return mixed<T>(cell.logarithms, held(j), gate(0, j), gate(1, j)); });
    case Update::minimal_lstm:
      return each<T>(n, state, [&](int64_t j) {
        const Vec<T> k = log_sigmoid<T>(gate(1, j)) - log_sigmoid<T>(gate(0, j));
        return mixed<T>(cell.logarithms, held(j), k, gate(2, j));
      });
    case Update::linear:
      return each<T>(n, state, [&](int64_t j) { return decayed<T>(held(j), load<T>(own + j), gate(0, j)); });
    case Update::gated:
      return each<T>(n, state, [&](int64_t j) { return decayed<T>(held(j), log_sigmoid<T>(gate(0, j)), gate(1, j)); });
    case Update::turning:
      for (int64_t j = 0; j < n; j += Lanes<T>::count) {
        const Vec<T> re = held(j), im = held(n + j), a_re = load<T>(own + j), a_im = load<T>(own + n + j);
        store<T>(state + j, a_re * re - a_im * im + gate(0, j));
        store<T>(state + n + j, a_re * im + a_im * re + gate(1, j));
      }
      return;
    case Update::gru:
    case Update::gru_before:
    case Update::skip:
      return;  // they need the element and W h apart, or more of the past
  }
}

// A cell that looks back some steps: its state holds the last vectors, the newest first.
template <class T>
void update_skip(const Layer<T>& cell, int64_t rows, Rows<T> elements, Rows<T> states) {
  const int64_t n = cell.units;
  for (int64_t i = 0; i < cell.lags; ++i)
    add_product<T>(rows, {states.data + (int64_t(cell.own[i]) - 1) * n, states.apart}, n,
                   cell.recurrent_weight + i * n * n, n, n, elements);
  for (int64_t r = 0; r < rows; ++r) {
    std::memmove(states[r] + n, states[r], size_t(cell.states - n) * sizeof(T));
    each<T>(n, states[r], [&](int64_t j) { return apply<T>(cell.nonlinearity, load<T>(elements[r] + j)); });
  }
}

template <class T>
void step(const Layer<T>& cell, int64_t rows, Rows<T> elements, Rows<T> room, Rows<T> states) {
  const Rows<const T> before{states.data + cell.shown, states.apart};
  if (cell.update == Update::skip) return update_skip<T>(cell, rows, elements, states);
  if (cell.update == Update::gru_before) return update_gru_before<T>(cell, rows, elements, room, states);
  if (cell.update == Update::gru) {
    for (int64_t r = 0; r < rows; ++r) copy(room[r], cell.own, cell.gates);
    add_product<T>(rows, before, cell.units, cell.recurrent_weight, cell.gates, cell.gates, room);
    for (int64_t r = 0; r < rows; ++r) update_gru<T>(cell.units, elements[r], room[r], states[r]);
    return;
  }
  if (cell.recurrent_weight != nullptr)
    add_product<T>(rows, before, cell.units, cell.recurrent_weight, cell.gates, cell.gates, elements);
  for (int64_t r = 0; r < rows; ++r) update<T>(cell, elements[r], states[r]);
}

// -- heads -------------------------------------------------------------------------------------------------------------

// The logarithm of the sum of exponentials.
template <class T>
T log_sum_exp(const T* logits, int64_t count) {
  Vec<T> tops = load<T>(logits);
  for (int64_t i = Lanes<T>::count; i < count; i += Lanes<T>::count) tops = maximum<T>(tops, load<T>(logits + i));
  T top = max_lanes<T>(tops);
  if (!std::isfinite(top)) top = T(0);
  Vec<T> sums{};
  for (int64_t i = 0; i < count; i += Lanes<T>::count) sums += exp<T>(load<T>(logits + i) - top);
  return top + std::log(sum_lanes<T>(sums));
}

// log k! - k log k + k for whole k > 0: directly where nothing is large, by Stirling's series above.
double log_stirling_factor(double k) {
  if (k < 16) return std::lgamma(k) - (k - 1) * std::log(k) + k;
  const double inverse = 1 / k, square = inverse * inverse;
  const double series = inverse * (1. / 12 - square * (1. / 360 - square * (1. / 1260 - square / 1680)));
  return series + 0.5 * (LOG_2_PI + std::log(k));
}

template <class T>
T poisson_log_prob(T log_rate, double count) {
  if (count == 0) return -std::exp(log_rate);
  const T d = log_rate - T(std::log(count));
  return T(count) * (d - std::expm1(d)) - T(log_stirling_factor(count));
}

template <class T>
T score(const Head<T>& head, T* parameters, const double* values) {
  constexpr double shift = 0.54132485461291811;  // log(e - 1): softplus of it is one
  if (head.family == Family::categorical)
    return parameters[int64_t(values[0])] - log_sum_exp<T>(parameters, head.parameters);
  const int64_t half = head.parameters / 2;
  if (head.family == Family::bernoulli)
    each<T>(head.parameters, parameters, [&](int64_t i) {
      Vec<T> sign = all<T>(T(-1));
      for (int lane = 0; lane < Lanes<T>::count && i + lane < head.entries; ++lane)
        if (values[i + lane] > 0) sign[lane] = T(1);
      return log_sigmoid<T>(sign * load<T>(parameters + i));
    });
  if (head.family == Family::normal) {
    each<T>(half, parameters + half, [&](int64_t i) {
      return load<T>(head.scale + i) * softplus<T>(load<T>(parameters + half + i) + T(shift));
    });
    for (int64_t i = 0; i < head.entries; ++i) {
      const T deviation = parameters[half + i];
      const T apart = (T(values[i]) - (head.location[i] + head.scale[i] * parameters[i])) / deviation;
      parameters[i] = T(-0.5) * apart * apart - std::log(deviation) - T(0.5 * LOG_2_PI);
    }
  }
  if (head.family == Family::poisson)
    for (int64_t i = 0; i < head.entries; ++i)
      parameters[i] = poisson_log_prob<T>(head.location[i] + parameters[i], values[i]);
  T total = 0;
  for (int64_t i = 0; i < head.entries; ++i) total += parameters[i];
  return total;
}

// -- a network ---------------------------------------------------------------------------------------------------------

// What the first layer reads besides a row of its table: the encoded observation, and the inputs.
template <class T>
void read(const Network<T>& model, const double* values, const T* inputs, T* result) {
  if (model.reading != Reading::symbol)
    for (int64_t i = 0; i < model.entries; ++i) {
      const T x = T(values[i]);
      *result++ = ((model.reading == Reading::count ? std::log1p(x) : x) - model.shift[i]) / model.spread[i];
    }
  copy(result, inputs, model.inputs);
}

template <class T>
void push_network(const Network<T>& model, int64_t rows, T* states, const double* values, const T* inputs, T* scratch,
                  double* log_probs) {
  const int64_t entries = model.entries, read_size = model.layers[0].reads;
  const int64_t wide = (model.scratch - read_size) / 2;
  const Rows<T> first{scratch, model.scratch}, second{scratch + wide, model.scratch};
  const Rows<T> seen{scratch + 2 * wide, model.scratch};
  const Layer<T>& last = model.layers[model.depth - 1];
  const int64_t top = model.states - last.states;
  const Rows<const T> shown{states + top + last.shown, model.states}, given{inputs, model.inputs};
  const Head<T>& head = model.head;

  for (int64_t r = 0; r < rows; ++r) copy(first[r], head.bias, head.parameters);
  add_product<T>(rows, shown, last.outputs, head.weight, head.parameters, head.parameters, first);
  add_product<T>(rows, given, model.inputs, head.weight + last.outputs * head.parameters, head.parameters,
                 head.parameters, first);
  for (int64_t r = 0; r < rows; ++r) log_probs[r] = double(score<T>(head, first[r], values + r * entries));

  Rows<const T> below{seen.data, seen.apart};
  T* state = states;
  for (int64_t number = 0; number < model.depth; ++number) {
    const Layer<T>& cell = model.layers[number];
    for (int64_t r = 0; r < rows; ++r) {
      const T* begin = cell.bias;
      if (number == 0) {
        read<T>(model, values + r * entries, given[r], seen[r]);
        if (model.reading == Reading::symbol) begin = model.table + int64_t(values[r * entries]) * cell.gates;
      }
      copy(first[r], begin, cell.gates);
    }
    add_product<T>(rows, below, cell.reads, cell.input_weight, cell.gates, cell.gates, first);
    step<T>(cell, rows, first, second, {state, model.states});
    below = {state + cell.shown, model.states};
    state += cell.states;
  }
}

// -- a chain -----------------------------------------------------------------------------------------------------------

// Adds the log-likelihoods of one entry of an observation under all states.
template <class T>
void add_likelihoods(const Chain<T>& model, int64_t entry, double value, T* result) {
  const int64_t n = model.states, at = entry * n;
  const auto added = [&](auto term) {
    each<T>(n, result, [&](int64_t k) { return load<T>(result + k) + term(k); });
  };
  if (model.emission == Emission::table) {
    const T* row = model.first + (entry * model.levels + int64_t(value)) * n;
    return added([&](int64_t k) { return load<T>(row + k); });
  }
  if (model.emission == Emission::normal)
    return added([&](int64_t k) {
      const Vec<T> apart = (T(value) - load<T>(model.first + at + k)) / model.scale[entry];
      const Vec<T> white = (apart - load<T>(model.second + at + k)) * load<T>(model.third + at + k);
      return load<T>(model.fourth + at + k) - T(0.5) * white * white;
    });
  if (value == 0) return added([&](int64_t k) { return -load<T>(model.second + at + k); });
  const T logarithm = T(std::log(value)), factor = T(log_stirling_factor(value));
  added([&](int64_t k) {
    const Vec<T> d = load<T>(model.first + at + k) - logarithm;
    return T(value) * (d - expm1<T>(d)) - factor;
  });
}

// Bayes' rule: the belief given log-likelihoods (which it replaces), and the log-probability of the observation. Where no
// state could have given it that is minus infinity, and the belief stays as it was.
template <class T>
T condition(int64_t n, const T* belief, T* likelihoods) {
  Vec<T> tops = all<T>(T(-INFINITY)), sums{};
  each<T>(n, likelihoods, [&](int64_t k) {
    const Vec<T> joint = logarithm<T>(load<T>(belief + k)) + load<T>(likelihoods + k);
    tops = maximum<T>(tops, joint);
    return joint;
  });
  const T top = max_lanes<T>(tops);
  if (!(top > T(-INFINITY))) {
    copy(likelihoods, belief, n);
    return T(-INFINITY);
  }
  each<T>(n, likelihoods, [&](int64_t k) {
    const Vec<T> weight = exp<T>(load<T>(likelihoods + k) - top);
    sums += weight;
    return weight;
  });
  const T total = sum_lanes<T>(sums);
  each<T>(n, likelihoods, [&](int64_t k) { return load<T>(likelihoods + k) / total; });
  return top + std::log(total);
}

// The part of the next belief that needs no matrix: all of it where states are kept or drawn afresh, else nothing.
template <class T>
void move_apart(const Chain<T>& model, const T* belief, T* next) {
  if (model.transition != nullptr) return (void)std::fill_n(next, model.states, T(0));
  each<T>(model.states, next,
          [&](int64_t k) { return load<T>(model.fresh + k) + model.stay * load<T>(belief + k); });
}

template <class T>
void push_chain(const Chain<T>& model, int64_t rows, T* states, const double* values, T* scratch, double* log_probs) {
  const int64_t n = model.states;
  for (int64_t r = 0; r < rows; ++r) {
    T* filtered = scratch + r * n;
    std::fill_n(filtered, n, T(0));
    for (int64_t i = 0; i < model.entries; ++i) {
      const double value = values[r * model.entries + i];
      if (value == value) add_likelihoods<T>(model, i, value, filtered);  // what is missing is summed out
    }
    log_probs[r] = double(condition<T>(n, states + r * n, filtered));
    move_apart<T>(model, filtered, states + r * n);
  }
  if (model.transition == nullptr) return;
  add_product<T>(rows, {scratch, n}, n, model.transition, n, n, {states, n});
}

}  // namespace

extern const StreamingTable streaming_table;
const StreamingTable streaming_table = {push_network<float>, push_network<double>, push_chain<float>,
                                        push_chain<double>, push_kalman};

}  // namespace HS_ISA
}  // namespace hs
