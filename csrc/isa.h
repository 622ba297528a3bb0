// Which instruction set runs: the best that this machine has, or the one that was asked for.
#pragma once
#include <string>
#include <vector>

namespace hs {

// The names of those that were built and that this machine can run, in rising order.
std::vector<std::string> runnable();

// The number of the one in use: 0 baseline, 1 AVX2, 2 AVX-512.
int isa();

// Use the one of this name from now on; false where there is none.
bool use(const std::string& name);

}  // namespace hs

// Declares the tables of a family, one for each instruction set, and `NAME_table()`, the one in use.
#if HS_ISA_COUNT == 3
#define HS_DECLARE_TABLES(Table, name)                              \
  namespace baseline { extern const Table name##_table; }           \
  namespace avx2 { extern const Table name##_table; }               \
  namespace avx512 { extern const Table name##_table; }             \
  inline const Table& name##_table() {                              \
    static const Table* const all[] = {&baseline::name##_table, &avx2::name##_table, &avx512::name##_table}; \
    return *all[isa()];                                             \
  }
#else
#define HS_DECLARE_TABLES(Table, name)                              \
  namespace baseline { extern const Table name##_table; }           \
  inline const Table& name##_table() { return baseline::name##_table; }
#endif
