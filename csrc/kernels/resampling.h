// Ancestors of particles from their weights and from random numbers that are given, in time proportional to the number
// of particles.
#pragma once
#include <cstdint>

namespace hs {

// Stratum i holds one position, i + position[i], on the axis of the cumulated shares (particles times weight).
template <class T>
struct Strata {
  int64_t particles;
  const T *shares, *positions;
  int32_t* ancestors;
};

// Particle i has tickets[i] of all tickets, which add up to less than 2^32; `drawn` are numbers of tickets.
struct Tickets {
  int64_t particles, draws;
  const uint32_t *tickets, *drawn;
  int32_t* ancestors;
};

struct ResamplingTable {
  void (*strata32)(const Strata<float>&);
  void (*strata64)(const Strata<double>&);
  void (*tickets)(const Tickets&);

  auto strata(float) const { return strata32; }
  auto strata(double) const { return strata64; }
};

}  // namespace hs
