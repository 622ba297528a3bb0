// The gated recurrent unit: r and z from the elements and W h, n with r on its recurrent part ("after") or on h ("before").
#pragma once
#include "kernels/recurrent.h"

namespace hs {

// Arrays begin at the first sequence of the group that the rows belong to. `states` at t have seen t steps. `gates` are
// r, z, n behind their nonlinearities, `recurrent` is W_n h + b' where the reset comes after it; null where not kept.
template <class T>
struct GRUForward {
  Rows rows;
  int64_t units;
  const T *packed, *packed_candidate, *bias, *start;
  Outside<T> outside;
  T *states, *final, *gates, *recurrent;
};

// `d_elements` may be `gates`, `d_recurrent` may be `recurrent`.
template <class T>
struct GRUBackward {
  Rows rows;
  int64_t units;
  const T *packed, *packed_candidate, *gates, *recurrent, *states, *d_states, *d_final;
  T *d_start, *d_elements, *d_recurrent;
  OutsideBack<T> outside;
};

// With the reset after the product all gates are packed together, otherwise r and z, and the candidate by itself.
template <class T>
struct GRUKernels {
  Packing<T> after, after_back, gates, gates_back, candidate, candidate_back;
  MatrixPacking<T> input_packing, input_back_packing;
  void (*forward_after)(const GRUForward<T>&);
  void (*backward_after)(const GRUBackward<T>&);
  void (*forward_before)(const GRUForward<T>&);
  void (*backward_before)(const GRUBackward<T>&);
};

struct GRUTable {
  GRUKernels<float> single;
  GRUKernels<double> twice;

  const auto& of(float) const { return single; }
  const auto& of(double) const { return twice; }
};

}  // namespace hs
