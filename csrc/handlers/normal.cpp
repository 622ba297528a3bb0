#include "kernels/normal.h"

#include <algorithm>

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"
#include "scratch.h"

namespace hs {

HS_DECLARE_TABLES(NormalTable, normal)

namespace {

// Steps that one task takes, so that it is worth its start; a matter of the sizes alone, as sums are over one task's.
int64_t steps_together(int64_t states, int64_t columns) {
  return std::max<int64_t>(256, 65536 / std::max<int64_t>(1, states * columns));
}

struct Sizes {
  int64_t groups, states, columns, all, sequences, time, grain, tasks;
  Sizes(const Buffer& centres, const Buffer& values, const Buffer& lengths)
      : groups(size_of(centres, 0, 1)),
        states(size_of(centres, 1, 2)),
        columns(size_of(centres, 2, 3)),
        all(size_of(lengths)),
        sequences(groups ? all / groups : 0),
        time(size_of(values, 2, 3)),
        grain(steps_together(states, columns)),
        tasks((time + grain - 1) / grain) {}
};

template <class T>
NormalStates<T> states_of(const Sizes& n, int64_t group, const Buffer& centres, const Buffer& offsets,
                          const Buffer& inverse) {
  const int64_t at = group * n.states * n.columns;
  return {n.states, n.columns, centres.typed_data<T>() + at, offsets.typed_data<T>() + at,
          inverse.typed_data<T>() + at};
}

#define HS_REQUIRE_STATES                                                                                      \
  HS_REQUIRE(n.all == n.groups * n.sequences && size_of(centres) == n.groups * n.states * n.columns);          \
  HS_REQUIRE(size_of(offsets) == size_of(centres) && size_of(inverse) == size_of(centres));                    \
  HS_REQUIRE(size_of(values) == n.all * n.time * n.columns && lengths.element_type() == ffi::S32);

ffi::Error densities(ffi::ThreadPool pool, Buffer centres, Buffer offsets, Buffer inverse, Buffer constants,
                     Buffer values, Buffer lengths, Out out) {
  const Sizes n(centres, values, lengths);
  HS_REQUIRE_STATES
  HS_REQUIRE(size_of(constants) == n.groups * n.states && size_of(*out) == n.all * n.time * n.states);
  return with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const auto run = normal_table().densities(zero);
    // Short sequences share a task.
    const int64_t pieces = n.all * n.tasks, share = n.time ? std::max<int64_t>(1, n.grain / n.time) : 1;
    parallel_ranges(pool, pieces, share, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t sequence = piece / n.tasks, group = sequence / n.sequences, from = piece % n.tasks * n.grain;
        const int64_t to = std::min(from + n.grain, n.time), row = sequence * n.time + from;
        const int64_t length = std::clamp<int64_t>(lengths.typed_data<int32_t>()[sequence], from, to);
        T* const found = out->template typed_data<T>() + row * n.states;
        run({states_of<T>(n, group, centres, offsets, inverse), constants.typed_data<T>() + group * n.states,
             values.typed_data<T>() + row * n.columns, length - from, found});
        std::fill(found + (length - from) * n.states, found + (to - from) * n.states, T(0));
      }
    });
    return ffi::Error::Success();
  });
}

ffi::Error moments(ffi::ThreadPool pool, Buffer centres, Buffer offsets, Buffer inverse, Buffer weights, Buffer values,
                   Buffer lengths, Out weight, Out first, Out second) {
  const Sizes n(centres, values, lengths);
  HS_REQUIRE_STATES
  HS_REQUIRE(size_of(weights) == n.all * n.time * n.states && size_of(*weight) == n.all * n.states);
  HS_REQUIRE(size_of(*first) == n.all * n.states * n.columns && size_of(*second) == size_of(*first));
  return with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const auto run = normal_table().moments(zero);
    const int64_t table = n.states * n.columns, size = n.states + 2 * table, pieces = n.all * n.tasks;
    const int64_t share = n.time ? std::max<int64_t>(1, n.grain / n.time) : 1;
    const Scratch<T> sums(pieces * size);
    parallel_ranges(pool, pieces, share, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t sequence = piece / n.tasks, group = sequence / n.sequences, from = piece % n.tasks * n.grain;
        const int64_t row = sequence * n.time + from, to = std::min(from + n.grain, n.time);
        const int64_t length = std::clamp<int64_t>(lengths.typed_data<int32_t>()[sequence], from, to);
        T* const found = sums + piece * size;
        run({states_of<T>(n, group, centres, offsets, inverse), weights.typed_data<T>() + row * n.states,
             values.typed_data<T>() + row * n.columns, length - from, found, found + n.states,
             found + n.states + table});
      }
    });
    const auto join = [&](int64_t sequence, int64_t at, int64_t count, T* out) {
      std::fill(out, out + count, T(0));
      for (int64_t task = 0; task < n.tasks; ++task)
        for (int64_t i = 0; i < count; ++i) out[i] += sums[(sequence * n.tasks + task) * size + at + i];
    };
    for (int64_t sequence = 0; sequence < n.all; ++sequence) {
      join(sequence, 0, n.states, weight->template typed_data<T>() + sequence * n.states);
      join(sequence, n.states, table, first->template typed_data<T>() + sequence * table);
      join(sequence, n.states + table, table, second->template typed_data<T>() + sequence * table);
    }
    return ffi::Error::Success();
  });
}

HS_HANDLER(densities)
HS_HANDLER(moments)

const Registered registered[] = {{"normal_densities", densities_handler}, {"normal_moments", moments_handler}};

}  // namespace
}  // namespace hs
