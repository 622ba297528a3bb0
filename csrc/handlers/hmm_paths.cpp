#include "kernels/hmm_paths.h"

#include <limits>

#include "handlers/binding.h"
#include "handlers/hmm.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(HmmPathsTable, hmm_paths)

namespace {

ffi::Error best(ffi::ThreadPool pool, Buffer matrix, Buffer first, Buffer likelihoods, Buffer lengths, Out path,
                Out steps) {
  const int64_t groups = size_of(matrix, 0, 1), states = size_of(matrix, -1), time = size_of(likelihoods, -2, -1);
  const int64_t all = size_of(lengths), sequences = groups ? all / groups : 0;
  HS_REQUIRE(size_of(matrix) == groups * states * states && all == groups * sequences);
  HS_REQUIRE(size_of(first) == all * states && size_of(likelihoods) == all * time * states);
  HS_REQUIRE(size_of(*path) == all * time && size_of(*steps) == all * time);
  return with_type(likelihoods, [&](auto zero) {
    using T = decltype(zero);
    const HmmPathsTable& table = hmm_paths_table();
    const int64_t size = table.size(zero)(states);
    const T nothing = -std::numeric_limits<T>::infinity(), *const given = matrix.typed_data<T>();
    const auto prepare = table.prepare(zero);
    const Matrices<T> rows(given, groups, states, size,
                           [&](const T* in, int64_t n, T* out) { prepare(in, n, false, nothing, out); });
    const Matrices<T> columns(given, groups, states, size,
                              [&](const T* in, int64_t n, T* out) { prepare(in, n, true, nothing, out); });
    const auto run = table.best(zero);
    const int64_t grain = sequences_together(time, states, all, table.lanes(zero)(states), threads_of(pool));
    const int64_t tasks = (sequences + grain - 1) / grain;
    parallel(pool, groups * tasks, [&](int64_t task) {
      const int64_t group = task / tasks, at = group * sequences, begin = task % tasks * grain;
      const HmmBest<T> in{states, time, rows.of(group), columns.of(group), lengths.typed_data<int32_t>() + at,
                          first.typed_data<T>() + at * states, likelihoods.typed_data<T>() + at * time * states,
                          path->typed_data<int32_t>() + at * time, steps->typed_data<T>() + at * time};
      run(in, begin, std::min(begin + grain, sequences));
    });
    return ffi::Error::Success();
  });
}

ffi::Error draw(ffi::ThreadPool pool, Buffer matrix, Buffer filtered, Buffer noise, Buffer lengths, Out path) {
  const int64_t groups = size_of(matrix, 0, 1), states = size_of(matrix, -1), time = size_of(filtered, -2, -1);
  const int64_t all = size_of(lengths), sequences = groups ? all / groups : 0;
  HS_REQUIRE(size_of(matrix) == groups * states * states && all == groups * sequences);
  HS_REQUIRE(size_of(filtered) == all * time * states && size_of(noise) == size_of(filtered));
  HS_REQUIRE(size_of(*path) == all * time);
  return with_type(filtered, [&](auto zero) {
    using T = decltype(zero);
    const HmmPathsTable& table = hmm_paths_table();
    const auto prepare = table.prepare(zero);
    const Matrices<T> columns(matrix.typed_data<T>(), groups, states, table.size(zero)(states),
                              [&](const T* in, int64_t n, T* out) { prepare(in, n, true, T(0), out); });
    const auto run = table.draw(zero);
    const int64_t grain = sequences_together(time, states, all, 1, threads_of(pool));
    const int64_t tasks = (sequences + grain - 1) / grain;
    parallel(pool, groups * tasks, [&](int64_t task) {
      const int64_t group = task / tasks, at = group * sequences, begin = task % tasks * grain;
      const HmmDraw<T> in{states, time, columns.of(group), lengths.typed_data<int32_t>() + at,
                          filtered.typed_data<T>() + at * time * states, noise.typed_data<T>() + at * time * states,
                          path->typed_data<int32_t>() + at * time};
      run(in, begin, std::min(begin + grain, sequences));
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(best)
HS_HANDLER(draw)

const Registered registered[] = {{"hmm_best", best_handler}, {"hmm_draw", draw_handler}};

}  // namespace
}  // namespace hs
