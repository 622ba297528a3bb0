#include "kernels/particle.h"

#include <algorithm>

#include "handlers/binding.h"
#include "isa.h"
#include "registry.h"

namespace hs {

HS_DECLARE_TABLES(ParticleTable, particle)

namespace {

// The arrays of both kinds of particles; all that are not a model's have leading axes (group, sequence).
struct Given {
  Buffer key, weights, ancestors, seen, lengths;
  Out evidence, sizes, resampled, last_weights, last_ancestors, last_key, kept_weights, kept_ancestors, kept_keys;
  int64_t choosing, keeping;
  double enough;

  int64_t groups() const { return size_of(key, 0, 1); }
  int64_t all() const { return size_of(lengths); }
  int64_t particles() const { return size_of(weights, -1); }
  int64_t time() { return size_of(*evidence, -1); }

  ffi::Error check() {
    const int64_t kept = keeping ? all() * time() : 0, cloud = all() * particles();
    HS_REQUIRE(size_of(key) == 2 * groups() && key.element_type() == ffi::U32);
    HS_REQUIRE(groups() > 0 && all() % groups() == 0 && particles() > 0);
    HS_REQUIRE(size_of(weights) == cloud && size_of(ancestors) == cloud && lengths.element_type() == ffi::S32);
    HS_REQUIRE(ancestors.element_type() == ffi::S32 && seen.element_type() == ffi::PRED);
    HS_REQUIRE(size_of(seen) == 0 || size_of(seen) == all() * time());
    HS_REQUIRE(size_of(*sizes) == all() * time() && size_of(*resampled) == all() * time());
    HS_REQUIRE(size_of(*last_weights) == cloud && size_of(*last_ancestors) == cloud && size_of(*last_key) == 2 * all());
    HS_REQUIRE(size_of(*kept_weights) == kept * particles() && size_of(*kept_ancestors) == kept * particles());
    HS_REQUIRE(size_of(*kept_keys) == 2 * kept && choosing >= 0 && choosing <= 1 && keeping >= 0 && keeping <= 2);
    return ffi::Error::Success();
  }

  // Those of one group.
  template <class T>
  Clouds<T> clouds(int64_t group) {
    const int64_t at = group * (all() / groups()), steps = at * time(), row = at * particles();
    const int64_t kept = keeping ? steps : 0;
    return {particles(),
            time(),
            Choosing(choosing),
            Keeping(keeping),
            T(enough),
            key.typed_data<uint32_t>() + 2 * group,
            lengths.typed_data<int32_t>() + at,
            size_of(seen) ? seen.typed_data<bool>() + steps : nullptr,
            weights.typed_data<T>() + row,
            ancestors.typed_data<int32_t>() + row,
            evidence->typed_data<T>() + steps,
            sizes->typed_data<T>() + steps,
            resampled->typed_data<bool>() + steps,
            last_weights->typed_data<T>() + row,
            last_ancestors->typed_data<int32_t>() + row,
            last_key->typed_data<uint32_t>() + 2 * at,
            kept_weights->typed_data<T>() + kept * particles(),
            kept_ancestors->typed_data<int32_t>() + kept * particles(),
            kept_keys->typed_data<uint32_t>() + 2 * kept};
  }

  // run(group, begin, end) over blocks of a group's sequences, which share what is drawn: as few blocks as keep all
  // threads busy. What a sequence gives does not depend on its block.
  template <class F>
  void over_blocks(ffi::ThreadPool& pool, F&& run) {
    const int64_t sequences = all() / groups(), threads = threads_of(pool);
    const int64_t grain = std::max<int64_t>(1, std::min<int64_t>(MOST, (sequences * groups() + threads - 1) / threads));
    const int64_t blocks = (sequences + grain - 1) / grain;
    parallel(pool, groups() * blocks, [&](int64_t task) {
      const int64_t begin = task % blocks * grain;
      run(task / blocks, begin, std::min(begin + grain, sequences));
    });
  }

  static constexpr int64_t MOST = 16;  // sequences, whose particles stay in the cache
};

ffi::Error linear(ffi::ThreadPool pool, Buffer key, Buffer transition, Buffer root, Buffer emission, Buffer constant,
                  Buffer first, Buffer weights, Buffer ancestors, Buffer xs, Buffer shift, Buffer seen, Buffer lengths,
                  Out evidence, Out sizes, Out resampled, Out last, Out last_weights, Out last_ancestors, Out last_key,
                  Out kept, Out kept_weights, Out kept_ancestors, Out kept_keys, int64_t choosing, int64_t keeping,
                  double enough, bool drawn_in_double) {
  Given given{key,       weights,  ancestors,    seen,           lengths,  evidence,     sizes,          resampled, last_weights,
              last_ancestors, last_key, kept_weights, kept_ancestors, kept_keys, choosing, keeping, enough};
  if (ffi::Error wrong = given.check(); wrong.failure()) return wrong;
  const int64_t groups = given.groups(), all = given.all(), particles = given.particles(), time = given.time();
  const int64_t size = size_of(transition, -1), noises = size_of(root, -1), event = size_of(xs, -1);
  const int64_t shifts = size_of(shift, -2, -1), sequences = all / groups;
  HS_REQUIRE(size_of(transition) == groups * size * size && size_of(root) == groups * size * noises);
  HS_REQUIRE(size_of(emission) == groups * event * size && size_of(constant) == groups);
  HS_REQUIRE(size_of(first) == all * particles * size && size_of(*last) == size_of(first));
  HS_REQUIRE(size_of(xs) == all * time * event && size_of(shift) == all * shifts * size);
  HS_REQUIRE((shifts == 1 || shifts == time) && size_of(*kept) == (keeping ? all * time * particles * size : 0));
  return with_type(weights, [&](auto zero) {
    using T = decltype(zero);
    const auto run = particle_table().runs(zero, drawn_in_double).linear;
    given.over_blocks(pool, [&](int64_t group, int64_t begin, int64_t end) {
      const int64_t at = group * sequences, row = at * particles * size;
      const LinearMoves<T> moves{size, noises, event, transition.typed_data<T>() + group * size * size,
                                 root.typed_data<T>() + group * size * noises,
                                 emission.typed_data<T>() + group * event * size, constant.typed_data<T>() + group,
                                 shifts, first.typed_data<T>() + row, xs.typed_data<T>() + at * time * event,
                                 shift.typed_data<T>() + at * shifts * size, last->typed_data<T>() + row,
                                 kept->typed_data<T>() + (keeping ? row * time : 0)};
      run(given.clouds<T>(group), moves, begin, end);
    });
    return ffi::Error::Success();
  });
}

ffi::Error symbols(ffi::ThreadPool pool, Buffer key, Buffer table, Buffer first, Buffer weights, Buffer ancestors,
                   Buffer likelihoods, Buffer seen, Buffer lengths, Out evidence, Out sizes, Out resampled, Out last,
                   Out last_weights, Out last_ancestors, Out last_key, Out kept, Out kept_weights, Out kept_ancestors,
                   Out kept_keys, int64_t choosing, int64_t keeping, double enough, bool drawn_in_double) {
  Given given{key,       weights,  ancestors,    seen,           lengths,  evidence,     sizes,          resampled, last_weights,
              last_ancestors, last_key, kept_weights, kept_ancestors, kept_keys, choosing, keeping, enough};
  if (ffi::Error wrong = given.check(); wrong.failure()) return wrong;
  const int64_t groups = given.groups(), all = given.all(), particles = given.particles(), time = given.time();
  const int64_t states = size_of(likelihoods, -1), sequences = all / groups;
  const int64_t words = states * (states + 1) * (drawn_in_double ? 2 : 1);  // of the table, which comes as its bits
  HS_REQUIRE(table.element_type() == ffi::U32 && size_of(table) == groups * words);
  HS_REQUIRE(size_of(first) == all * particles && first.element_type() == ffi::S32);
  HS_REQUIRE(size_of(likelihoods) == all * time * states && size_of(*last) == size_of(first));
  HS_REQUIRE(size_of(*kept) == (keeping ? all * time * particles : 0));
  return with_type(weights, [&](auto zero) {
    using T = decltype(zero);
    const auto run = particle_table().runs(zero, drawn_in_double).symbols;
    given.over_blocks(pool, [&](int64_t group, int64_t begin, int64_t end) {
      const int64_t at = group * sequences, row = at * particles;
      const SymbolMoves<T> moves{states, table.typed_data<uint32_t>() + group * words,
                                 first.typed_data<int32_t>() + row, likelihoods.typed_data<T>() + at * time * states,
                                 last->typed_data<int32_t>() + row,
                                 kept->typed_data<int32_t>() + (keeping ? row * time : 0)};
      run(given.clouds<T>(group), moves, begin, end);
    });
    return ffi::Error::Success();
  });
}

HS_HANDLER(linear, "choosing", "keeping", "enough", "drawn_in_double")
HS_HANDLER(symbols, "choosing", "keeping", "enough", "drawn_in_double")

const Registered registered[] = {{"particle_linear", linear_handler}, {"particle_symbols", symbols_handler}};

}  // namespace
}  // namespace hs
