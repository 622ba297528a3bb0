#include "kernels/copying.h"

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(CopyTable, copying)

namespace {

// run(chain of the group, number of the group's first sequence, sequence in the group) for all sequences.
template <class T, class F>
void over_sequences(ffi::ThreadPool& pool, const Buffer& stay, const Buffer& fresh, const Buffer& lengths, int64_t time,
                    F&& run) {
  const int64_t states = size_of(fresh, -1), groups = size_of(fresh) / states, sequences = size_of(lengths) / groups;
  const int64_t stays = size_of(stay) / groups;
  parallel(pool, groups * sequences, [&](int64_t task) {
    const int64_t group = task / sequences, at = group * sequences;
    const Copying<T> chain{states, time, stay.typed_data<T>() + group * stays, fresh.typed_data<T>() + group * states,
                           lengths.typed_data<int32_t>() + at};
    run(chain, at, task % sequences);
  });
}

// `stays` is how many numbers a chain has for its states' being kept.
ffi::Error check(const Buffer& stay, const Buffer& fresh, const Buffer& lengths, const Buffer& rows, int64_t stays = 1) {
  const int64_t states = size_of(fresh, -1), groups = states > 0 ? size_of(fresh) / states : 0;
  HS_REQUIRE(groups > 0 && size_of(stay) == groups * stays && size_of(lengths) % groups == 0);
  HS_REQUIRE(lengths.element_type() == ffi::S32 && size_of(rows, -1) == states);
  HS_REQUIRE(size_of(rows) == size_of(lengths) * size_of(rows, -2, -1) * states);
  return ffi::Error::Success();
}

ffi::Error forward(ffi::ThreadPool pool, Buffer stay, Buffer fresh, Buffer first, Buffer likelihoods, Buffer lengths,
                   Out evidence, Out final, Out predicted, Out filtered) {
  if (ffi::Error wrong = check(stay, fresh, lengths, likelihoods); wrong.failure()) return wrong;
  const int64_t states = size_of(fresh, -1), time = size_of(likelihoods, -2, -1), all = size_of(lengths);
  HS_REQUIRE(size_of(first) == all * states && size_of(*final) == all * states && size_of(*evidence) == all * time);
  HS_REQUIRE(size_of(*predicted) == 0 || size_of(*predicted) == size_of(likelihoods));
  HS_REQUIRE(size_of(*filtered) == 0 || size_of(*filtered) == size_of(likelihoods));
  return with_type(likelihoods, [&](auto zero) {
    using T = decltype(zero);
    over_sequences<T>(pool, stay, fresh, lengths, time, [&](const Copying<T>& chain, int64_t at, int64_t i) {
      const int64_t rows = at * time * states;
      const CopyForward<T> in{first.typed_data<T>() + at * states,
                              likelihoods.typed_data<T>() + rows,
                              evidence->typed_data<T>() + at * time,
                              final->typed_data<T>() + at * states,
                              size_of(*predicted) ? predicted->typed_data<T>() + rows : nullptr,
                              size_of(*filtered) ? filtered->typed_data<T>() + rows : nullptr};
      copying_table().runs(zero).forward(chain, in, i);
    });
    return ffi::Error::Success();
  });
}

ffi::Error slopes(ffi::ThreadPool pool, Buffer stay, Buffer fresh, Buffer first, Buffer lengths, Buffer evidence,
                  Buffer filtered, Buffer d_evidence, Buffer d_final, Out d_likelihoods, Out d_first, Out d_stay,
                  Out d_fresh) {
  if (ffi::Error wrong = check(stay, fresh, lengths, filtered); wrong.failure()) return wrong;
  const int64_t states = size_of(fresh, -1), time = size_of(filtered, -2, -1), all = size_of(lengths);
  HS_REQUIRE(size_of(first) == all * states && size_of(evidence) == all * time && size_of(d_evidence) == all * time);
  HS_REQUIRE(size_of(d_final) == all * states && size_of(*d_likelihoods) == size_of(filtered));
  HS_REQUIRE(size_of(*d_first) == all * states && size_of(*d_stay) == all && size_of(*d_fresh) == all * states);
  return with_type(filtered, [&](auto zero) {
    using T = decltype(zero);
    over_sequences<T>(pool, stay, fresh, lengths, time, [&](const Copying<T>& chain, int64_t at, int64_t i) {
      const int64_t rows = at * time * states, row = at * states;
      const CopySlopes<T> in{first.typed_data<T>() + row,          evidence.typed_data<T>() + at * time,
                             filtered.typed_data<T>() + rows,      d_evidence.typed_data<T>() + at * time,
                             d_final.typed_data<T>() + row,        d_likelihoods->typed_data<T>() + rows,
                             d_first->typed_data<T>() + row,       d_stay->typed_data<T>() + at,
                             d_fresh->typed_data<T>() + row};
      copying_table().runs(zero).slopes(chain, in, i);
    });
    return ffi::Error::Success();
  });
}

ffi::Error smooth(ffi::ThreadPool pool, Buffer stay, Buffer fresh, Buffer lengths, Buffer filtered, Out smoothed) {
  if (ffi::Error wrong = check(stay, fresh, lengths, filtered); wrong.failure()) return wrong;
  const int64_t states = size_of(fresh, -1), time = size_of(filtered, -2, -1);
  HS_REQUIRE(size_of(*smoothed) == size_of(filtered));
  return with_type(filtered, [&](auto zero) {
    using T = decltype(zero);
    over_sequences<T>(pool, stay, fresh, lengths, time, [&](const Copying<T>& chain, int64_t at, int64_t i) {
      const int64_t rows = at * time * states;
      copying_table().runs(zero).smooth(chain, {filtered.typed_data<T>() + rows, smoothed->typed_data<T>() + rows}, i);
    });
    return ffi::Error::Success();
  });
}

ffi::Error best(ffi::ThreadPool pool, Buffer again, Buffer fresh, Buffer first, Buffer likelihoods, Buffer lengths,
                Out path, Out steps) {
  const int64_t states = size_of(fresh, -1), time = size_of(likelihoods, -2, -1), all = size_of(lengths);
  if (ffi::Error wrong = check(again, fresh, lengths, likelihoods, states); wrong.failure()) return wrong;
  HS_REQUIRE(size_of(first) == all * states && size_of(*path) == all * time && size_of(*steps) == all * time);
  return with_type(likelihoods, [&](auto zero) {
    using T = decltype(zero);
    over_sequences<T>(pool, again, fresh, lengths, time, [&](const Copying<T>& chain, int64_t at, int64_t i) {
      const CopyBest<T> in{first.typed_data<T>() + at * states, likelihoods.typed_data<T>() + at * time * states,
                           path->typed_data<int32_t>() + at * time, steps->typed_data<T>() + at * time};
      copying_table().runs(zero).best(chain, in, i);
    });
    return ffi::Error::Success();
  });
}

ffi::Error draw(ffi::ThreadPool pool, Buffer stay, Buffer fresh, Buffer filtered, Buffer noise, Buffer lengths, Out path) {
  if (ffi::Error wrong = check(stay, fresh, lengths, filtered); wrong.failure()) return wrong;
  const int64_t states = size_of(fresh, -1), time = size_of(filtered, -2, -1);
  HS_REQUIRE(size_of(noise) == size_of(filtered) && size_of(*path) == size_of(lengths) * time);
  return with_type(filtered, [&](auto zero) {
    using T = decltype(zero);
    over_sequences<T>(pool, stay, fresh, lengths, time, [&](const Copying<T>& chain, int64_t at, int64_t i) {
      const CopyDraw<T> in{filtered.typed_data<T>() + at * time * states, noise.typed_data<T>() + at * time * states,
                           path->typed_data<int32_t>() + at * time};
      copying_table().runs(zero).draw(chain, in, i);
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward)
HS_HANDLER(slopes)
HS_HANDLER(smooth)
HS_HANDLER(best)
HS_HANDLER(draw)

const Registered registered[] = {{"copying_forward", forward_handler},
                                 {"copying_slopes", slopes_handler},
                                 {"copying_smooth", smooth_handler},
                                 {"copying_best", best_handler},
                                 {"copying_draw", draw_handler}};

}  // namespace
}  // namespace hs
