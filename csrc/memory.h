// Memory that was given back and is soon asked for again.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#ifdef __GLIBC__
#include <malloc.h>
#if __GLIBC_PREREQ(2, 33)
#define HS_COUNTS_MEMORY  // mallinfo2
#endif
#endif

namespace hs {

// The C library gives results of some size back to the system after every call, which then clears as many pages for the
// next: that can take longer than to compute them. A process that keeps what was freed has no such work.
class KeptMemory {
 public:
  // Up to so many megabytes. Nothing happens where another C library is.
  void keep(int megabytes) {
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, std::min(megabytes, INT_MAX >> 20) << 20);
#ifdef HS_COUNTS_MEMORY
    mallopt(M_MMAP_MAX, 0);  // none is mapped by itself, to be given back as soon as it is freed
    most_ = int64_t(megabytes) << 20;
#else
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes: larger ones are mapped and given back as ever
#endif
#else
    (void)megabytes;
#endif
  }

  // Free memory that lies between other memory is not given back by itself: here it is, where more has come than is to
  // be kept. Asked after every kernel, it looks at most once a second.
  void give_back_surplus() {
#ifdef HS_COUNTS_MEMORY
    if (most_ < 0) return;
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    int64_t before = looked_.load(std::memory_order_relaxed);
    constexpr int64_t second = std::chrono::steady_clock::period::den / std::chrono::steady_clock::period::num;
    if (now - before < second || !looked_.compare_exchange_strong(before, now)) return;
    const int64_t free = int64_t(mallinfo2().fordblks);
    // What was given back still counts as free, but takes no memory until it is used again.
    const int64_t empty = std::min(empty_.load(), free);
    empty_ = empty;
    if (free - empty <= most_) return;
    malloc_trim(0);
    empty_ = int64_t(mallinfo2().fordblks);
#endif
  }

 private:
  std::atomic<int64_t> looked_{0}, empty_{0};
  int64_t most_ = -1;
};

inline KeptMemory kept_memory;

}  // namespace hs
