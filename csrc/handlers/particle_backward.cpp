#include "kernels/particle_backward.h"

#include <algorithm>

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(ParticleBackTable, particle_backward)

namespace {

// The arrays of both kinds of particles, with leading axes (group, sequence).
struct Given {
  Buffer seen, lengths, evidence, sizes, resampled, weights, ancestors, keys, last_ancestors;
  Buffer d_evidence, d_sizes, d_last_weights, d_weights;
  Out d_first_weights;

  int64_t all() const { return size_of(lengths); }
  int64_t particles() const { return size_of(weights, -1); }
  int64_t time() const { return size_of(evidence, -1); }

  ffi::Error check() {
    const int64_t steps = all() * time(), cloud = all() * particles(), clouds = steps * particles();
    HS_REQUIRE(all() > 0 && particles() > 0 && lengths.element_type() == ffi::S32);
    HS_REQUIRE(seen.element_type() == ffi::PRED && (size_of(seen) == 0 || size_of(seen) == steps));
    HS_REQUIRE(resampled.element_type() == ffi::PRED && size_of(resampled) == steps && size_of(sizes) == steps);
    HS_REQUIRE(size_of(evidence) == steps && size_of(d_evidence) == steps && size_of(d_sizes) == steps);
    HS_REQUIRE(size_of(weights) == clouds && size_of(ancestors) == clouds && ancestors.element_type() == ffi::S32);
    HS_REQUIRE(size_of(keys) == 2 * steps && keys.element_type() == ffi::U32);
    HS_REQUIRE(size_of(last_ancestors) == cloud && last_ancestors.element_type() == ffi::S32);
    HS_REQUIRE(size_of(d_last_weights) == cloud && size_of(*d_first_weights) == cloud);
    HS_REQUIRE(size_of(d_weights) == 0 || size_of(d_weights) == clouds);
    return ffi::Error::Success();
  }

  template <class T>
  CloudsBack<T> clouds() {
    return {particles(),
            time(),
            lengths.typed_data<int32_t>(),
            size_of(seen) ? seen.typed_data<bool>() : nullptr,
            evidence.typed_data<T>(),
            sizes.typed_data<T>(),
            resampled.typed_data<bool>(),
            weights.typed_data<T>(),
            ancestors.typed_data<int32_t>(),
            keys.typed_data<uint32_t>(),
            last_ancestors.typed_data<int32_t>(),
            d_evidence.typed_data<T>(),
            d_sizes.typed_data<T>(),
            d_last_weights.typed_data<T>(),
            size_of(d_weights) ? d_weights.typed_data<T>() : nullptr,
            d_first_weights->typed_data<T>()};
  }

  // run(group, begin, end) over blocks of sequences of a group, of which those with one key share what is drawn.
  template <class F>
  void over_blocks(ffi::ThreadPool& pool, int64_t groups, F&& run) {
    const int64_t sequences = all() / groups, threads = threads_of(pool);
    const int64_t grain = std::max<int64_t>(1, std::min<int64_t>(MOST, (all() + threads - 1) / threads));
    const int64_t blocks = (sequences + grain - 1) / grain;
    parallel(pool, groups * blocks, [&](int64_t task) {
      const int64_t first = task / blocks * sequences, begin = task % blocks * grain;
      run(task / blocks, first + begin, first + std::min(begin + grain, sequences));
    });
  }

  static constexpr int64_t MOST = 16;  // sequences, whose adjoints stay in the cache
};

ffi::Error linear(ffi::ThreadPool pool, Buffer transition, Buffer emission, Buffer xs, Buffer kept, Buffer seen,
                  Buffer lengths, Buffer evidence, Buffer sizes, Buffer resampled, Buffer weights, Buffer ancestors,
                  Buffer keys, Buffer last_ancestors, Buffer d_evidence, Buffer d_sizes, Buffer d_last, Buffer d_last_weights,
                  Buffer d_kept, Buffer d_weights, Out d_transition, Out d_root, Out d_emission, Out d_constant, Out d_first,
                  Out d_first_weights, Out d_xs, Out d_shift, bool drawn_in_double) {
  Given given{seen,     lengths,        evidence,   sizes,   resampled,      weights,   ancestors,
              keys,     last_ancestors, d_evidence, d_sizes, d_last_weights, d_weights, d_first_weights};
  if (ffi::Error wrong = given.check(); wrong.failure()) return wrong;
  const int64_t all = given.all(), particles = given.particles(), time = given.time();
  const int64_t size = size_of(transition, -1), event = size_of(xs, -1), noises = size_of(*d_root, -1);
  const int64_t groups = size_of(transition) / (size * size);
  HS_REQUIRE(groups > 0 && all % groups == 0 && size_of(emission) == groups * event * size);
  HS_REQUIRE(size_of(xs) == all * time * event && size_of(kept) == all * time * particles * size);
  HS_REQUIRE(size_of(d_last) == all * particles * size && (size_of(d_kept) == 0 || size_of(d_kept) == size_of(kept)));
  HS_REQUIRE(size_of(*d_transition) == all * size * size && size_of(*d_root) == all * size * noises);
  HS_REQUIRE(size_of(*d_emission) == all * event * size && size_of(*d_constant) == all);
  HS_REQUIRE(size_of(*d_first) == size_of(d_last) && size_of(*d_xs) == size_of(xs));
  HS_REQUIRE(size_of(*d_shift) == all * time * size);
  return with_type(weights, [&](auto zero) {
    using T = decltype(zero);
    const auto run = particle_backward_table().runs(zero, drawn_in_double).linear;
    given.over_blocks(pool, groups, [&](int64_t group, int64_t begin, int64_t end) {
      const LinearBack<T> moves{size, noises, event, transition.typed_data<T>() + group * size * size,
                                emission.typed_data<T>() + group * event * size, xs.typed_data<T>(), kept.typed_data<T>(),
                                d_last.typed_data<T>(), size_of(d_kept) ? d_kept.typed_data<T>() : nullptr,
                                d_transition->typed_data<T>(), d_root->typed_data<T>(), d_emission->typed_data<T>(),
                                d_constant->typed_data<T>(), d_first->typed_data<T>(), d_xs->typed_data<T>(),
                                d_shift->typed_data<T>()};
      run(given.clouds<T>(), moves, begin, end);
    });
    return ffi::Error::Success();
  });
}

ffi::Error symbols(ffi::ThreadPool pool, Buffer kept, Buffer last, Buffer seen, Buffer lengths, Buffer evidence, Buffer sizes,
                   Buffer resampled, Buffer weights, Buffer ancestors, Buffer keys, Buffer last_ancestors,
                   Buffer d_evidence, Buffer d_sizes, Buffer d_last_weights, Buffer d_weights, Out d_log_probs,
                   Out d_first_weights, Out d_log_likelihoods) {
  Given given{seen,     lengths,        evidence,   sizes,   resampled,      weights,   ancestors,
              keys,     last_ancestors, d_evidence, d_sizes, d_last_weights, d_weights, d_first_weights};
  if (ffi::Error wrong = given.check(); wrong.failure()) return wrong;
  const int64_t all = given.all(), states = size_of(*d_log_likelihoods, -1);
  HS_REQUIRE(size_of(kept) == size_of(weights) && kept.element_type() == ffi::S32);
  HS_REQUIRE(size_of(last) == all * given.particles() && last.element_type() == ffi::S32);
  HS_REQUIRE(size_of(*d_log_probs) == all * states * states);
  HS_REQUIRE(size_of(*d_log_likelihoods) == all * given.time() * states);
  return with_type(weights, [&](auto zero) {
    using T = decltype(zero);
    const auto run = particle_backward_table().runs(zero, false).symbols;
    given.over_blocks(pool, 1, [&](int64_t, int64_t begin, int64_t end) {
      const SymbolBack<T> moves{states, kept.typed_data<int32_t>(), last.typed_data<int32_t>(),
                                d_log_probs->typed_data<T>(), d_log_likelihoods->typed_data<T>()};
      run(given.clouds<T>(), moves, begin, end);
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(linear, "drawn_in_double")
HS_HANDLER(symbols)

const Registered registered[] = {{"particle_linear_slopes", linear_handler}, {"particle_symbols_slopes", symbols_handler}};

}  // namespace
}  // namespace hs
