#include "kernels/minimal.h"

#include "handlers/binding.h"
#include "handlers/blocks.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(MinimalTable, minimal)

namespace {

constexpr int64_t STEPS = 48;    // of a sequence that one task runs by itself: they stay in the cache
constexpr int64_t MANY = 2'048;  // of a sequence that all threads run together
constexpr int64_t UNITS = 16;

// Calls body(t, steps) for pieces of [from, to), in the order of time or against it.
template <class F>
void in_pieces(int64_t from, int64_t to, int64_t most, bool forward, F&& body) {
  const int64_t pieces = (to - from + most - 1) / most;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t t = from + (forward ? i : pieces - 1 - i) * most;
    body(t, std::min(most, to - t));
  }
}

// The same at once.
template <class F>
void pieces_at_once(ffi::ThreadPool& pool, int64_t from, int64_t to, int64_t most, F&& body) {
  parallel_ranges(pool, to - from, most, [&](int64_t begin, int64_t end) { body(from + begin, end - begin); });
}

int64_t steps_of(int32_t length, int64_t time) { return std::min<int64_t>(std::max<int64_t>(length, 0), time); }

ffi::Error forward(ffi::ThreadPool pool, Buffer weight, Buffer bias, Buffer start, Buffer inputs, Buffer lengths,
                   Out states, Out final, Out lines, int64_t lstm, int64_t positive) {
  const MinimalKind kind{lstm != 0, positive != 0};
  const int64_t groups = size_of(weight, 0, 1), all = size_of(lengths), time = size_of(inputs, -2, -1);
  const Sizes n{groups, groups ? all / groups : 0, time, size_of(*final, -1)};
  const int64_t numbers = kind.gates() * n.units, reads = size_of(inputs, -1);
  HS_REQUIRE(size_of(weight) == groups * numbers * reads && size_of(inputs) == all * time * reads);
  HS_REQUIRE((size_of(bias) == 0 || size_of(bias) == groups * numbers) && size_of(start) == n.ends());
  HS_REQUIRE(size_of(*states) == n.states() && size_of(*final) == n.ends());
  HS_REQUIRE(size_of(*lines) == 0 || size_of(*lines) == kind.gates() * n.states());
  return with_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = minimal_table().of(zero);
    const Reading<T> reading(pool, kernels.input_packing, weight, &bias, groups, numbers);
    const int64_t pitch = (numbers + 15) / 16 * 16 + 16;
    const auto sequence = [&](int64_t i) -> MinimalForward<T> {
      Outside<T> outside = reading.of(i / n.sequences, inputs, inputs);
      outside.rows = inputs.typed_data<T>() + i * time * reads;
      T* const kept = size_of(*lines) ? lines->typed_data<T>() + i * time * numbers : nullptr;
      return {time, n.units, steps_of(lengths.typed_data<int32_t>()[i], time), outside,
              start.typed_data<T>() + i * n.units, states->typed_data<T>() + i * time * n.units,
              final->typed_data<T>() + i * n.units, kept};
    };
    const int64_t threads = threads_for(pool, n.states() * kind.gates() * reads);
    if (all >= threads) {
      const auto run = [&](int64_t i) {
        const MinimalForward<T> in = sequence(i);
        const Scratch<T> rows(STEPS * pitch);
        in_pieces(0, in.length, STEPS, true, [&](int64_t t, int64_t steps) {
          kernels.project(in.outside, numbers, t, steps, rows, pitch);
          kernels.forward(kind, in, 0, n.units, t, steps, rows, pitch);
        });
        kernels.hold(in);
      };
      if (threads > 1)
        parallel(pool, all, run);
      else
        for (int64_t i = 0; i < all; ++i) run(i);
      return ffi::Error::Success();
    }
    const Scratch<T> rows(MANY * pitch);
    for (int64_t i = 0; i < all; ++i) {
      const MinimalForward<T> in = sequence(i);
      in_pieces(0, in.length, MANY, true, [&](int64_t first, int64_t many) {
        pieces_at_once(pool, first, first + many, STEPS, [&](int64_t t, int64_t steps) {
          kernels.project(in.outside, numbers, t, steps, rows + (t - first) * pitch, pitch);
        });
        parallel_ranges(pool, n.units, UNITS, [&](int64_t begin, int64_t end) {
          kernels.forward(kind, in, begin, end, first, many, rows, pitch);
        });
      });
      kernels.hold(in);
    }
    return ffi::Error::Success();
  });
}

ffi::Error backward(ffi::ThreadPool pool, Buffer weight, Buffer lengths, Buffer lines, Buffer states, Buffer d_states,
                    Buffer d_final, Out d_start, Out d_lines, Out d_inputs, int64_t lstm, int64_t positive) {
  const MinimalKind kind{lstm != 0, positive != 0};
  const int64_t groups = size_of(weight, 0, 1), all = size_of(lengths), time = size_of(lines, -2, -1);
  const Sizes n{groups, groups ? all / groups : 0, time, size_of(d_final, -1)};
  const int64_t numbers = kind.gates() * n.units, reads = size_of(weight, -1);
  HS_REQUIRE(size_of(weight) == groups * numbers * reads);
  HS_REQUIRE(size_of(*d_inputs) == 0 || size_of(*d_inputs) == all * time * reads);
  HS_REQUIRE(size_of(lines) == kind.gates() * n.states() && size_of(*d_lines) == size_of(lines));
  HS_REQUIRE(size_of(states) == n.states() && size_of(d_states) == n.states());
  HS_REQUIRE(size_of(d_final) == n.ends() && size_of(*d_start) == n.ends());
  return with_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = minimal_table().of(zero);
    const Reading<T> reading(pool, kernels.input_back_packing, weight, nullptr, groups, numbers);
    if (d_lines->typed_data<T>() != lines.typed_data<T>())
      std::copy_n(lines.typed_data<T>(), size_of(lines), d_lines->typed_data<T>());
    const auto sequence = [&](int64_t i) -> MinimalBackward<T> {
      OutsideBack<T> outside = reading.back(i / n.sequences, d_inputs);
      outside.d_rows = size_of(*d_inputs) ? d_inputs->typed_data<T>() + i * time * reads : nullptr;
      return {time, n.units, steps_of(lengths.typed_data<int32_t>()[i], time), outside,
              states.typed_data<T>() + i * time * n.units, d_states.typed_data<T>() + i * time * n.units,
              d_final.typed_data<T>() + i * n.units, d_start->typed_data<T>() + i * n.units,
              d_lines->typed_data<T>() + i * time * numbers};
    };
    const int64_t threads = threads_for(pool, n.states() * kind.gates() * reads);
    if (all >= threads) {
      const auto run = [&](int64_t i) {
        const MinimalBackward<T> in = sequence(i);
        kernels.begin_back(kind, in);
        in_pieces(0, in.length, STEPS, false, [&](int64_t t, int64_t steps) {
          kernels.backward(kind, in, 0, n.units, t, steps);
          kernels.pull(kind, in, t, steps);
        });
      };
      if (threads > 1)
        parallel(pool, all, run);
      else
        for (int64_t i = 0; i < all; ++i) run(i);
      return ffi::Error::Success();
    }
    for (int64_t i = 0; i < all; ++i) {
      const MinimalBackward<T> in = sequence(i);
      kernels.begin_back(kind, in);
      in_pieces(0, in.length, MANY, false, [&](int64_t first, int64_t many) {
        parallel_ranges(pool, n.units, UNITS, [&](int64_t begin, int64_t end) {
          kernels.backward(kind, in, begin, end, first, many);
        });
        pieces_at_once(pool, first, first + many, STEPS,
                       [&](int64_t t, int64_t steps) { kernels.pull(kind, in, t, steps); });
      });
    }
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward, "lstm", "positive")
HS_HANDLER(backward, "lstm", "positive")

const Registered registered[] = {{"minimal_forward", forward_handler}, {"minimal_backward", backward_handler}};

}  // namespace
}  // namespace hs
