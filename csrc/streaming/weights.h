// Models as Python gives them, dictionaries of numbers and arrays, held as the structs that kernels take.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <list>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/streaming.h"

namespace hs {

namespace nb = nanobind;

// Arrays that are kept for as long as the structs that point into them.
template <class T>
class Arrays {
 public:
  // The array of that name, which must have so many numbers; null where the name stands for None.
  const T* of(const nb::dict& from, const char* name, int64_t due) {
    const nb::object found = from[name];
    if (found.is_none()) return nullptr;
    const auto array = nb::cast<nb::ndarray<const T, nb::c_contig, nb::device::cpu>>(found);
    if (int64_t(array.size()) != due)
      throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.size()) + " numbers, not " +
                                  std::to_string(due) + ".");
    kept_.emplace_back(array.data(), array.data() + array.size());
    return kept_.back().data();
  }

 private:
  std::list<std::vector<T>> kept_;
};

inline int64_t whole(const nb::dict& from, const char* name) { return nb::cast<int64_t>(from[name]); }

inline void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(what);
}

inline int64_t padded(int64_t size) { return (size + PADDING - 1) / PADDING * PADDING; }

// What each update takes, in the order of their names: gates, vectors of its own, and whether of the state (-1: it may).
struct Takes {
  int64_t gates, own;
  int recurrent;
};
constexpr Takes TAKES[] = {{1, 0, 1}, {1, 1, 1}, {3, 3, 1}, {3, 0, 1}, {4, 3, 1}, {2, 0, 0},
                           {3, 0, 0}, {1, 1, 0}, {2, 2, 0}, {2, 0, -1}, {1, 0, 1}};

// How many vectors of the past a cell holds that looks `own` steps back.
template <class T>
int64_t longest_of(const Layer<T>& cell) {
  require(cell.lags > 0 && cell.own != nullptr, "a cell that looks back says how far.");
  T longest = 0;
  for (int64_t i = 0; i < cell.lags; ++i) {
    require(cell.own[i] >= 1, "a cell looks back by a step or more.");
    longest = std::max(longest, cell.own[i]);
  }
  return int64_t(longest);
}

template <class T>
Layer<T> layer_of(const nb::dict& given, Arrays<T>& arrays) {
  Layer<T> made{};
  made.update = Update(whole(given, "update"));
  require(made.update <= Update::skip, "there is no such update.");
  made.nonlinearity = Nonlinearity(whole(given, "nonlinearity"));
  made.logarithms = whole(given, "logarithms") != 0;
  made.reads = whole(given, "reads"), made.units = whole(given, "units"), made.lags = whole(given, "lags");
  const int64_t n = made.units;
  const bool skips = made.update == Update::skip;
  const Takes takes = TAKES[int(made.update)];
  made.gates = whole(given, "gates") * n;
  require(n > 0 && n % PADDING == 0, "units must be padded.");
  made.input_weight = arrays.of(given, "input_weight", made.reads * made.gates);
  made.bias = arrays.of(given, "bias", made.gates);
  made.recurrent_weight = arrays.of(given, "recurrent_weight", (skips ? made.lags : 1) * n * made.gates);
  made.own = arrays.of(given, "own", skips ? padded(made.lags) : takes.own * n);
  made.states = n * (skips ? longest_of(made) : made.update == Update::lstm || made.update == Update::turning ? 2 : 1);
  made.outputs = made.update == Update::turning ? 2 * n : n;
  made.shown = made.update == Update::lstm ? n : 0;
  require(made.gates == takes.gates * n, "the update has another number of gates.");
  require(takes.recurrent < 0 || (made.recurrent_weight != nullptr) == (takes.recurrent > 0),
          "recurrent weights do not fit the update.");
  require(made.own != nullptr || takes.own == 0 || made.update == Update::lstm, "the update needs more.");
  return made;
}

template <class T>
struct HeldNetwork {
  explicit HeldNetwork(const nb::dict& given) {
    const nb::list described = nb::cast<nb::list>(given["layers"]);
    for (const nb::handle one : described) layers.push_back(layer_of<T>(nb::cast<nb::dict>(one), arrays));
    require(!layers.empty(), "a network has layers.");
    model.layers = layers.data(), model.depth = int64_t(layers.size());
    model.reading = Reading(whole(given, "reading"));
    model.entries = whole(given, "entries"), model.inputs = whole(given, "inputs");
    const bool symbols = model.reading == Reading::symbol;
    const int64_t dense = symbols ? 0 : model.entries, levels = symbols ? whole(given, "levels") : 0;
    require(layers[0].reads == dense + model.inputs, "the first layer reads another number of numbers.");
    model.table = arrays.of(given, "table", levels * layers[0].gates);
    model.shift = arrays.of(given, "shift", dense), model.spread = arrays.of(given, "spread", dense);
    require(symbols ? model.table != nullptr && model.entries == 1 : model.shift && model.spread, "no way to read.");
    int64_t wide = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      require(i == 0 || layers[i].reads == layers[i - 1].outputs, "a layer reads another number of numbers.");
      model.states += layers[i].states, wide = std::max(wide, layers[i].gates);
    }
    Head<T>& head = model.head;
    head.family = Family(whole(given, "family"));
    head.entries = model.entries, head.parameters = whole(given, "parameters");
    const int64_t least = head.family == Family::normal ? 2 * head.entries : symbols ? levels : head.entries;
    require(head.parameters % PADDING == 0 && head.parameters >= least, "parameters must be padded.");
    require((head.family == Family::categorical) == symbols, "the head predicts another kind than is read.");
    head.weight = arrays.of(given, "weight", (layers.back().outputs + model.inputs) * head.parameters);
    head.bias = arrays.of(given, "head_bias", head.parameters);
    const int64_t units = head.parameters / (head.family == Family::normal ? 2 : 1);
    head.location = arrays.of(given, "location", units), head.scale = arrays.of(given, "scale", units);
    model.scratch = 2 * std::max(wide, head.parameters) + layers[0].reads;
  }
  HeldNetwork(const HeldNetwork&) = delete;

  Arrays<T> arrays;
  std::vector<Layer<T>> layers;
  Network<T> model{};
};

template <class T>
struct HeldChain {
  explicit HeldChain(const nb::dict& given) {
    model.emission = Emission(whole(given, "emission"));
    model.entries = whole(given, "entries"), model.levels = whole(given, "levels"), model.states = whole(given, "states");
    const int64_t n = model.states;
    require(n > 0 && n % PADDING == 0, "states must be padded.");
    model.transition = arrays.of(given, "transition", n * n), model.fresh = arrays.of(given, "fresh", n);
    model.stay = T(nb::cast<double>(given["stay"]));
    require((model.transition == nullptr) != (model.fresh == nullptr), "there is one way to move.");
    const int64_t table = model.entries * n * (model.emission == Emission::table ? model.levels : 1);
    model.first = arrays.of(given, "first", table), model.second = arrays.of(given, "second", table);
    model.third = arrays.of(given, "third", table), model.fourth = arrays.of(given, "fourth", table);
    model.scale = arrays.of(given, "scale", model.entries);
    const bool normal = model.emission == Emission::normal;
    require(model.first && (model.second || model.emission == Emission::table), "an emission lacks parameters.");
    require(!normal || (model.third && model.fourth && model.scale), "an emission lacks parameters.");
  }
  HeldChain(const HeldChain&) = delete;

  Arrays<T> arrays;
  Chain<T> model{};
};

struct HeldKalman {
  explicit HeldKalman(const nb::dict& given) {
    model.state = whole(given, "state"), model.event = whole(given, "entries"), model.inputs = whole(given, "inputs");
    const int64_t n = model.state, m = model.event, k = model.inputs;
    require(n > 0 && m > 0 && k >= 0, "a state and an observation have numbers.");
    const int64_t wide = model.states = padded(n), tall = model.events = padded(m);
    model.transition = held(given, "transition", n * wide), model.shift = held(given, "shift", wide);
    model.transition_input = held(given, "transition_input", k * wide), model.noise = held(given, "noise", n * wide);
    model.emission = held(given, "emission", m * wide);
    model.emission_columns = held(given, "emission_columns", n * tall);
    model.offset = held(given, "offset", tall), model.emission_input = held(given, "emission_input", k * tall);
    model.emission_noise = held(given, "emission_noise", m * tall);
    model.emission_root = held(given, "emission_root", m * tall);
  }
  HeldKalman(const HeldKalman&) = delete;

  const double* held(const nb::dict& given, const char* name, int64_t due) {
    const double* found = arrays.of(given, name, due);
    require(found != nullptr || due == 0, "a linear Gaussian model lacks parameters.");
    return found;
  }

  Arrays<double> arrays;
  StreamedKalman model{};
};

}  // namespace hs
