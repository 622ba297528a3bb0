// Gradients of weights that every step used: sums over all rows of outer products.
#pragma once
#include <cstdint>

namespace hs {

// `adjoints` [rows, outputs] of outputs = W seen + V read + b, of which only the first `seen_outputs` see `seen`.
template <class T>
struct WeightGradients {
  int64_t rows, outputs;
  const T* adjoints;
  int64_t seen_outputs, seen_size, read_size;
  const T *seen, *read;                // [rows, size]; of size zero where there is none
  T *d_seen, *d_read, *d_bias;         // [seen_outputs, seen_size], [outputs, read_size], [outputs]
};

struct Range {
  int64_t begin, end;
};

template <class T>
struct WeightGradientsKernels {
  int64_t (*panels)(int64_t outputs);
  // For ranges of the panels of outputs, and of the columns of `seen` and `read` beside each other.
  void (*run)(const WeightGradients<T>&, Range panels, Range columns);
};

struct WeightGradientsTable {
  WeightGradientsKernels<float> single;
  WeightGradientsKernels<double> twice;

  const auto& of(float) const { return single; }
  const auto& of(double) const { return twice; }
};

}  // namespace hs
