#include "kernels/hmm_backward.h"

#include "handlers/binding.h"
#include "handlers/hmm.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(HmmBackwardTable, hmm_backward)

namespace {

template <class T>
const T* given(const Buffer& buffer, int64_t at) {
  return size_of(buffer) ? buffer.typed_data<T>() + at : nullptr;
}

template <class T>
void run(ffi::ThreadPool& pool, const HmmBackwardTable& table, int64_t groups, int64_t sequences, const Buffer& matrix,
         HmmBackward<T> in) {
  const int64_t states = in.states;
  const Matrices<T> matrices(matrix.typed_data<T>(), groups, states, table.size(T())(states), table.prepare(T()));
  const int64_t lanes = table.lanes(T())(states);
  const int64_t grain = sequences_together(in.time, states, groups * sequences, lanes, threads_of(pool));
  const int64_t tasks = (sequences + grain - 1) / grain;
  parallel(pool, groups * tasks, [&](int64_t task) {
    const int64_t group = task / tasks, at = group * sequences, rows = at * in.time, begin = task % tasks * grain;
    const auto on = [](auto* p, int64_t by) { return p ? p + by : p; };
    const HmmBackward<T> own{in.smooth, states, in.time, matrices.of(group),
                             matrix.typed_data<T>() + group * states * states, in.lengths + at,
                             in.likelihoods + rows * states, in.filtered + rows * states, in.top + rows,
                             in.total + rows, on(in.d_evidence, rows), on(in.d_final, at * states),
                             on(in.d_predicted, rows * states), on(in.d_filtered, rows * states),
                             in.rows + rows * states, on(in.first, at * states),
                             in.moves + at * states * states};
    table.backward(T())(own, begin, std::min(begin + grain, sequences));
  });
}

struct Sizes {
  int64_t groups, states, time, all, sequences;
  Sizes(const Buffer& matrix, const Buffer& likelihoods, const Buffer& lengths)
      : groups(size_of(matrix, 0, 1)),
        states(size_of(matrix, -1)),
        time(size_of(likelihoods, -2, -1)),
        all(size_of(lengths)),
        sequences(groups ? all / groups : 0) {}
};

#define HS_REQUIRE_FORWARD                                                                              \
  HS_REQUIRE(size_of(matrix) == n.groups * n.states * n.states && n.all == n.groups * n.sequences);    \
  HS_REQUIRE(size_of(likelihoods) == n.all * n.time * n.states && size_of(top) == n.all * n.time);     \
  HS_REQUIRE(size_of(total) == size_of(top) && size_of(filtered) == size_of(likelihoods));             \
  HS_REQUIRE(size_of(*rows) == size_of(likelihoods) && size_of(*moves) == n.all * n.states * n.states);

ffi::Error slopes(ffi::ThreadPool pool, Buffer matrix, Buffer likelihoods, Buffer lengths, Buffer filtered, Buffer top,
                  Buffer total, Buffer d_evidence, Buffer d_final, Buffer d_predicted, Buffer d_filtered, Out rows,
                  Out first, Out moves) {
  const Sizes n(matrix, likelihoods, lengths);
  HS_REQUIRE_FORWARD
  HS_REQUIRE(size_of(d_evidence) == n.all * n.time && size_of(d_final) == n.all * n.states);
  HS_REQUIRE(size_of(d_predicted) == 0 || size_of(d_predicted) == size_of(likelihoods));
  HS_REQUIRE(size_of(d_filtered) == 0 || size_of(d_filtered) == size_of(likelihoods));
  HS_REQUIRE(size_of(*first) == size_of(d_final));
  return with_type(likelihoods, [&](auto zero) {
    using T = decltype(zero);
    run<T>(pool, hmm_backward_table(), n.groups, n.sequences, matrix,
           {false, n.states, n.time, nullptr, nullptr, lengths.typed_data<int32_t>(), likelihoods.typed_data<T>(),
            filtered.typed_data<T>(), top.typed_data<T>(), total.typed_data<T>(), d_evidence.typed_data<T>(),
            d_final.typed_data<T>(), given<T>(d_predicted, 0), given<T>(d_filtered, 0), rows->typed_data<T>(),
            first->typed_data<T>(), moves->typed_data<T>()});
    return ffi::Error::Success();
  });
}

ffi::Error smooth(ffi::ThreadPool pool, Buffer matrix, Buffer likelihoods, Buffer lengths, Buffer filtered, Buffer top,
                  Buffer total, Out rows, Out moves) {
  const Sizes n(matrix, likelihoods, lengths);
  HS_REQUIRE_FORWARD
  return with_type(likelihoods, [&](auto zero) {
    using T = decltype(zero);
    run<T>(pool, hmm_backward_table(), n.groups, n.sequences, matrix,
           {true, n.states, n.time, nullptr, nullptr, lengths.typed_data<int32_t>(), likelihoods.typed_data<T>(),
            filtered.typed_data<T>(), top.typed_data<T>(), total.typed_data<T>(), nullptr, nullptr, nullptr, nullptr,
            rows->typed_data<T>(), nullptr, moves->typed_data<T>()});
    return ffi::Error::Success();
  });
}

HS_HANDLER(slopes)
HS_HANDLER(smooth)

const Registered registered[] = {{"hmm_slopes", slopes_handler}, {"hmm_smooth", smooth_handler}};

}  // namespace
}  // namespace hs
