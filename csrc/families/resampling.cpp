// Resampling of particles.
#include "kernels/resampling.h"

#include <algorithm>
#include <vector>

#include "kernels/strata.h"

namespace hs {
namespace HS_ISA {
namespace {

template <class T>
void strata(const Strata<T>& in) {
  StrataChoice<T> choice(in.particles);
  hs::Scratch<int32_t> ancestors(in.particles + OVERHANG);
  choice.choose(in.shares, [&](int64_t i) { return in.positions[i]; }, ancestors);
  std::copy(ancestors + 0, ancestors + in.particles, in.ancestors);
}

// The particle whose tickets hold each number. A table of where to begin, by the number's leading bits, leaves a step
// or two to go.
void tickets(const Tickets& in) {
  const int64_t count = in.particles;
  std::vector<uint32_t> sums(static_cast<size_t>(count));
  uint32_t total = 0;
  for (int64_t i = 0; i < count; ++i) sums[i] = total += in.tickets[i];
  int bits = 0;
  while ((int64_t(1) << bits) < count) ++bits;
  int shift = 32 - bits;
  while (shift > 0 && (total >> (shift - 1)) < (uint32_t(1) << bits)) --shift;
  const size_t buckets = size_t(uint64_t(total) >> shift) + 1;
  std::vector<int32_t> begin(buckets);
  int64_t at = 0;
  for (size_t b = 0; b < buckets; ++b) {
    while (at < count && sums[at] <= (uint64_t(b) << shift)) ++at;
    begin[b] = int32_t(at);
  }
  for (int64_t d = 0; d < in.draws; ++d) {
    const uint32_t number = in.drawn[d];
    int64_t found = begin[std::min(size_t(uint64_t(number) >> shift), buckets - 1)];
    while (found < count && sums[found] <= number) ++found;
    in.ancestors[d] = int32_t(std::min(found, count - 1));
  }
}

}  // namespace

extern const ResamplingTable resampling_table;
const ResamplingTable resampling_table = {strata<float>, strata<double>, tickets};

}  // namespace HS_ISA
}  // namespace hs
