#include "kernels/resampling.h"

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(ResamplingTable, resampling)

namespace {

ffi::Error strata(ffi::ThreadPool pool, Buffer shares, Buffer positions, Out ancestors) {
  const int64_t particles = size_of(shares, -1), clouds = size_of(shares, 0, -1);
  HS_REQUIRE(particles > 0 && size_of(positions) == size_of(shares) && size_of(*ancestors) == size_of(shares));
  HS_REQUIRE(ancestors->element_type() == ffi::S32);
  return with_type(shares, [&](auto zero) {
    using T = decltype(zero);
    const auto run = resampling_table().strata(zero);
    parallel(pool, clouds, [&](int64_t i) {
      run({particles, shares.typed_data<T>() + i * particles, positions.typed_data<T>() + i * particles,
           ancestors->typed_data<int32_t>() + i * particles});
    });
    return ffi::Error::Success();
  });
}

ffi::Error tickets(ffi::ThreadPool pool, Buffer given, Buffer drawn, Out ancestors) {
  const int64_t particles = size_of(given, -1), draws = size_of(drawn, -1), clouds = size_of(given, 0, -1);
  HS_REQUIRE(particles > 0 && size_of(drawn) == clouds * draws && size_of(*ancestors) == size_of(drawn));
  HS_REQUIRE(given.element_type() == ffi::U32 && drawn.element_type() == ffi::U32);
  HS_REQUIRE(ancestors->element_type() == ffi::S32);
  parallel(pool, clouds, [&](int64_t i) {
    resampling_table().tickets({particles, draws, given.typed_data<uint32_t>() + i * particles,
                                drawn.typed_data<uint32_t>() + i * draws,
                                ancestors->typed_data<int32_t>() + i * draws});
  });
  return ffi::Error::Success();
}

HS_HANDLER(strata)
HS_HANDLER(tickets)

const Registered registered[] = {{"resampling_strata", strata_handler}, {"resampling_tickets", tickets_handler}};

}  // namespace
}  // namespace hs
