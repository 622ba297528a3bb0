// Rows of numbers, one for each state, in buffers whose rows are padded to whole vectors; and products with a matrix.
//
// Every element is computed by the same operations in the same order whichever rows are worked on together, so that a
// sequence's numbers do not depend on its neighbours.
#pragma once
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

#include "kernels/logarithm.h"
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

// Vectors of a width of one's own: few states need no more.
template <class T, int W>
struct Wide {
  typedef T vector __attribute__((vector_size(W * sizeof(T))));
  typedef typename Lanes<T>::integer integers __attribute__((vector_size(W * sizeof(T))));
};
template <class T, int W>
using Row = typename Wide<T, W>::vector;

template <class T, int W>
HS_INLINE Row<T, W> row_of(T x) {
  return x - Row<T, W>{};
}

template <class T, int W>
HS_INLINE Row<T, W> get(const T* p) {
  Row<T, W> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T, int W>
HS_INLINE void put(T* p, Row<T, W> v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T, int W>
HS_INLINE void halves(Row<T, W> v, Row<T, W / 2>& low, Row<T, W / 2>& high) {
#ifdef HS_SHUFFLES
  if constexpr (W == 16) {
    low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
    high = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  } else if constexpr (W == 8) {
    low = __builtin_shufflevector(v, v, 0, 1, 2, 3);
    high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  } else {
    low = __builtin_shufflevector(v, v, 0, 1);
    high = __builtin_shufflevector(v, v, 2, 3);
  }
#else
  std::memcpy(&low, &v, sizeof low);
  std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
#endif
}

// The sum of all lanes, as a tree: few operations wait for each other.
template <class T, int W>
HS_INLINE T sum_of(Row<T, W> v) {
  if constexpr (W == 2) {
    return v[0] + v[1];
  } else {
    Row<T, W / 2> low, high;
    halves<T, W>(v, low, high);
    return sum_of<T, W / 2>(low + high);
  }
}

template <class T, int W>
HS_INLINE T max_of(Row<T, W> v) {
  if constexpr (W == 2) {
    return v[0] > v[1] ? v[0] : v[1];
  } else {
    Row<T, W / 2> low, high;
    halves<T, W>(v, low, high);
    return max_of<T, W / 2>(low > high ? low : high);
  }
}

// 0, 1, 2, ... in the lanes.
template <class T, int W>
HS_INLINE typename Wide<T, W>::integers places() {
  typename Wide<T, W>::integers at;
  for (int i = 0; i < W; ++i) at[i] = typename Lanes<T>::integer(i);
  return at;
}

// The lanes below `count` of a vector, `other` in the rest.
template <class T, int W>
HS_INLINE Row<T, W> first_lanes(Row<T, W> v, int64_t count, T other) {
  const auto limit = typename Lanes<T>::integer(count) - typename Wide<T, W>::integers{};
  return places<T, W>() < limit ? v : row_of<T, W>(other);
}

// The width of the vectors that hold `states` numbers: one vector where it can be, never fewer than four numbers.
template <class T>
inline int width_of(int64_t states) {
  const int most = Lanes<T>::count > 4 ? Lanes<T>::count : 4;
  int width = 4;
  while (width < most && width < states) width *= 2;
  return width;
}

// The length of a padded row.
template <class T>
inline int64_t pitch_of(int64_t states) {
  const int64_t width = width_of<T>(states);
  return (states + width - 1) / width * width;
}

// Calls body(std::integral_constant<int, W>) with the width for so many states.
template <class T, class F>
HS_INLINE void with_width(int64_t states, F&& body) {
  const int width = width_of<T>(states);
  if (width == 4) return body(std::integral_constant<int, 4>());
  if constexpr (Lanes<T>::count >= 8)
    if (width == 8) return body(std::integral_constant<int, 8>());
  if constexpr (Lanes<T>::count >= 16)
    if (width == 16) return body(std::integral_constant<int, 16>());
}

// Memory whose address is a multiple of a cache line.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t size)
      : memory_(static_cast<T*>(std::aligned_alloc(64, (size_t(size) * sizeof(T) + 127) / 64 * 64)), std::free) {
    if (!memory_) throw std::bad_alloc();
  }
  T* get() const { return memory_.get(); }

 private:
  std::unique_ptr<T, void (*)(void*)> memory_;
};

// One vector of an array row, of which `left` numbers may be read; `other` beyond the row's own `count`.
template <class T, int W>
HS_INLINE Row<T, W> read(const T* p, int64_t count, int64_t left, T other) {
  if (__builtin_expect(left >= W, 1)) {
    const Row<T, W> v = get<T, W>(p);
    return count >= W ? v : first_lanes<T, W>(v, count, other);
  }
  Row<T, W> v = row_of<T, W>(other);
  if (count > 0) std::memcpy(&v, p, size_t(count) * sizeof(T));
  return v;
}

// Copies padded rows times a factor each to an array. Rows are written in order, each over what the one before wrote too
// much; the last is cut where it ends.
template <class T, int W>
inline void write_rows(T* out, const T* rows, const T* factors, int64_t steps, int64_t states, int64_t pitch) {
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t j = 0; j < states; j += W) {
      const int64_t left = (steps - t) * states - j;
      Row<T, W> v = get<T, W>(rows + t * pitch + j);
      if (factors) v *= factors[t];
      if (__builtin_expect(left >= W, 1))
        put<T, W>(out + t * states + j, v);
      else
        std::memcpy(out + t * states + j, &v, size_t(left < states - j ? left : states - j) * sizeof(T));
    }
}

// The matrix in padded rows, zeros (or `other`) in the padding, which also has rows; or its transpose.
template <class T>
inline void pad_matrix(const T* matrix, int64_t states, bool transposed, T other, T* out) {
  const int64_t pitch = pitch_of<T>(states);
  for (int64_t i = 0; i < pitch; ++i)
    for (int64_t j = 0; j < pitch; ++j)
      out[i * pitch + j] = i >= states || j >= states ? other : transposed ? matrix[j * states + i] : matrix[i * states + j];
}

// How many chains of sums a product is split into: a chain waits for itself, and where there are few columns only other
// chains can fill the time. A matter of the number of states alone.
inline int chains_of(int64_t states) { return states <= 8 ? 2 : states <= 64 ? 4 : 1; }

// R rows times J vectors of columns of the matrix: sums over i in N chains of neighbouring i.
template <class T, int W, int R, int J, int N>
HS_INLINE void product_tile(const T* const* x, const T* matrix, int64_t states, int64_t pitch, Row<T, W> (&out)[R][J]) {
  const int64_t block = (states + N - 1) / N;
  Row<T, W> sums[N][R][J] = {};
  for (int64_t k = 0; k < block; ++k)
    for (int n = 0; n < N; ++n) {
      const int64_t i = n * block + k;
      Row<T, W> columns[J];
      for (int j = 0; j < J; ++j) columns[j] = get<T, W>(matrix + i * pitch + j * W);
      for (int r = 0; r < R; ++r)
        for (int j = 0; j < J; ++j) sums[n][r][j] += x[r][i] * columns[j];
    }
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) {
      if constexpr (N == 1) out[r][j] = sums[0][r][j];
      if constexpr (N == 2) out[r][j] = sums[0][r][j] + sums[1][r][j];
      if constexpr (N == 4) out[r][j] = (sums[0][r][j] + sums[1][r][j]) + (sums[2][r][j] + sums[3][r][j]);
    }
}

// The matrix of states that fit into one vector, held in registers: N chains of B rows.
template <class T, int W, int N, int B>
struct HeldMatrix {
  Row<T, W> rows[N * B];

  explicit HeldMatrix(const T* matrix) {
    for (int i = 0; i < N * B; ++i) rows[i] = get<T, W>(matrix + i * W);
  }

  // A row times the matrix, in the order of `product_tile`.
  HS_INLINE Row<T, W> product(const T* x) const {
    Row<T, W> sums[N] = {};
#pragma GCC unroll 4
    for (int k = 0; k < B; ++k)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sums[n] += x[n * B + k] * rows[n * B + k];
    if constexpr (N == 2) return sums[0] + sums[1];
    if constexpr (N == 4) return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

// The chains of products of states that fit into one vector of width W, and their length.
template <int W>
constexpr int chains_in = W == 16 ? 4 : 2;
template <int W>
constexpr int length_of_chains(int64_t states) {
  constexpr int fewer = W == 4 ? 1 : 3;
  return states <= chains_in<W> * fewer ? fewer : W / chains_in<W>;
}

// Calls body with constants for both.
template <int W, class F>
HS_INLINE void with_chains(int64_t states, F&& body) {
  constexpr std::integral_constant<int, chains_in<W>> chains;
  constexpr int fewer = length_of_chains<W>(1), most = length_of_chains<W>(W);
  if (length_of_chains<W>(states) == fewer) return body(chains, std::integral_constant<int, fewer>());
  body(chains, std::integral_constant<int, most>());
}

template <class T, int W, int R, int J, int N>
HS_INLINE int64_t product_columns(const T* const* x, const T* matrix, int64_t states, int64_t pitch, T* const* out,
                                  int64_t j) {
  for (; j + J * W <= pitch; j += J * W) {
    Row<T, W> tile[R][J];
    product_tile<T, W, R, J, N>(x, matrix + j, states, pitch, tile);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < J; ++v) put<T, W>(out[r] + j + v * W, tile[r][v]);
  }
  return j;
}

constexpr bool MANY_REGISTERS = HS_VECTOR_BYTES == 64;

template <class T, int W, int R>
inline void product_rows(const T* const* x, const T* matrix, int64_t states, int64_t pitch, T* const* out) {
  int64_t j = 0;
  if (chains_of(states) == 4) {
    j = product_columns<T, W, R, MANY_REGISTERS || R == 1 ? 2 : 1, 4>(x, matrix, states, pitch, out, j);
    product_columns<T, W, R, 1, 4>(x, matrix, states, pitch, out, j);
  } else if (chains_of(states) == 2) {
    product_columns<T, W, R, 1, 2>(x, matrix, states, pitch, out, j);
  } else {
    if constexpr (R == 1) j = product_columns<T, W, R, 8, 1>(x, matrix, states, pitch, out, j);
    j = product_columns<T, W, R, MANY_REGISTERS ? 4 : R == 4 ? 2 : 4, 1>(x, matrix, states, pitch, out, j);
    product_columns<T, W, R, 1, 1>(x, matrix, states, pitch, out, j);
  }
}

// out[r] = x[r] times the matrix, for `rows` padded rows.
template <class T, int W>
inline void product(int64_t rows, const T* const* x, const T* matrix, int64_t states, int64_t pitch, T* const* out) {
  int64_t r = 0;
  if (chains_of(states) == 1)
    for (; r + 4 <= rows; r += 4) product_rows<T, W, 4>(x + r, matrix, states, pitch, out + r);
  for (; r + 2 <= rows; r += 2) product_rows<T, W, 2>(x + r, matrix, states, pitch, out + r);
  for (; r < rows; ++r) product_rows<T, W, 1>(x + r, matrix, states, pitch, out + r);
}

// e^x to within 2 units in the last place within the normal numbers; zero below them, the largest beyond.
template <class T>
HS_INLINE Vec<T> exp_normal(Vec<T> x) {
  constexpr bool single = std::is_same<T, float>::value;
  constexpr T least = single ? T(-87.3365447) : T(-708.396418532264), most = single ? T(88.72) : T(709.78);
  const Reduced<T> part = reduce_exponent<T>(minimum<T>(maximum<T>(x, all<T>(least)), all<T>(most)));
  const Vec<T> y = (Vec<T>)((Ints<T>)(part.p + T(1)) + (part.n << Lanes<T>::mantissa));
  return x < least ? all<T>(T(0)) : y;
}

// The first `count` lanes, most often all.
template <class T>
HS_INLINE void store_up_to(T* p, Vec<T> v, int count) {
  if (__builtin_expect(count == Lanes<T>::count, 1))
    store<T>(p, v);
  else
    store_some<T>(p, v, count);
}

}  // namespace HS_ISA
}  // namespace hs
