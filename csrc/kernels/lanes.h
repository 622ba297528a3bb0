// Sequences of few states side by side: lane i holds numbers of sequence i, whose rows lie in arrays
// [sequence, time, number] and come into lanes by tiles of as many numbers as lanes.
//
// Every sequence goes through the operations of `rows.h`, in their order, so that its numbers are the same bit for bit
// whether it goes in a lane or alone.
#pragma once
#include <algorithm>
#include <utility>

#include "kernels/rows.h"
#include "kernels/tiles.h"

namespace hs {
namespace HS_ISA {

// How many sequences go side by side for so many states; one where they do not, since states fill the vectors as well.
template <class T>
constexpr int64_t lanes_for(int64_t states) {
  return Lanes<T>::count >= 8 && states <= 8 ? Lanes<T>::count : 1;
}

// Whether sequences of such lengths are worth a vector, in which all lanes go as far as the longest: where they have
// two thirds of its steps.
template <class T>
inline bool alike(const int32_t* lengths, int64_t count) {
  int64_t longest = 0, all = 0;
  for (int64_t i = 0; i < count; ++i) longest = std::max<int64_t>(longest, lengths[i]), all += lengths[i];
  return longest > 0 && 3 * all >= 2 * longest * Lanes<T>::count;
}

// For the sequences from `begin` on, up to `end`: side(begin, end, states) for those that go side by side, with their
// number of states as a constant, and rows(begin, end) for the others.
template <class T, class Side, class Rows>
HS_INLINE void side_by_side(const int32_t* lengths, int64_t states, int64_t begin, int64_t end, Side&& side, Rows&& rows) {
  if constexpr (Lanes<T>::count >= 8) {
    for (int64_t next; lanes_for<T>(states) > 1 && begin < end; begin = next) {
      next = std::min(begin + lanes_for<T>(states), end);
      if (!alike<T>(lengths + begin, next - begin))
        rows(begin, next);
      else if (states == 1)
        side(begin, next, std::integral_constant<int, 1>());
      else if (states == 2)
        side(begin, next, std::integral_constant<int, 2>());
      else if (states == 3)
        side(begin, next, std::integral_constant<int, 3>());
      else if (states == 4)
        side(begin, next, std::integral_constant<int, 4>());
      else if (states == 5)
        side(begin, next, std::integral_constant<int, 5>());
      else if (states == 6)
        side(begin, next, std::integral_constant<int, 6>());
      else if (states == 7)
        side(begin, next, std::integral_constant<int, 7>());
      else
        side(begin, next, std::integral_constant<int, 8>());
    }
  }
  if (begin < end) rows(begin, end);
}

// -- tiles ---------------------------------------------------------------------------------------------------------------

// The sequences of one vector. Where there are fewer than lanes, the other lanes do what the first does, for nothing.
template <class T>
struct Abreast {
  static constexpr int lanes = Lanes<T>::count;
  int64_t begin, count, time, longest = 0, shortest;
  int64_t lengths[lanes] = {};

  Abreast(const int32_t* given, int64_t begin, int64_t end, int64_t time) : begin(begin), count(end - begin), time(time) {
    for (int64_t i = 0; i < count; ++i) longest = std::max(longest, lengths[i] = given[begin + i]);
    shortest = *std::min_element(lengths, lengths + count);
  }

  int64_t sequence(int64_t lane) const { return begin + (lane < count ? lane : 0); }

  // Rows of `size` numbers from step t on: to[k] gets number k of each. `to` has room for whole tiles.
  void read(const T* array, int64_t size, int64_t t, int64_t steps, T* to) const {
    const T* from[lanes];
    for (int i = 0; i < lanes; ++i) from[i] = array + (sequence(i) * time + t) * size;
    for (int64_t k = 0; k < steps * size; k += lanes) {
      Vec<T> tile[lanes];
      const int64_t left = steps * size - k;
      if (__builtin_expect(left >= lanes, 1)) {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) tile[i] = load<T>(from[i] + k);
      } else {
        T rows[lanes][lanes] = {};
        for (int i = 0; i < lanes; ++i) std::memcpy(rows[i], from[i] + k, size_t(left) * sizeof(T));
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) tile[i] = load<T>(rows[i]);
      }
      transpose<T>(tile);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store<T>(to + (k + i) * lanes, tile[i]);
    }
  }

  // The way back, of each sequence as far as it goes: numbers, or bits of whole ones, which may become narrower.
  template <class To>
  void write(To* array, int64_t size, int64_t t, int64_t steps, const T* from) const {
    To* to[lanes];
    for (int i = 0; i < lanes; ++i) to[i] = array + (sequence(i) * time + t) * size;
    const bool whole = count == lanes && shortest >= t + steps;
    for (int64_t k = 0; k < steps * size; k += lanes) {
      Vec<T> tile[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) tile[i] = load<T>(from + (k + i) * lanes);
      transpose<T>(tile);
      if (__builtin_expect(whole && steps * size - k >= lanes, 1)) {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) put_row(to[i] + k, tile[i]);
      } else {
        To rows[lanes][lanes];
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) put_row(rows[i], tile[i]);
        for (int i = 0; i < count; ++i) {
          const int64_t left = std::min(steps, lengths[i] - t) * size - k;
          if (left >= lanes)
            std::memcpy(to[i] + k, rows[i], sizeof rows[i]);
          else if (left > 0)
            std::memcpy(to[i] + k, rows[i], size_t(left) * sizeof(To));
        }
      }
    }
  }

 private:
  template <class To>
  HS_INLINE static void put_row(To* to, Vec<T> row) {
    if constexpr (sizeof(To) == sizeof(T)) {
      std::memcpy(to, &row, sizeof row);
    } else {
      typedef To Narrow __attribute__((vector_size(lanes * sizeof(To))));
      const Narrow narrow = __builtin_convertvector((Ints<T>)row, Narrow);
      std::memcpy(to, &narrow, sizeof narrow);
    }
  }
};

// -- the operations of rows ----------------------------------------------------------------------------------------------

// The product, rounded: no later sum makes one operation of both, as none can where a row's numbers lie in lanes.
template <class T>
HS_INLINE Vec<T> rounded(Vec<T> product) {
#if defined(__x86_64__)
  asm("" : "+v"(product));
#else
  asm("" : "+m"(product));
#endif
  return product;
}

constexpr int width_in_lanes(int states) { return states <= 4 ? 4 : 8; }

// What `sum_of` and `max_of` give of a row.
template <class T, int K, class F>
HS_INLINE Vec<T> tree(const Vec<T>* row, T padding, F&& join) {
  constexpr int W = width_in_lanes(K);
  Vec<T> part[W];
  for (int j = 0; j < W; ++j) part[j] = j < K ? row[j] : all<T>(padding);
#pragma GCC unroll 4
  for (int half = W / 2; half > 0; half /= 2)
#pragma GCC unroll 4
    for (int j = 0; j < half; ++j) part[j] = join(part[j], part[j + half]);
  return part[0];
}

template <class T, int K>
HS_INLINE Vec<T> sums_of(const Vec<T>* row) {
  return tree<T, K>(row, T(0), [](Vec<T> a, Vec<T> b) { return a + b; });
}

template <class T, int K>
HS_INLINE Vec<T> tops_of(const Vec<T>* row) {
  return tree<T, K>(row, -T(INFINITY), [](Vec<T> a, Vec<T> b) { return maximum<T>(a, b); });
}

// What `HeldMatrix::product` gives, of the same matrix.
template <class T, int K>
HS_INLINE void product_in_lanes(const Vec<T>* x, const T* matrix, Vec<T>* out) {
  constexpr int W = width_in_lanes(K), N = chains_in<W>, B = length_of_chains<W>(K);
#pragma GCC unroll 8
  for (int j = 0; j < K; ++j) {
    Vec<T> sums[N] = {};
#pragma GCC unroll 4
    for (int k = 0; k < B; ++k)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n)
        if (n * B + k < K) sums[n] += x[n * B + k] * matrix[(n * B + k) * W + j];
    out[j] = sums[0] + sums[1];
  }
}

// Whether any lane is not above a limit; a NaN is not.
template <class T>
HS_INLINE bool any_not_above(Vec<T> x, T limit) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(limit), _CMP_NGT_UQ);
  if constexpr (sizeof(T) == 8) return _mm512_cmp_pd_mask((__m512d)x, _mm512_set1_pd(limit), _CMP_NGT_UQ);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(limit), _CMP_NGT_UQ));
  if constexpr (sizeof(T) == 8)
    return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)x, _mm256_set1_pd(limit), _CMP_NGT_UQ));
#else
  bool found = false;
  for (int i = 0; i < Lanes<T>::count; ++i) found |= !(x[i] > limit);
  return found;
#endif
}

}  // namespace HS_ISA
}  // namespace hs
