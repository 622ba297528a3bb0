#include "kernels/affine.h"

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(AffineTable, affine)

namespace {

constexpr int64_t BLOCK = 32;  // units that one task takes: whole vectors on every instruction set

int64_t blocks_of(int64_t units) { return (units + BLOCK - 1) / BLOCK; }

ffi::Error forward(ffi::ThreadPool pool, Buffer start, Buffer a, Buffer b, Buffer lengths, Out states, Out final,
                   int64_t form) {
  const int64_t sequences = size_of(lengths), units = size_of(start, -1), time = size_of(a, -2, -1);
  HS_REQUIRE(size_of(start) == sequences * units && size_of(a) == sequences * time * units);
  HS_REQUIRE(size_of(b) == size_of(a) && size_of(*states) == size_of(a) && size_of(*final) == size_of(start));
  return with_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto run = affine_table().forward(zero);
    const int64_t blocks = blocks_of(units);
    const int32_t* length = lengths.typed_data<int32_t>();
    parallel(pool, sequences * blocks, [&](int64_t task) {
      const int64_t i = task / blocks, begin = task % blocks * BLOCK, rows = i * time * units;
      const AffineForward<T> in{time, units, length[i], a.typed_data<T>() + rows, b.typed_data<T>() + rows,
                                start.typed_data<T>() + i * units, states->typed_data<T>() + rows,
                                final->typed_data<T>() + i * units};
      run(Form(form), in, begin, begin + BLOCK < units ? begin + BLOCK : units);
    });
    return ffi::Error::Success();
  });
}

ffi::Error backward(ffi::ThreadPool pool, Buffer a, Buffer b, Buffer lengths, Buffer states, Buffer d_states,
                    Buffer d_final, Out d_start, Out d_a, Out d_b, int64_t form) {
  const int64_t sequences = size_of(lengths), units = size_of(d_final, -1), time = size_of(a, -2, -1);
  HS_REQUIRE(size_of(d_final) == sequences * units && size_of(a) == sequences * time * units);
  HS_REQUIRE(size_of(b) == size_of(a) && size_of(states) == size_of(a) && size_of(d_states) == size_of(a));
  HS_REQUIRE(size_of(*d_a) == size_of(a) && size_of(*d_b) == size_of(a) && size_of(*d_start) == size_of(d_final));
  return with_type(a, [&](auto zero) {
    using T = decltype(zero);
    const auto run = affine_table().backward(zero);
    const int64_t blocks = blocks_of(units);
    const int32_t* length = lengths.typed_data<int32_t>();
    parallel(pool, sequences * blocks, [&](int64_t task) {
      const int64_t i = task / blocks, begin = task % blocks * BLOCK, rows = i * time * units;
      const AffineBackward<T> in{time, units, length[i], a.typed_data<T>() + rows, b.typed_data<T>() + rows,
                                 states.typed_data<T>() + rows, d_states.typed_data<T>() + rows,
                                 d_final.typed_data<T>() + i * units, d_a->typed_data<T>() + rows,
                                 d_b->typed_data<T>() + rows, d_start->typed_data<T>() + i * units};
      run(Form(form), in, begin, begin + BLOCK < units ? begin + BLOCK : units);
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(forward, "form")
HS_HANDLER(backward, "form")

const Registered registered[] = {{"affine_forward", forward_handler}, {"affine_backward", backward_handler}};

}  // namespace
}  // namespace hs
