// Streams as Python sees them: an object that holds a model and the states of its streams, and takes observations.
#include "streaming/streaming.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "isa.h"
#include "streaming/observation.h"
#include "streaming/weights.h"

namespace hs {

HS_DECLARE_TABLES(StreamingTable, streaming)

namespace {

Form form_of(const nb::dict& given, double largest) {
  return {Kind(whole(given, "kind")),         whole(given, "streams"),      whole(given, "entries"),
          whole(given, "vector") != 0,        whole(given, "partial") != 0, whole(given, "levels"), largest};
}

// A model of either kind for `rows` streams that stand together in memory.
template <class T>
struct Recurrent {
  virtual ~Recurrent() = default;
  virtual void push(int64_t rows, T* states, const double* values, const T* inputs, double* log_probs) = 0;
  int64_t states, inputs;
};

template <class T>
struct RecurrentNetwork : Recurrent<T> {
  explicit RecurrentNetwork(const nb::dict& given) : held(given), scratch(size_t(ROWS * held.model.scratch)) {
    this->states = held.model.states, this->inputs = held.model.inputs;
  }
  void push(int64_t rows, T* states, const double* values, const T* inputs, double* log_probs) override {
    streaming_table().network(T())(held.model, rows, states, values, inputs, scratch.data(), log_probs);
  }
  HeldNetwork<T> held;
  std::vector<T> scratch;
};

template <class T>
struct RecurrentChain : Recurrent<T> {
  explicit RecurrentChain(const nb::dict& given) : held(given), scratch(size_t(ROWS * held.model.states)) {
    this->states = held.model.states, this->inputs = 0;
  }
  void push(int64_t rows, T* states, const double* values, const T*, double* log_probs) override {
    streaming_table().chain(T())(held.model, rows, states, values, scratch.data(), log_probs);
  }
  HeldChain<T> held;
  std::vector<T> scratch;
};

// The kernel computes in double precision; beliefs and observations are of the precision of the model.
template <class T>
struct RecurrentKalman : Recurrent<T> {
  explicit RecurrentKalman(const nb::dict& given) : held(given), scratch(size_t(held.model.scratch())) {
    this->states = (held.model.state + 1) * held.model.states, this->inputs = held.model.inputs;
    belief.resize(size_t(this->states)), x.resize(size_t(held.model.event)), u.resize(size_t(this->inputs));
  }
  void push(int64_t rows, T* states, const double* values, const T* inputs, double* log_probs) override {
    const auto run = streaming_table().kalman;
    for (int64_t r = 0; r < rows; ++r, states += this->states, values += x.size(), inputs += u.size()) {
      std::copy_n(states, belief.size(), belief.data());
      std::copy_n(inputs, u.size(), u.data());
      std::transform(values, values + x.size(), x.data(), [](double value) { return double(T(value)); });
      log_probs[r] = run(held.model, belief.data(), x.data(), u.data(), scratch.data());
      std::transform(belief.begin(), belief.end(), states, [](double number) { return T(number); });
    }
  }
  HeldKalman held;
  std::vector<double> scratch, belief, x, u;
};

enum class Model { network, chain, kalman };

template <class T>
std::unique_ptr<Recurrent<T>> model_of(const nb::dict& given) {
  switch (Model(whole(given, "model"))) {
    case Model::network: return std::make_unique<RecurrentNetwork<T>>(given);
    case Model::chain: return std::make_unique<RecurrentChain<T>>(given);
    case Model::kalman: return std::make_unique<RecurrentKalman<T>>(given);
  }
  throw std::invalid_argument("there is no such kind of model.");
}

template <class T>
class Streams {
 public:
  explicit Streams(const nb::dict& given)
      : form_(form_of(given, std::numeric_limits<T>::max())), model_(model_of<T>(given)) {
    require(form_.entries > 0 && form_.streams >= 0, "an observation has entries.");
    const int64_t streams = form_.streams ? form_.streams : 1;
    states_.resize(size_t(streams * model_->states));
    values_.resize(size_t(form_.count())), inputs_.resize(size_t(streams * model_->inputs));
    given_.resize(inputs_.size()), log_probs_.resize(size_t(streams));
  }

  // The log-probability of the observation, of several streams as the bytes of doubles, after which all streams have
  // moved on; None, and nothing has changed, where it is not plainly an observation.
  nb::object push(nb::handle x, nb::handle u, bool checked) {
    if (!read_observation(form_, x.ptr(), checked, values_.data()) || !read_inputs(u.ptr())) return nb::none();
    const int64_t streams = int64_t(log_probs_.size());
    for (int64_t begin = 0; begin < streams; begin += ROWS)
      model_->push(std::min(ROWS, streams - begin), states_.data() + begin * model_->states,
                   values_.data() + begin * form_.entries, inputs_.data() + begin * model_->inputs,
                   log_probs_.data() + begin);
    if (!form_.streams) return nb::float_(log_probs_[0]);
    return nb::bytes(reinterpret_cast<const char*>(log_probs_.data()), log_probs_.size() * sizeof(double));
  }

  nb::bytes states() const {
    return nb::bytes(reinterpret_cast<const char*>(states_.data()), states_.size() * sizeof(T));
  }

  void set_states(nb::bytes bytes) {
    require(bytes.size() == states_.size() * sizeof(T), "the state has another size.");
    std::memcpy(states_.data(), bytes.c_str(), bytes.size());
  }

 private:
  bool read_inputs(PyObject* u) {
    if (!model_->inputs) return true;
    const int64_t shape[] = {form_.streams, model_->inputs};
    const int rank = form_.streams ? 2 : 1;
    if (!read_numbers(u, shape + 2 - rank, rank, given_.data(), [](double, bool) { return true; })) return false;
    std::copy(given_.begin(), given_.end(), inputs_.begin());
    return true;
  }

  Form form_;
  std::unique_ptr<Recurrent<T>> model_;
  std::vector<T> states_, inputs_;
  std::vector<double> values_, given_, log_probs_;
};

template <class T>
void define(nb::module_& module, const char* name) {
  nb::class_<Streams<T>>(module, name)
      .def(nb::init<const nb::dict&>())
      .def("push", &Streams<T>::push, nb::arg("x").none(), nb::arg("u").none() = nb::none(),
           nb::arg("checked") = false)
      .def("states", &Streams<T>::states)
      .def("set_states", &Streams<T>::set_states);
}

}  // namespace

void define_streams(nb::module_& module) {
  define<float>(module, "Streams32");
  define<double>(module, "Streams64");
}

}  // namespace hs
