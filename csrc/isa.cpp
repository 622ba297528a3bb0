#include "isa.h"

#include <atomic>

namespace hs {
namespace {

int found() {
#if HS_ISA_COUNT == 3
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}

const char* const names[] = {"baseline", "avx2", "avx512"};

std::atomic<int>& chosen() {
  static std::atomic<int> number{found()};
  return number;
}

}  // namespace

std::vector<std::string> runnable() { return {names, names + found() + 1}; }

int isa() { return chosen().load(std::memory_order_relaxed); }

bool use(const std::string& name) {
  for (int i = 0; i <= found(); ++i)
    if (name == names[i]) {
      chosen().store(i);
      return true;
    }
  return false;
}

}  // namespace hs
