#include "kernels/kalman_gradient.h"

#include <algorithm>

#include "handlers/binding.h"
#include "isa.h"
#include "kernels/kalman.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(KalmanGradientTable, kalman_gradient)

namespace {

// Roots have at least a row for each step, and are those of a group of sequences where there are as many.
ffi::Error gradient(ffi::ThreadPool pool, Buffer transition, Buffer emission, Buffer emission_covariance, Buffer root,
                    Buffer mean, Buffer x, Buffer observed, Buffer lengths, Buffer log_prob_slope, Buffer last_slope,
                    Buffer last_covariance_slope, Out start, Out start_covariance, Out x_slope, Out shift,
                    Out transition_slope, Out noise, Out emission_slope, Out emission_noise, bool own) {
  const int64_t groups = size_of(transition, 0, -2), sequences = size_of(lengths) / (groups ? groups : 1);
  const int64_t n = size_of(transition, -1), m = size_of(x, -1), time = size_of(x, -2, -1), all = size_of(lengths);
  const int64_t shifts = size_of(*shift, -2, -1), steps = all * time, owners = own ? all : groups;
  const int64_t rows = size_of(root, -3, -2);
  HS_REQUIRE(n <= KALMAN_LARGEST && m <= KALMAN_LARGEST && size_of(transition) == groups * n * n);
  HS_REQUIRE(size_of(emission) == groups * m * n && size_of(emission_covariance) == groups * m * m);
  HS_REQUIRE(size_of(mean) == steps * n && rows >= time && size_of(root) == owners * rows * n * n);
  HS_REQUIRE(size_of(x) == steps * m && size_of(log_prob_slope) == steps && size_of(last_slope) == all * n);
  HS_REQUIRE(observed.element_type() == ffi::PRED && size_of(observed) == (own ? steps * m : 0));
  HS_REQUIRE(size_of(last_covariance_slope) == all * n * n && (shifts == 1 || shifts == time));
  HS_REQUIRE(size_of(*start) == all * n && size_of(*start_covariance) == all * n * n && size_of(*x_slope) == steps * m);
  HS_REQUIRE(size_of(*shift) == all * shifts * n && size_of(*transition_slope) == all * n * n);
  HS_REQUIRE(size_of(*noise) == all * n * n && size_of(*emission_slope) == all * m * n);
  HS_REQUIRE(size_of(*emission_noise) == all * m * m);
  return with_type(x, [&](auto zero) {
    using T = decltype(zero);
    const auto run = kalman_gradient_table().run(zero);
    const int64_t lanes = kalman_gradient_table().bytes / int64_t(sizeof(T));
    const int64_t block = share(pool, sequences, lanes), blocks = (sequences + block - 1) / block;
    parallel(pool, groups * blocks, [&](int64_t task) {
      const int64_t g = task / blocks, first = task % blocks * block, i = g * sequences + first, o = own ? i : g;
      const auto from = [](Buffer& buffer, int64_t at) { return buffer.typed_data<T>() + at; };
      const auto to = [](Out& out, int64_t at) { return out->typed_data<T>() + at; };
      run({time, int(n), int(m), shifts, own ? rows * n * n : 0, from(transition, g * n * n), from(emission, g * m * n),
           from(emission_covariance, g * m * m), from(mean, i * time * n), from(root, o * rows * n * n),
           from(x, i * time * m), own ? observed.typed_data<bool>() + i * time * m : nullptr,
           lengths.typed_data<int32_t>() + i, from(log_prob_slope, i * time), from(last_slope, i * n),
           from(last_covariance_slope, i * n * n), to(start, i * n), to(start_covariance, i * n * n),
           to(x_slope, i * time * m), to(shift, i * shifts * n), to(transition_slope, i * n * n), to(noise, i * n * n),
           to(emission_slope, i * m * n), to(emission_noise, i * m * m)},
          int(std::min(block, sequences - first)));
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(gradient, "own")

const Registered registered[] = {{"kalman_gradient", gradient_handler}};

}  // namespace
}  // namespace hs
