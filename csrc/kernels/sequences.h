// Up to a vector of sequences side by side: lane i holds numbers of sequence i. Unused lanes hold zeros.
#pragma once
#include <vector>

#include "kernels/tiles.h"

namespace hs {
namespace HS_ISA {

// `stride` apart lie the same numbers of neighbouring sequences. Whole tiles of them are turned in registers.
template <class T>
HS_INLINE void gather(Vec<T>* to, const T* from, int64_t count, int64_t stride, int sequences) {
  constexpr int lanes = Lanes<T>::count;
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    Vec<T> tile[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) tile[i] = i < sequences ? load<T>(from + i * stride + k) : Vec<T>{};
    transpose<T>(tile);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) to[k + i] = tile[i];
  }
  T numbers[lanes] = {};
  for (; k < count; ++k) {
    for (int i = 0; i < sequences; ++i) numbers[i] = from[i * stride + k];
    to[k] = load<T>(numbers);
  }
}

template <class T>
HS_INLINE void scatter(T* to, const Vec<T>* from, int64_t count, int64_t stride, int sequences) {
  constexpr int lanes = Lanes<T>::count;
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    Vec<T> tile[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) tile[i] = from[k + i];
    transpose<T>(tile);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      if (i < sequences) store<T>(to + i * stride + k, tile[i]);
  }
  T numbers[lanes];
  for (; k < count; ++k) {
    store<T>(numbers, from[k]);
    for (int i = 0; i < sequences; ++i) to[i * stride + k] = numbers[i];
  }
}

template <class T>
HS_INLINE Vec<T> gather_one(const T* from, int64_t stride, int sequences) {
  Vec<T> found;
  gather<T>(&found, from, 1, stride, sequences);
  return found;
}

// True in the lanes of sequences that are longer than t.
template <class T>
HS_INLINE Ints<T> longer(Ints<T> lengths, int64_t t) {
  return lengths > typename Lanes<T>::integer(t);
}

template <class T>
HS_INLINE Ints<T> lengths_of(const int32_t* length, int sequences, int64_t& longest) {
  Ints<T> found = {};
  longest = 0;
  for (int i = 0; i < sequences; ++i) {
    found[i] = length[i];
    longest = length[i] > longest ? length[i] : longest;
  }
  return found;
}

// Vectors for intermediate numbers, aligned as they need.
template <class T>
class Scratch {
 public:
  explicit Scratch(size_t count) : memory_(count * sizeof(Vec<T>) + alignof(Vec<T>)) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    next_ = reinterpret_cast<Vec<T>*>((at + alignof(Vec<T>) - 1) / alignof(Vec<T>) * alignof(Vec<T>));
  }
  Vec<T>* take(size_t count) {
    Vec<T>* const found = next_;
    next_ += count;
    return found;
  }
  T* take_numbers(size_t count) {  // a multiple of the lanes, or the last that is taken
    return reinterpret_cast<T*>(take((count + Lanes<T>::count - 1) / Lanes<T>::count));
  }

 private:
  std::vector<char> memory_;
  Vec<T>* next_;
};

}  // namespace HS_ISA
}  // namespace hs
