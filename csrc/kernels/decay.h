// The affine step h' = a h + b whose factor is given by its logarithm.
#pragma once
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

// A slow decay as a small change of h, so that the rounding of a factor near one does not build up over time; a fast
// one as a product, so that what is forgotten leaves no rounding error behind.
template <class T>
HS_INLINE Vec<T> decayed(Vec<T> h, Vec<T> log_a, Vec<T> b) {
  const Vec<T> change = expm1<T>(log_a);
  return log_a > T(-0.5) ? h + (change * h + b) : (change + T(1)) * h + b;
}

}  // namespace HS_ISA
}  // namespace hs
