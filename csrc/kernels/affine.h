// The affine recurrence h' = a h + b of independent units, forward and backward, with a and b held in one of three ways.
#pragma once
#include <cstdint>

namespace hs {

enum class Form { plain, decay, logarithms };  // (a, b), (log a, b), (log a, log b)

// One sequence: `time` rows of `units` numbers each, of which the first `length` count.
template <class T>
struct AffineForward {
  int64_t time, units, length;
  const T *a, *b, *start;
  T *states, *final;  // states[t] has seen t steps
};

// states[t] and final have the adjoints d_states[t] and d_final; the adjoints of a, b and start are written.
template <class T>
struct AffineBackward {
  int64_t time, units, length;
  const T *a, *b, *states, *d_states, *d_final;
  T *d_a, *d_b, *d_start;
};

struct AffineTable {
  // For the units from `begin` on, up to `end`.
  void (*forward32)(Form, const AffineForward<float>&, int64_t begin, int64_t end);
  void (*forward64)(Form, const AffineForward<double>&, int64_t begin, int64_t end);
  void (*backward32)(Form, const AffineBackward<float>&, int64_t begin, int64_t end);
  void (*backward64)(Form, const AffineBackward<double>&, int64_t begin, int64_t end);

  auto forward(float) const { return forward32; }
  auto forward(double) const { return forward64; }
  auto backward(float) const { return backward32; }
  auto backward(double) const { return backward64; }
};

}  // namespace hs
