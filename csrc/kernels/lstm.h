// Long short-term memory: i, f, g, o from the elements and W h; c' = f c + i g, h' = o tanh(c').
#pragma once
#include "kernels/recurrent.h"

namespace hs {

// Arrays begin at the first sequence of the group that the rows belong to. `c` and `h` at t have seen t steps. `gates`
// are i, f, g, o behind their nonlinearities; null where they are not kept, as `c` may be, and `peephole` where there is
// none.
template <class T>
struct LSTMForward {
  Rows rows;
  int64_t units;
  bool sigmoid_input;
  const T *packed, *peephole, *start_c, *start_h;
  Outside<T> outside;
  T *c, *h, *final_c, *final_h, *gates;
};

// `d_c` is null where nothing depends on the internal states but through the network itself. `d_elements` may be `gates`.
template <class T>
struct LSTMBackward {
  Rows rows;
  int64_t units;
  bool sigmoid_input;
  const T *packed, *peephole, *gates, *c, *final_c, *d_c, *d_h, *d_final_c, *d_final_h;
  T *d_start_c, *d_start_h, *d_elements;
  OutsideBack<T> outside;
};

template <class T>
struct LSTMKernels {
  Packing<T> forward_packing, backward_packing;
  MatrixPacking<T> input_packing, input_back_packing;
  void (*forward)(const LSTMForward<T>&);
  void (*backward)(const LSTMBackward<T>&);
};

struct LSTMTable {
  LSTMKernels<float> single;
  LSTMKernels<double> twice;

  const auto& of(float) const { return single; }
  const auto& of(double) const { return twice; }
};

}  // namespace hs
