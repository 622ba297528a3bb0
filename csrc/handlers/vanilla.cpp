#include "kernels/vanilla.h"

#include "handlers/binding.h"
#include "handlers/blocks.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(VanillaTable, vanilla)

namespace {

bool fits(const Buffer& weight, const Buffer& alpha, const Sizes& n) {
  return size_of(weight) == n.groups * n.units * n.units &&
         (size_of(alpha) == 0 || size_of(alpha) == n.groups * n.units);
}

ffi::Error forward(ffi::ThreadPool pool, Buffer weight, Buffer input_weight, Buffer bias, Buffer alpha, Buffer start,
                   Buffer elements, Buffer inputs, Buffer lengths, Out states, Out final, Out drive,
                   int64_t nonlinearity) {
  const Sizes n = sizes_of(weight, lengths, *states);
  HS_REQUIRE(fits(weight, alpha, n) && size_of(start) == n.ends());
  HS_REQUIRE(fits_outside(input_weight, bias, elements, inputs, n, n.units));
  HS_REQUIRE(size_of(*states) == n.states() && size_of(*final) == n.ends());
  HS_REQUIRE(size_of(*drive) == 0 || size_of(*drive) == n.states());
  return with_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = vanilla_table().of(zero);
    const Blocks blocks(lengths.typed_data<int32_t>(), n, threads_for(pool, n.states() * n.units));
    const Reading<T> reading(pool, kernels.input_packing, input_weight, &bias, n.groups, n.units);
    const Packed<T> packed(pool, kernels.forward_packing, weight.typed_data<T>(), n.groups, n.units * n.units, n.units);
    parallel(pool, blocks.count(), [&](int64_t block) {
      const int64_t g = blocks.group(block), all = n.groups;
      kernels.forward(Nonlinearity(nonlinearity),
                      {blocks.rows(block), n.units, packed.of(g), at_group<T>(alpha, g, all),
                       at_group<T>(start, g, all), reading.of(g, elements, inputs), at_group<T>(states, g, all),
                       at_group<T>(final, g, all), at_group<T>(drive, g, all)});
    });
    return ffi::Error::Success();
  });
}

ffi::Error backward(ffi::ThreadPool pool, Buffer weight, Buffer input_weight, Buffer alpha, Buffer lengths, Buffer drive,
                    Buffer states, Buffer final, Buffer d_states, Buffer d_final, Out d_start, Out d_elements,
                    Out d_alpha, Out d_inputs, int64_t nonlinearity) {
  const Sizes n = sizes_of(weight, lengths, states);
  HS_REQUIRE(fits(weight, alpha, n) && size_of(drive) == (size_of(alpha) == 0 ? 0 : n.states()));
  HS_REQUIRE(size_of(states) == n.states() && size_of(d_states) == n.states() && size_of(*d_elements) == n.states());
  HS_REQUIRE(size_of(final) == n.ends() && size_of(d_final) == n.ends() && size_of(*d_start) == n.ends());
  HS_REQUIRE(size_of(*d_alpha) == (size_of(alpha) == 0 ? 0 : n.ends()));
  HS_REQUIRE(fits_back(input_weight, *d_inputs, n, n.units));
  return with_type(states, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = vanilla_table().of(zero);
    const Blocks blocks(lengths.typed_data<int32_t>(), n, threads_for(pool, n.states() * n.units));
    const Reading<T> reading(pool, kernels.input_back_packing, input_weight, nullptr, n.groups, n.units);
    const Packed<T> packed(pool, kernels.backward_packing, weight.typed_data<T>(), n.groups, n.units * n.units,
                           n.units);
    parallel(pool, blocks.count(), [&](int64_t block) {
      const int64_t g = blocks.group(block), all = n.groups;
      kernels.backward(Nonlinearity(nonlinearity),
                       {blocks.rows(block), n.units, packed.of(g), at_group<T>(alpha, g, all),
                        at_group<T>(drive, g, all), at_group<T>(states, g, all), at_group<T>(final, g, all),
                        at_group<T>(d_states, g, all), at_group<T>(d_final, g, all), at_group<T>(d_start, g, all),
                        at_group<T>(d_elements, g, all), at_group<T>(d_alpha, g, all), reading.back(g, d_inputs)});
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward, "nonlinearity")
HS_HANDLER(backward, "nonlinearity")

const Registered registered[] = {{"vanilla_forward", forward_handler}, {"vanilla_backward", backward_handler}};

}  // namespace
}  // namespace hs
