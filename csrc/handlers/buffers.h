// What handlers share: shapes that are checked, and the type of the numbers.
#pragma once
#include <cstdint>
#include <string>

#include "threads.h"
#include "xla/ffi/api/ffi.h"

namespace hs {

namespace ffi = xla::ffi;
using Buffer = ffi::AnyBuffer;
using Out = ffi::Result<ffi::AnyBuffer>;

// The product of the dimensions from `from` up to, not including, `to`; negative numbers count from the end.
inline int64_t size_of(const ffi::AnyBuffer& buffer, int from = 0, int to = 1 << 20) {
  const auto dims = buffer.dimensions();
  const int rank = int(dims.size());
  if (from < 0) from += rank;
  if (to < 0) to += rank;
  int64_t size = 1;
  for (int i = from; i < to && i < rank; ++i) size *= dims[i];
  return size;
}

// A shape that does not fit is a mistake of the Python side: say which, and touch nothing.
#define HS_REQUIRE(condition)                                                                        \
  if (!(condition)) return ffi::Error::InvalidArgument(std::string("kernel called with wrong shapes: " #condition));

// Runs `body`, a generic lambda, with a number of the type that the buffer holds.
template <class F>
ffi::Error with_type(const ffi::AnyBuffer& buffer, F&& body) {
  if (buffer.element_type() == ffi::F32) return body(float(0));
  if (buffer.element_type() == ffi::F64) return body(double(0));
  return ffi::Error::InvalidArgument("kernels take float32 or float64.");
}

}  // namespace hs
