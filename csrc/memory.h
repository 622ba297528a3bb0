// Memory that was given back and is soon asked for again.
#pragma once
#include <algorithm>
#include <climits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hs {

// Lets the process keep up to so many megabytes of memory that was freed. By default the C library gives results of some
// size back to the system after every call, which then clears as many pages for the next: that can take longer than to
// compute them. Nothing happens where another C library is.
inline void keep_memory(int megabytes) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes: larger ones are mapped and given back as ever
  mallopt(M_TRIM_THRESHOLD, std::min(megabytes, INT_MAX >> 20) << 20);
#else
  (void)megabytes;
#endif
}

}  // namespace hs
