#include "kernels/gru.h"

#include "handlers/binding.h"
#include "handlers/blocks.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(GRUTable, gru)

namespace {

// Weights of r, z and n, packed together, or, where the reset comes before the product, those of n by themselves.
template <class T>
struct Weights {
  Weights(ffi::ThreadPool& pool, const Packing<T>& gates, const Packing<T>& candidate, const Buffer& weight,
          const Sizes& n, bool before)
      : gates(pool, gates, weight.typed_data<T>(), n.groups, 3 * n.units * n.units, n.units),
        candidate(pool, candidate, weight.typed_data<T>() + 2 * n.units * n.units, before ? n.groups : 0,
                  3 * n.units * n.units, n.units) {}
  Packed<T> gates, candidate;
};

ffi::Error forward(ffi::ThreadPool pool, Buffer weight, Buffer input_weight, Buffer bias, Buffer candidate_bias,
                   Buffer start, Buffer elements, Buffer inputs, Buffer lengths, Out states, Out final, Out gates,
                   Out recurrent, int64_t before) {
  const Sizes n = sizes_of(weight, lengths, *states);
  HS_REQUIRE(size_of(weight) == n.groups * 3 * n.units * n.units);
  HS_REQUIRE(fits_outside(input_weight, bias, elements, inputs, n, 3 * n.units));
  HS_REQUIRE(size_of(candidate_bias) == 0 || size_of(candidate_bias) == n.groups * n.units);
  HS_REQUIRE(size_of(start) == n.ends() && size_of(*states) == n.states() && size_of(*final) == n.ends());
  HS_REQUIRE(size_of(*gates) == 0 || size_of(*gates) == 3 * n.states());
  HS_REQUIRE(size_of(*recurrent) == (before || size_of(*gates) == 0 ? 0 : n.states()));
  return with_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = gru_table().of(zero);
    const Blocks blocks(lengths.typed_data<int32_t>(), n, threads_for(pool, 3 * n.states() * n.units));
    const Weights<T> packed(pool, before ? kernels.gates : kernels.after, kernels.candidate, weight, n, before);
    const Reading<T> reading(pool, kernels.input_packing, input_weight, &bias, n.groups, 3 * n.units);
    const auto run = before ? kernels.forward_before : kernels.forward_after;
    parallel(pool, blocks.count(), [&](int64_t block) {
      const int64_t g = blocks.group(block), all = n.groups;
      run({blocks.rows(block), n.units, packed.gates.of(g), packed.candidate.of(g), at_group<T>(candidate_bias, g, all),
           at_group<T>(start, g, all), reading.of(g, elements, inputs), at_group<T>(states, g, all),
           at_group<T>(final, g, all), at_group<T>(gates, g, all), at_group<T>(recurrent, g, all)});
    });
    return ffi::Error::Success();
  });
}

ffi::Error backward(ffi::ThreadPool pool, Buffer weight, Buffer input_weight, Buffer lengths, Buffer gates,
                    Buffer recurrent, Buffer states, Buffer d_states, Buffer d_final, Out d_start, Out d_elements,
                    Out d_recurrent, Out d_inputs, int64_t before) {
  const Sizes n = sizes_of(weight, lengths, gates);
  HS_REQUIRE(size_of(weight) == n.groups * 3 * n.units * n.units && size_of(gates) == 3 * n.states());
  HS_REQUIRE(size_of(recurrent) == (before ? 0 : n.states()) && size_of(*d_recurrent) == size_of(recurrent));
  HS_REQUIRE(size_of(states) == n.states() && size_of(d_states) == n.states() && size_of(d_final) == n.ends());
  HS_REQUIRE(size_of(*d_start) == n.ends() && size_of(*d_elements) == size_of(gates));
  HS_REQUIRE(fits_back(input_weight, *d_inputs, n, 3 * n.units));
  return with_type(gates, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = gru_table().of(zero);
    const Blocks blocks(lengths.typed_data<int32_t>(), n, threads_for(pool, 3 * n.states() * n.units));
    const Weights<T> packed(pool, before ? kernels.gates_back : kernels.after_back, kernels.candidate_back, weight, n,
                            before);
    const Reading<T> reading(pool, kernels.input_back_packing, input_weight, nullptr, n.groups, 3 * n.units);
    const auto run = before ? kernels.backward_before : kernels.backward_after;
    parallel(pool, blocks.count(), [&](int64_t block) {
      const int64_t g = blocks.group(block), all = n.groups;
      run({blocks.rows(block), n.units, packed.gates.of(g), packed.candidate.of(g), at_group<T>(gates, g, all),
           at_group<T>(recurrent, g, all), at_group<T>(states, g, all), at_group<T>(d_states, g, all),
           at_group<T>(d_final, g, all), at_group<T>(d_start, g, all), at_group<T>(d_elements, g, all),
           at_group<T>(d_recurrent, g, all), reading.back(g, d_inputs)});
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward, "before")
HS_HANDLER(backward, "before")

const Registered registered[] = {{"gru_forward", forward_handler}, {"gru_backward", backward_handler}};

}  // namespace
}  // namespace hs
