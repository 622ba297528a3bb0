// Resampling of particles. Sums are formed in the order in which a parallel scan forms them, pair by pair, so that every
// number is that of the same computation in XLA.
#include "kernels/resampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {
namespace {

// What was cumulated so far, as a whole number and a fraction.
template <class T>
struct Cumulated {
  std::vector<int32_t> whole;
  std::vector<T> fraction;
};

template <class T>
HS_INLINE void add(int32_t w1, T f1, int32_t w2, T f2, int32_t& whole, T& fraction) {
  const T sum = f1 + f2, over = std::floor(sum);
  whole = w1 + w2 + int32_t(over);
  fraction = sum - over;
}

// All sums up to each of `count` numbers: neighbours are added, the half as many are cumulated in the same way, and
// every other sum lacks one number.
template <class T>
void cumulate(int32_t* whole, T* fraction, int64_t count, int32_t* more_whole, T* more_fraction) {
  if (count < 2) return;
  const int64_t half = count / 2;
  for (int64_t i = 0; i < half; ++i)
    add<T>(whole[2 * i], fraction[2 * i], whole[2 * i + 1], fraction[2 * i + 1], more_whole[i], more_fraction[i]);
  cumulate<T>(more_whole, more_fraction, half, more_whole + half, more_fraction + half);
  for (int64_t i = 1; 2 * i < count; ++i)
    add<T>(more_whole[i - 1], more_fraction[i - 1], whole[2 * i], fraction[2 * i], whole[2 * i], fraction[2 * i]);
  for (int64_t i = 0; i < half; ++i) whole[2 * i + 1] = more_whole[i], fraction[2 * i + 1] = more_fraction[i];
}

// The rest of a division by one, never negative.
template <class T>
HS_INLINE T fraction_of(T x) {
  const T rest = std::fmod(x, T(1));
  return rest < 0 ? rest + T(1) : rest;
}

template <class T>
void strata(const Strata<T>& in) {
  const int64_t count = in.particles;
  std::vector<int32_t> whole(size_t(2 * count));
  std::vector<T> fraction(size_t(2 * count));
  int64_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    whole[i] = int32_t(std::floor(in.shares[i]));
    fraction[i] = fraction_of<T>(in.shares[i]);
    if (in.shares[i] > 0) last = i;
  }
  cumulate<T>(whole.data(), fraction.data(), count, whole.data() + count, fraction.data() + count);
  const T excess = T(whole[count - 1] - int32_t(count)) + fraction[count - 1];
  int64_t reached = 0;  // how many descendants the particles so far have together
  for (int64_t i = 0; i < count; ++i) {
    int64_t below = count;
    if (i < last) {
      const T share = (T(whole[i]) + fraction[i]) / T(count);
      const T part = excess * share, left = fraction[i] - part, floored = std::floor(left);
      const int64_t number = whole[i] + int64_t(floored);
      const T rest = fraction_of<T>(left);
      const int64_t inside = std::min<int64_t>(std::max<int64_t>(number, 0), count - 1);
      below = std::min<int64_t>(std::max<int64_t>(number, 0), count) + (number < count && in.positions[inside] < rest);
      if (!(in.shares[i] > 0)) below = 0;
    }
    for (; reached < below && reached < count; ++reached) in.ancestors[reached] = int32_t(i);
  }
  for (; reached < count; ++reached) in.ancestors[reached] = int32_t(count - 1);
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
