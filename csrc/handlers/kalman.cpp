#include "kernels/kalman.h"

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(KalmanTable, kalman)

namespace {

template <class T>
T* at(Out& out, int64_t index, int64_t size) {
  return size_of(*out) == 0 ? nullptr : out->typed_data<T>() + index * size;
}

ffi::Error factors(ffi::ThreadPool pool, Buffer transition, Buffer noise, Buffer emission, Buffer emission_noise,
                   Buffer start, Out predicted, Out filtered, Out gain, Out innovation, Out log_size) {
  const int64_t groups = size_of(start, 0, -2), n = size_of(start, -1), m = size_of(emission_noise, -1);
  const int64_t time = size_of(*log_size, -1);
  HS_REQUIRE(n <= KALMAN_LARGEST && m <= KALMAN_LARGEST && size_of(start) == groups * n * n);
  HS_REQUIRE(size_of(transition) == groups * n * n && size_of(noise) == groups * n * n);
  HS_REQUIRE(size_of(emission) == groups * m * n && size_of(emission_noise) == groups * m * m);
  HS_REQUIRE(size_of(*predicted) == groups * (time + 1) * n * n && size_of(*filtered) == groups * time * n * n);
  HS_REQUIRE(size_of(*gain) == groups * time * n * m && size_of(*innovation) == groups * time * m * m);
  HS_REQUIRE(size_of(*log_size) == groups * time);
  return with_type(start, [&](auto zero) {
    using T = decltype(zero);
    const auto run = kalman_table().factors(zero);
    parallel(pool, groups, [&](int64_t g) {
      const KalmanSystem<T> system{time, int(n), int(m), transition.typed_data<T>() + g * n * n,
                                   noise.typed_data<T>() + g * n * n, emission.typed_data<T>() + g * m * n,
                                   emission_noise.typed_data<T>() + g * m * m};
      run({system, start.typed_data<T>() + g * n * n, at<T>(predicted, g, (time + 1) * n * n),
           at<T>(filtered, g, time * n * n), at<T>(gain, g, time * n * m), at<T>(innovation, g, time * m * m),
           at<T>(log_size, g, time)});
    });
    return ffi::Error::Success();
  });
}

ffi::Error means(ffi::ThreadPool pool, Buffer transition, Buffer emission, Buffer gain, Buffer innovation,
                 Buffer log_size, Buffer start, Buffer x, Buffer shift, Buffer lengths, Out log_prob, Out last,
                 Out predicted, Out filtered) {
  const int64_t groups = size_of(transition, 0, -2), sequences = size_of(lengths) / (groups ? groups : 1);
  const int64_t n = size_of(transition, -1), m = size_of(x, -1), time = size_of(x, -2, -1), all = size_of(lengths);
  const int64_t shifts = size_of(shift, -2, -1), kept = size_of(*predicted) ? all * time * n : 0;
  HS_REQUIRE(n <= KALMAN_LARGEST && m <= KALMAN_LARGEST && size_of(transition) == groups * n * n);
  HS_REQUIRE(size_of(emission) == groups * m * n && size_of(gain) == groups * time * n * m);
  HS_REQUIRE(size_of(innovation) == groups * time * m * m && size_of(log_size) == groups * time);
  HS_REQUIRE(size_of(start) == all * n && size_of(x) == all * time * m && (shifts == 1 || shifts == time));
  HS_REQUIRE(size_of(shift) == all * shifts * n && size_of(*log_prob) == all * time && size_of(*last) == all * n);
  HS_REQUIRE(size_of(*predicted) == kept && size_of(*filtered) == kept);
  return with_type(x, [&](auto zero) {
    using T = decltype(zero);
    const auto run = kalman_table().means(zero);
    const int64_t lanes = kalman_table().bytes / int64_t(sizeof(T));
    const int64_t block = share(pool, sequences, lanes), blocks = (sequences + block - 1) / block;
    parallel(pool, groups * blocks, [&](int64_t task) {
      const int64_t g = task / blocks, first = task % blocks * block, i = g * sequences + first;
      const KalmanSystem<T> system{time, int(n), int(m), transition.typed_data<T>() + g * n * n, nullptr,
                                   emission.typed_data<T>() + g * m * n, nullptr};
      const KalmanMeans<T> in{system, gain.typed_data<T>() + g * time * n * m,
                              innovation.typed_data<T>() + g * time * m * m, log_size.typed_data<T>() + g * time,
                              shifts, start.typed_data<T>() + i * n, x.typed_data<T>() + i * time * m,
                              shift.typed_data<T>() + i * shifts * n, lengths.typed_data<int32_t>() + i,
                              at<T>(log_prob, i, time), at<T>(last, i, n), at<T>(predicted, i, time * n),
                              at<T>(filtered, i, time * n)};
      run(in, int(first + block < sequences ? block : sequences - first));
    });
    return ffi::Error::Success();
  });
}

ffi::Error each(ffi::ThreadPool pool, Buffer transition, Buffer noise, Buffer emission, Buffer emission_noise,
                Buffer start, Buffer start_root, Buffer x, Buffer shift, Buffer observed, Buffer lengths, Out log_prob,
                Out last, Out last_root, Out predicted, Out predicted_root, Out filtered, Out filtered_root) {
  const int64_t groups = size_of(transition, 0, -2), sequences = size_of(lengths) / (groups ? groups : 1);
  const int64_t n = size_of(transition, -1), m = size_of(x, -1), time = size_of(x, -2, -1), all = size_of(lengths);
  const int64_t shifts = size_of(shift, -2, -1), steps = all * time;
  const bool keeps = size_of(*predicted) > 0, filters = size_of(*filtered) > 0;
  HS_REQUIRE(n <= KALMAN_LARGEST && m <= KALMAN_LARGEST && size_of(transition) == groups * n * n);
  HS_REQUIRE(size_of(noise) == groups * n * n && size_of(emission) == groups * m * n);
  HS_REQUIRE(size_of(emission_noise) == groups * m * m && size_of(start_root) == all * n * n);
  HS_REQUIRE(size_of(start) == all * n && size_of(x) == steps * m && (shifts == 1 || shifts == time));
  HS_REQUIRE(size_of(observed) == steps * m && observed.element_type() == ffi::PRED);
  HS_REQUIRE(size_of(shift) == all * shifts * n && size_of(*log_prob) == steps && size_of(*last) == all * n);
  HS_REQUIRE(size_of(*last_root) == all * n * n && size_of(*predicted) == (keeps ? steps * n : 0));
  HS_REQUIRE(size_of(*predicted_root) == (keeps ? steps * n * n : 0) && size_of(*filtered) == (filters ? steps * n : 0));
  HS_REQUIRE(size_of(*filtered_root) == (filters ? steps * n * n : 0));
  return with_type(x, [&](auto zero) {
    using T = decltype(zero);
    const auto run = kalman_table().each(zero);
    const int64_t lanes = kalman_table().bytes / int64_t(sizeof(T));
    const int64_t block = share(pool, sequences, lanes), blocks = (sequences + block - 1) / block;
    parallel(pool, groups * blocks, [&](int64_t task) {
      const int64_t g = task / blocks, first = task % blocks * block, i = g * sequences + first;
      const KalmanSystem<T> system{time, int(n), int(m), transition.typed_data<T>() + g * n * n,
                                   noise.typed_data<T>() + g * n * n, emission.typed_data<T>() + g * m * n,
                                   emission_noise.typed_data<T>() + g * m * m};
      const KalmanEach<T> in{system, shifts, start.typed_data<T>() + i * n, start_root.typed_data<T>() + i * n * n,
                             x.typed_data<T>() + i * time * m, shift.typed_data<T>() + i * shifts * n,
                             observed.typed_data<bool>() + i * time * m, lengths.typed_data<int32_t>() + i,
                             at<T>(log_prob, i, time), at<T>(last, i, n), at<T>(last_root, i, n * n),
                             at<T>(predicted, i, time * n), at<T>(predicted_root, i, time * n * n),
                             at<T>(filtered, i, time * n), at<T>(filtered_root, i, time * n * n)};
      run(in, int(first + block < sequences ? block : sequences - first));
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(factors)
HS_HANDLER(means)
HS_HANDLER(each)

const Registered registered[] = {
    {"kalman_factors", factors_handler}, {"kalman_means", means_handler}, {"kalman_each", each_handler}};

}  // namespace
}  // namespace hs
