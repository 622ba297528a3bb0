// Memory that a kernel works in, aligned to the lines of the cache; not set to anything. Everything is inlined, so that
// files for different instruction sets share no copy of it.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>

#define HS_INLINED __attribute__((always_inline))

namespace hs {

template <class T>
class Scratch {
 public:
  HS_INLINED explicit Scratch(int64_t numbers) {
    const size_t bytes = (size_t(numbers) * sizeof(T) + 63) / 64 * 64;
    data_ = static_cast<T*>(std::aligned_alloc(64, bytes ? bytes : 64));
    if (!data_) throw std::bad_alloc();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  HS_INLINED ~Scratch() { std::free(data_); }
  HS_INLINED operator T*() const { return data_; }

 private:
  T* data_;
};

}  // namespace hs
