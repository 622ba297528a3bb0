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

}  // namespace hs
