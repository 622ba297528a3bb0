#include "kernels/weight_gradients.h"

#include <algorithm>

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(WeightGradientsTable, weight_gradients)

namespace {

// The numbers of one of several products of the same sizes; null where there are none.
template <class T>
const T* at(const Buffer& buffer, int64_t number, int64_t size) {
  return size ? buffer.typed_data<T>() + number * size : nullptr;
}
template <class T>
T* at(Out& buffer, int64_t number, int64_t size) {
  return size ? buffer->typed_data<T>() + number * size : nullptr;
}

// adjoints [product, row, output], seen and read [product, row, size].
ffi::Error gradients(ffi::ThreadPool pool, Buffer adjoints, Buffer seen, Buffer read, Out d_seen, Out d_read, Out d_bias) {
  const int64_t products = size_of(adjoints, 0, 1), rows = size_of(adjoints, 1, 2), outputs = size_of(adjoints, 2);
  const int64_t seen_size = size_of(seen, 2), read_size = size_of(read, 2), seen_outputs = size_of(*d_seen, 1, 2);
  HS_REQUIRE(size_of(seen) == products * rows * seen_size && size_of(read) == products * rows * read_size);
  HS_REQUIRE(seen_outputs <= outputs && size_of(*d_seen) == products * seen_outputs * seen_size);
  HS_REQUIRE(size_of(*d_read) == products * outputs * read_size);
  HS_REQUIRE(size_of(*d_bias) == 0 || size_of(*d_bias) == products * outputs);
  const int64_t biased = size_of(*d_bias) ? outputs : 0;
  return with_type(adjoints, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = weight_gradients_table().of(zero);
    const auto of = [&](int64_t i) -> WeightGradients<T> {
      return {rows, outputs, at<T>(adjoints, i, rows * outputs), seen_outputs, seen_size, read_size,
              at<T>(seen, i, rows * seen_size), at<T>(read, i, rows * read_size),
              at<T>(d_seen, i, seen_outputs * seen_size), at<T>(d_read, i, outputs * read_size), at<T>(d_bias, i, biased)};
    };
    // Parts of outputs first, since all of them need all columns; which part a sum is in does not change it.
    const int64_t columns = seen_size + read_size, panels = kernels.panels(outputs);
    const bool small = rows * (seen_outputs * seen_size + outputs * read_size) * products < 100000;
    const int64_t wanted = small ? 1 : threads_of(pool);
    const int64_t across = std::max<int64_t>(1, std::min(panels, wanted));
    const int64_t along = std::max<int64_t>(1, std::min(columns, (wanted + across - 1) / across));
    const auto part = [](int64_t i, int64_t count, int64_t size) { return Range{i * size / count, (i + 1) * size / count}; };
    parallel(pool, products * across * along, [&](int64_t task) {
      const int64_t p = task / along % across, c = task % along;
      kernels.run(of(task / (across * along)), part(p, across, panels), part(c, along, columns));
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(gradients)

const Registered registered = {"weight_gradients", gradients_handler};

}  // namespace
}  // namespace hs
