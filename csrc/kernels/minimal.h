// Minimal gated cells, whose gates see the input only: h' = keep h + take c, with keep + take = 1.
#pragma once
#include "kernels/recurrent.h"

namespace hs {

// The lines of a step are those of z and c (GRU), or of f, i and c (LSTM). A positive candidate is g(c) of log space.
struct MinimalKind {
  bool lstm, positive;
  int64_t gates() const { return lstm ? 3 : 2; }
};

// One sequence. `states` at t have seen t steps; `lines` are kept for the way back, or null.
template <class T>
struct MinimalForward {
  int64_t time, units, length;
  Outside<T> outside;
  const T* start;
  T *states, *final, *lines;
};

// The adjoints of the lines take their place. `d_start` also carries the adjoint of the state from piece to piece.
template <class T>
struct MinimalBackward {
  int64_t time, units, length;
  OutsideBack<T> outside;
  const T *states, *d_states, *d_final;
  T *d_start, *lines;
};

// Pieces of the steps [t, t + steps) are run in the order of time, backward against it; units do not see each other.
template <class T>
struct MinimalKernels {
  MatrixPacking<T> input_packing, input_back_packing;
  // The lines of some steps, into rows that lie `pitch` numbers apart.
  void (*project)(const Outside<T>&, int64_t numbers, int64_t t, int64_t steps, T* rows, int64_t pitch);
  void (*forward)(MinimalKind, const MinimalForward<T>&, int64_t begin, int64_t end, int64_t t, int64_t steps,
                  const T* rows, int64_t pitch);
  void (*hold)(const MinimalForward<T>&);
  void (*begin_back)(MinimalKind, const MinimalBackward<T>&);
  void (*backward)(MinimalKind, const MinimalBackward<T>&, int64_t begin, int64_t end, int64_t t, int64_t steps);
  void (*pull)(MinimalKind, const MinimalBackward<T>&, int64_t t, int64_t steps);
};

struct MinimalTable {
  MinimalKernels<float> single;
  MinimalKernels<double> twice;

  const auto& of(float) const { return single; }
  const auto& of(double) const { return twice; }
};

}  // namespace hs
