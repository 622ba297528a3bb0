#include "kernels/lstm.h"

#include "handlers/binding.h"
#include "handlers/blocks.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(LSTMTable, lstm)

namespace {

bool fits(const Buffer& weight, const Buffer& peephole, const Sizes& n) {
  return size_of(weight) == n.groups * 4 * n.units * n.units &&
         (size_of(peephole) == 0 || size_of(peephole) == n.groups * 3 * n.units);
}

ffi::Error forward(ffi::ThreadPool pool, Buffer weight, Buffer input_weight, Buffer bias, Buffer peephole,
                   Buffer start_c, Buffer start_h, Buffer elements, Buffer inputs, Buffer lengths, Out c, Out h,
                   Out final_c, Out final_h, Out gates, int64_t sigmoid_input) {
  const Sizes n = sizes_of(weight, lengths, *h);
  HS_REQUIRE(fits(weight, peephole, n) && fits_outside(input_weight, bias, elements, inputs, n, 4 * n.units));
  HS_REQUIRE(size_of(start_c) == n.ends() && size_of(start_h) == n.ends());
  HS_REQUIRE((size_of(*c) == 0 || size_of(*c) == n.states()) && size_of(*h) == n.states());
  HS_REQUIRE(size_of(*final_c) == n.ends() && size_of(*final_h) == n.ends());
  HS_REQUIRE(size_of(*gates) == 0 || size_of(*gates) == 4 * n.states());
  return with_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = lstm_table().of(zero);
    const Blocks blocks(lengths.typed_data<int32_t>(), n, threads_for(pool, 4 * n.states() * n.units));
    const Packed<T> packed(pool, kernels.forward_packing, weight.typed_data<T>(), n.groups, 4 * n.units * n.units,
                           n.units);
    const Reading<T> reading(pool, kernels.input_packing, input_weight, &bias, n.groups, 4 * n.units);
    parallel(pool, blocks.count(), [&](int64_t block) {
      const int64_t g = blocks.group(block), all = n.groups;
      kernels.forward({blocks.rows(block), n.units, sigmoid_input != 0, packed.of(g), at_group<T>(peephole, g, all),
                       at_group<T>(start_c, g, all), at_group<T>(start_h, g, all), reading.of(g, elements, inputs),
                       at_group<T>(c, g, all), at_group<T>(h, g, all), at_group<T>(final_c, g, all),
                       at_group<T>(final_h, g, all), at_group<T>(gates, g, all)});
    });
    return ffi::Error::Success();
  });
}

ffi::Error backward(ffi::ThreadPool pool, Buffer weight, Buffer input_weight, Buffer peephole, Buffer lengths, Buffer gates, Buffer c,
                    Buffer final_c, Buffer d_c, Buffer d_h, Buffer d_final_c, Buffer d_final_h, Out d_start_c,
                    Out d_start_h, Out d_elements, Out d_inputs, int64_t sigmoid_input) {
  const Sizes n = sizes_of(weight, lengths, gates);
  HS_REQUIRE(fits(weight, peephole, n) && size_of(gates) == 4 * n.states() && size_of(c) == n.states());
  HS_REQUIRE(size_of(final_c) == n.ends() && size_of(d_final_c) == n.ends() && size_of(d_final_h) == n.ends());
  HS_REQUIRE((size_of(d_c) == 0 || size_of(d_c) == n.states()) && size_of(d_h) == n.states());
  HS_REQUIRE(size_of(*d_start_c) == n.ends() && size_of(*d_start_h) == n.ends());
  HS_REQUIRE(size_of(*d_elements) == size_of(gates) && fits_back(input_weight, *d_inputs, n, 4 * n.units));
  return with_type(gates, [&](auto zero) {
    using T = decltype(zero);
    const auto& kernels = lstm_table().of(zero);
    const Blocks blocks(lengths.typed_data<int32_t>(), n, threads_for(pool, 4 * n.states() * n.units));
    const Packed<T> packed(pool, kernels.backward_packing, weight.typed_data<T>(), n.groups, 4 * n.units * n.units,
                           n.units);
    const Reading<T> reading(pool, kernels.input_back_packing, input_weight, nullptr, n.groups, 4 * n.units);
    parallel(pool, blocks.count(), [&](int64_t block) {
      const int64_t g = blocks.group(block), all = n.groups;
      kernels.backward({blocks.rows(block), n.units, sigmoid_input != 0, packed.of(g), at_group<T>(peephole, g, all),
                        at_group<T>(gates, g, all), at_group<T>(c, g, all), at_group<T>(final_c, g, all),
                        at_group<T>(d_c, g, all), at_group<T>(d_h, g, all), at_group<T>(d_final_c, g, all),
                        at_group<T>(d_final_h, g, all), at_group<T>(d_start_c, g, all),
                        at_group<T>(d_start_h, g, all), at_group<T>(d_elements, g, all),
                        reading.back(g, d_inputs)});
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward, "sigmoid_input")
HS_HANDLER(backward, "sigmoid_input")

const Registered registered[] = {{"lstm_forward", forward_handler}, {"lstm_backward", backward_handler}};

}  // namespace
}  // namespace hs
