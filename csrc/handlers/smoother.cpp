#include "kernels/smoother.h"

#include <cstring>

#include "handlers/binding.h"
#include "isa.h"
#include "kernels/kalman.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(SmootherTable, smoother)

namespace {

template <class T>
T* at(Out& out, int64_t index, int64_t size) {
  return size_of(*out) == 0 ? nullptr : out->typed_data<T>() + index * size;
}

ffi::Error gains(ffi::ThreadPool pool, Buffer transition, Buffer noise, Buffer filtered, Out gain, Out residual) {
  const int64_t groups = size_of(transition, 0, -2), n = size_of(transition, -1);
  const int64_t steps = size_of(filtered, 0, -2) / (groups ? groups : 1);
  HS_REQUIRE(n <= KALMAN_LARGEST && size_of(transition) == groups * n * n && size_of(noise) == groups * n * n);
  HS_REQUIRE(size_of(filtered) == groups * steps * n * n);
  HS_REQUIRE(size_of(*gain) == size_of(filtered) && size_of(*residual) == size_of(filtered));
  return with_type(filtered, [&](auto zero) {
    using T = decltype(zero);
    const auto run = smoother_table().gains(zero);
    const int64_t lanes = smoother_table().bytes / int64_t(sizeof(T)), grain = lanes * (n < 8 ? 16 : 1);
    const int64_t blocks = (steps + grain - 1) / grain;
    parallel(pool, groups * blocks, [&](int64_t task) {
      const int64_t g = task / blocks, first = task % blocks * grain, i = (g * steps + first) * n * n;
      run({int(n), transition.typed_data<T>() + g * n * n, noise.typed_data<T>() + g * n * n,
           filtered.typed_data<T>() + i, gain->typed_data<T>() + i, residual->typed_data<T>() + i},
          first + grain < steps ? grain : steps - first);
    });
    return ffi::Error::Success();
  });
}

ffi::Error chain(ffi::ThreadPool pool, Buffer gain, Buffer residual, Buffer last, Out covariance, Out crossed) {
  const int64_t groups = size_of(last, 0, -2), n = size_of(last, -1), pairs = size_of(gain, -3, -2);
  HS_REQUIRE(n <= KALMAN_LARGEST && size_of(last) == groups * n * n && size_of(gain) == groups * pairs * n * n);
  HS_REQUIRE(size_of(residual) == size_of(gain) && size_of(*crossed) == size_of(gain));
  HS_REQUIRE(size_of(*covariance) == groups * (pairs + 1) * n * n);
  return with_type(last, [&](auto zero) {
    using T = decltype(zero);
    const auto run = smoother_table().chain(zero);
    parallel(pool, groups, [&](int64_t g) {
      const int64_t i = g * pairs * n * n;
      run({pairs + 1, int(n), gain.typed_data<T>() + i, residual.typed_data<T>() + i, last.typed_data<T>() + g * n * n,
           covariance->typed_data<T>() + g * (pairs + 1) * n * n, crossed->typed_data<T>() + i});
    });
    return ffi::Error::Success();
  });
}

// Gains, roots and residuals belong to each sequence where `own`, otherwise to a group of them.
ffi::Error each(ffi::ThreadPool pool, Buffer gain, Buffer residual, Buffer filtered_root, Buffer filtered, Buffer ahead,
                Buffer lengths, Out mean, Out covariance, Out crossed, bool own) {
  const int64_t groups = size_of(lengths, 0, -1), sequences = size_of(lengths, -1), all = groups * sequences;
  const int64_t n = size_of(filtered, -1), time = size_of(filtered, -2, -1), pairs = time - 1;
  const int64_t owners = own ? all : groups, spread = size_of(*covariance) ? all : 0;
  HS_REQUIRE(n <= KALMAN_LARGEST && time > 0 && size_of(filtered) == all * time * n);
  HS_REQUIRE(size_of(ahead) == size_of(filtered) && size_of(*mean) == size_of(filtered));
  HS_REQUIRE(size_of(gain) == owners * pairs * n * n && size_of(residual) == size_of(gain));
  HS_REQUIRE(size_of(filtered_root) == owners * time * n * n);
  HS_REQUIRE(size_of(*covariance) == spread * time * n * n && size_of(*crossed) == spread * pairs * n * n);
  return with_type(filtered, [&](auto zero) {
    using T = decltype(zero);
    const auto run = smoother_table().each(zero);
    const int64_t lanes = smoother_table().bytes / int64_t(sizeof(T));
    const int64_t block = share(pool, sequences, lanes), blocks = (sequences + block - 1) / block;
    parallel(pool, groups * blocks, [&](int64_t task) {
      const int64_t g = task / blocks, first = task % blocks * block, i = g * sequences + first, o = own ? i : g;
      const SmootherEach<T> in{time, int(n), own, gain.typed_data<T>() + o * pairs * n * n,
                               residual.typed_data<T>() + o * pairs * n * n,
                               filtered_root.typed_data<T>() + o * time * n * n, filtered.typed_data<T>() + i * time * n,
                               ahead.typed_data<T>() + i * time * n, lengths.typed_data<int32_t>() + i,
                               mean->typed_data<T>() + i * time * n, at<T>(covariance, i, time * n * n),
                               at<T>(crossed, i, pairs * n * n)};
      run(in, int(first + block < sequences ? block : sequences - first));
    });
    return ffi::Error::Success();
  });
}

// What sequences of a group share, [group, ...], once for each of those that `mean`, [group, sequence, ...], is of.
ffi::Error copies(ffi::ThreadPool pool, Buffer shared, Buffer mean, Out each) {
  const int64_t groups = size_of(mean, 0, 1), all = size_of(mean, 0, 2);
  const int64_t size = groups ? int64_t(shared.size_bytes()) / groups : 0;
  HS_REQUIRE(size_of(shared, 0, 1) == groups && int64_t(each->size_bytes()) == all * size);
  const auto* from = static_cast<const char*>(shared.untyped_data());
  auto* to = static_cast<char*>(each->untyped_data());
  parallel(pool, all, [&](int64_t i) { std::memcpy(to + i * size, from + i / (all / groups) * size, size_t(size)); });
  return ffi::Error::Success();
}

HS_HANDLER(copies)
HS_HANDLER(gains)
HS_HANDLER(chain)
HS_HANDLER(each, "own")

const Registered registered[] = {
    {"smoother_gains", gains_handler},
    {"smoother_chain", chain_handler},
    {"smoother_each", each_handler},
    {"smoother_copies", copies_handler}};

}  // namespace
}  // namespace hs
