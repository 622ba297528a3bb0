// What the handlers of hidden Markov models share.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

namespace hs {

// Sequences that one task takes, so that a task is worth its start. Those that go side by side in `lanes` stay together,
// unless half of the threads would have nothing to do; what is computed is the same.
inline int64_t sequences_together(int64_t time, int64_t states, int64_t all, int64_t lanes, int64_t threads) {
  const int64_t least = 2 * all >= lanes * threads ? std::max<int64_t>(4, lanes) : 4;
  const int64_t worth = std::min<int64_t>(256, 16384 / std::max<int64_t>(1, time * states));
  return std::max(least, worth / least * least);
}

// The matrices of all groups, each in the form that kernels take, on addresses that vectors like.
template <class T>
class Matrices {
 public:
  template <class Prepare>
  Matrices(const T* given, int64_t groups, int64_t states, int64_t size, Prepare prepare)
      : size_((size + 15) / 16 * 16), memory_(new (std::align_val_t(64)) T[size_t(groups * size_)]) {
    for (int64_t g = 0; g < groups; ++g) prepare(given + g * states * states, states, memory_.get() + g * size_);
  }
  const T* of(int64_t group) const { return memory_.get() + group * size_; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  int64_t size_;
  std::unique_ptr<T[], Free> memory_;
};

}  // namespace hs
