// What the kernels of recurrent networks share: the sequences that one task runs, and weights that are packed.
#pragma once
#include <cstdint>

namespace hs {

// Sequences that run together over all of time, longest first, so that those that still run are the first ones.
struct Rows {
  int64_t count, time;
  const int64_t* sequence;
  const int64_t* length;

  // How many of them have a step t; `before` is at least that number.
  __attribute__((always_inline)) int64_t active(int64_t t, int64_t before) const {
    while (before > 0 && length[before - 1] <= t) --before;
    return before;
  }
};

// How weights of `units` units are laid out for a product.
template <class T>
struct Packing {
  int64_t (*numbers)(int64_t units);
  int64_t (*panels)(int64_t units);
  void (*pack)(const T* weight, int64_t units, int64_t panel, T* packed);
};

// How a matrix [outputs, inputs] is laid out for a product.
template <class T>
struct MatrixPacking {
  int64_t (*numbers)(int64_t outputs, int64_t inputs);
  int64_t (*panels)(int64_t outputs, int64_t inputs);
  void (*pack)(const T* weight, int64_t outputs, int64_t inputs, int64_t panel, T* packed);
};

// What the gates of every step get from outside, [sequence, time, ...]: elements that were computed before, or inputs
// that the kernel multiplies by packed weights, where `elements` is null. `bias` fills whole vectors, or is null.
template <class T>
struct Outside {
  const T* elements;
  int64_t inputs;
  const T *rows, *packed, *bias;
};

// Where the adjoints of the inputs go; `d_rows` is null where there are none.
template <class T>
struct OutsideBack {
  int64_t inputs;
  const T* packed;
  T* d_rows;
};

}  // namespace hs
