// One step of a model for a few independent streams at once.
//
// All sizes are rounded up to whole vectors of every instruction set (PADDING), gate by gate, so that no loop has a rest:
// weights are zero there, and what the padding of a state holds reaches nothing else. Matrices are held by columns, that
// is with the axes (from, to), so that a product adds up rows. A row of results depends on its own stream only, whatever
// streams are computed beside it.
#pragma once
#include <cstdint>

namespace hs {

constexpr int64_t PADDING = 16;  // numbers
constexpr int64_t ROWS = 4;      // streams that share one reading of the weights

// What a cell reads of an observation: a row of a table, (x - shift) / spread, or (log(1 + x) - shift) / spread.
enum class Reading { symbol, number, count };
enum class Nonlinearity { identity, tanh, sigmoid, relu };
enum class Update { vanilla, leaky, gru, gru_before, lstm, minimal_gru, minimal_lstm, linear, turning, gated, skip };

template <class T>
struct Layer {
  Update update;
  Nonlinearity nonlinearity;
  bool logarithms;                // of minimal cells: candidates are positive
  int64_t reads, units, gates;    // numbers read; padded: units, and all gates of the element together
  int64_t states, outputs, shown; // padded numbers of the state, and of those that are shown, from `shown` on
  const T *input_weight, *bias;   // (reads, gates), (gates)
  const T* recurrent_weight;      // (units, gates), where the update has one
  const T* own;  // leaky: alpha; gru: recurrent biases; lstm: peepholes or null; linear: log a; turning: a, real, imaginary;
                 // skip: how far back it looks
  int64_t lags;  // skip: how often it looks back
};

enum class Family { categorical, bernoulli, normal, poisson };

template <class T>
struct Head {
  Family family;
  int64_t entries, parameters;  // numbers of an observation; padded parameters
  const T *weight, *bias;       // (outputs + inputs, parameters), (parameters)
  const T *location, *scale;    // normal: the units; poisson: the logarithm of the base rate
};

template <class T>
struct Network {
  Reading reading;
  int64_t entries, inputs;
  const T* table;  // (symbol, gates): the first layer's bias and what it reads of each symbol
  const T *shift, *spread;
  const Layer<T>* layers;
  int64_t depth, states, scratch;  // layers; numbers of the whole state; numbers of scratch space for each stream
  Head<T> head;
};

// How probable an observation is under each state: rows of a table (entry, level), normal or Poisson distributions.
enum class Emission { table, normal, poisson };

template <class T>
struct Chain {
  Emission emission;
  int64_t entries, levels, states;  // states padded
  const T *transition, *fresh;      // (state, next state); or null, where a state is kept but for
  T stay;                           // draws afresh: the probability that it is kept, and of draws of each state
  const T *first, *second, *third, *fourth;
  // table:   log-probabilities (entry, level, state)
  // normal:  centres, offsets, inverse deviations, log-densities at the mean, all (entry, state); then
  const T* scale;  // (entry)
  // poisson: log-rates and rates (entry, state)
};

// A linear Gaussian model, in double precision whatever the precision of its streams: a step costs little beside the call,
// and a covariance in single precision then suffers the rounding of its own numbers only. A belief is its mean, then
// the rows of its covariance.
struct StreamedKalman {
  int64_t state, event, inputs;  // numbers of the state, of an observation, of the inputs
  int64_t states, events;        // the first two, padded
  const double *transition, *shift, *transition_input, *noise;  // (from, to), (to), (input, to), a covariance
  const double *emission, *emission_columns;                    // (event, state) and (state, event)
  const double *offset, *emission_input;                        // (event), (input, event)
  const double *emission_noise, *emission_root;                 // a covariance; the transpose of a root of it

  int64_t scratch() const { return events + states + event * (2 * states + events) + (state + event) * (2 * states + state); }
};

template <class T>
using NetworkPush = void (*)(const Network<T>&, int64_t rows, T* states, const double* values, const T* inputs,
                             T* scratch, double* log_probs);
template <class T>
using ChainPush = void (*)(const Chain<T>&, int64_t rows, T* states, const double* values, T* scratch,
                           double* log_probs);

using KalmanPush = double (*)(const StreamedKalman&, double* belief, const double* x, const double* u, double* scratch);

struct StreamingTable {
  NetworkPush<float> network32;
  NetworkPush<double> network64;
  ChainPush<float> chain32;
  ChainPush<double> chain64;
  KalmanPush kalman;
  NetworkPush<float> network(float) const { return network32; }
  NetworkPush<double> network(double) const { return network64; }
  ChainPush<float> chain(float) const { return chain32; }
  ChainPush<double> chain(double) const { return chain64; }
};

}  // namespace hs
