// Work split over XLA's own threads.
#pragma once
#include <cstdint>
#include <functional>

#include "xla/ffi/api/ffi.h"

namespace hs {

// At most so many threads from now on; 0 for as many as XLA has.
void limit_threads(int64_t most);

// How many threads a kernel called with this pool may use.
int64_t threads_of(const xla::ffi::ThreadPool& pool);

// task(i) for all i below `tasks`, in any order. What a task computes must not depend on which thread runs it, so that
// results are the same with any number of them. The caller works too, and waits only for tasks that have begun.
void parallel(xla::ffi::ThreadPool& pool, int64_t tasks, const std::function<void(int64_t)>& task);

// How many of so many items one task takes: no more than `most`, such as the lanes of a vector, and fewer where threads
// would stay idle. Which items run together must change nothing in what is computed.
inline int64_t share(const xla::ffi::ThreadPool& pool, int64_t items, int64_t most) {
  const int64_t threads = threads_of(pool), each = (items + threads - 1) / threads;
  return each < 1 ? 1 : each < most ? each : most;
}

// The same for ranges [begin, end) of at most `grain` items each.
inline void parallel_ranges(xla::ffi::ThreadPool& pool, int64_t items, int64_t grain,
                            const std::function<void(int64_t, int64_t)>& task) {
  grain = grain < 1 ? 1 : grain;
  parallel(pool, (items + grain - 1) / grain, [&](int64_t i) {
    const int64_t begin = i * grain;
    task(begin, begin + grain < items ? begin + grain : items);
  });
}

}  // namespace hs
