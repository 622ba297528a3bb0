#include "kernels/hmm_forward.h"

#include "handlers/binding.h"
#include "handlers/hmm.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(HmmForwardTable, hmm_forward)

namespace {

ffi::Error forward(ffi::ThreadPool pool, Buffer matrix, Buffer first, Buffer likelihoods, Buffer lengths, Out evidence,
                   Out final, Out top, Out total, Out predicted, Out filtered) {
  const int64_t groups = size_of(matrix, 0, 1), states = size_of(matrix, -1), time = size_of(likelihoods, -2, -1);
  const int64_t all = size_of(lengths), sequences = groups ? all / groups : 0;
  HS_REQUIRE(size_of(matrix) == groups * states * states && all == groups * sequences);
  HS_REQUIRE(size_of(first) == all * states && size_of(*final) == size_of(first));
  HS_REQUIRE(size_of(likelihoods) == all * time * states && size_of(*evidence) == all * time);
  HS_REQUIRE(size_of(*top) == all * time && size_of(*total) == all * time);
  HS_REQUIRE(size_of(*predicted) == 0 || size_of(*predicted) == size_of(likelihoods));
  HS_REQUIRE(size_of(*filtered) == 0 || size_of(*filtered) == size_of(likelihoods));
  return with_type(likelihoods, [&](auto zero) {
    using T = decltype(zero);
    const HmmForwardTable& table = hmm_forward_table();
    const Matrices<T> matrices(matrix.typed_data<T>(), groups, states, table.size(zero)(states), table.prepare(zero));
    const auto run = table.forward(zero);
    const int64_t grain = sequences_together(time, states, all, table.lanes(zero)(states), threads_of(pool));
    const int64_t tasks = (sequences + grain - 1) / grain;
    parallel(pool, groups * tasks, [&](int64_t task) {
      const int64_t group = task / tasks, at = group * sequences, rows = at * time, begin = task % tasks * grain;
      const HmmForward<T> in{
          states, time, matrices.of(group), lengths.typed_data<int32_t>() + at, first.typed_data<T>() + at * states,
          likelihoods.typed_data<T>() + rows * states, evidence->typed_data<T>() + rows,
          final->typed_data<T>() + at * states,
          size_of(*predicted) ? predicted->typed_data<T>() + rows * states : nullptr,
          size_of(*filtered) ? filtered->typed_data<T>() + rows * states : nullptr, top->typed_data<T>() + rows,
          total->typed_data<T>() + rows};
      run(in, begin, std::min(begin + grain, sequences));
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward)

const Registered registered[] = {{"hmm_forward", forward_handler}};

}  // namespace
}  // namespace hs
