// The plain and the leaky network: h' = phi(W h + e), or h' = (1 - alpha) h + alpha phi(W h + e).
#pragma once
#include "kernels/recurrent.h"

namespace hs {

enum class Nonlinearity { tanh, relu, identity, sigmoid };

// Arrays begin at the first sequence of the group that the rows belong to. `states` at t have seen t steps. `alpha` is
// null where nothing leaks. `drive` is phi of every step, which only a leaky network need keep; null where it does not.
template <class T>
struct VanillaForward {
  Rows rows;
  int64_t units;
  const T *packed, *alpha, *start;
  Outside<T> outside;
  T *states, *final, *drive;
};

// `d_elements` may be `drive`. `d_alpha` has one row a sequence.
template <class T>
struct VanillaBackward {
  Rows rows;
  int64_t units;
  const T *packed, *alpha, *drive, *states, *final, *d_states, *d_final;
  T *d_start, *d_elements, *d_alpha;
  OutsideBack<T> outside;
};

template <class T>
struct VanillaKernels {
  Packing<T> forward_packing, backward_packing;
  MatrixPacking<T> input_packing, input_back_packing;
  void (*forward)(Nonlinearity, const VanillaForward<T>&);
  void (*backward)(Nonlinearity, const VanillaBackward<T>&);
};

struct VanillaTable {
  VanillaKernels<float> single;
  VanillaKernels<double> twice;

  const auto& of(float) const { return single; }
  const auto& of(double) const { return twice; }
};

}  // namespace hs
