// Rows of numbers, one for each stream or each row of a matrix, and their products with matrices. All lengths are padded to
// whole vectors.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/streaming.h"
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

constexpr double LOG_2_PI = 1.8378770664093454836;

template <class T>
void copy(T* to, const T* from, int64_t count) {
  if (count > 0) std::memcpy(to, from, size_t(count) * sizeof(T));
}

// result[i] = function(i) for all i below a padded count, a vector at a time.
template <class T, class Function>
HS_INLINE void each(int64_t count, T* result, Function function) {
  for (int64_t i = 0; i < count; i += Lanes<T>::count) store<T>(result + i, function(i));
}

// Rows of numbers, one for each stream, so far apart.
template <class T>
struct Rows {
  T* data;
  int64_t apart;
  HS_INLINE T* operator[](int64_t row) const { return data + row * apart; }
};

template <class T, int rows, int wide>
HS_INLINE void add_tile(Rows<const T> in, int64_t size, const T* weight, int64_t apart, Rows<T> out) {
  constexpr int lanes = Lanes<T>::count;
  Vec<T> sum[rows][wide];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < wide; ++v) sum[r][v] = load<T>(out[r] + v * lanes);
  for (int64_t k = 0; k < size; ++k)
    for (int v = 0; v < wide; ++v) {
      const Vec<T> w = load<T>(weight + k * apart + v * lanes);
      for (int r = 0; r < rows; ++r) sum[r][v] += in[r][k] * w;
    }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < wide; ++v) store<T>(out[r] + v * lanes, sum[r][v]);
}

template <class T, int rows, int wide>
void add_columns(Rows<const T> in, int64_t size, const T* weight, int64_t apart, int64_t columns, Rows<T> out) {
  constexpr int64_t width = wide * Lanes<T>::count;
  int64_t column = 0;
  for (; column + width <= columns; column += width)
    add_tile<T, rows, wide>(in, size, weight + column, apart, {out.data + column, out.apart});
  if constexpr (wide > 1)
    if (column < columns)
      add_columns<T, rows, wide / 2>(in, size, weight + column, apart, columns - column, {out.data + column, out.apart});
}

// out += in W for all rows, W (size, columns) with rows `apart`: one sum from the first term to the last, in any tile.
template <class T>
void add_product(int64_t rows, Rows<const T> in, int64_t size, const T* weight, int64_t apart, int64_t columns,
                 Rows<T> out) {
  if (rows == ROWS) return add_columns<T, ROWS, HS_VECTOR_BYTES == 64 ? 4 : 2>(in, size, weight, apart, columns, out);
  for (int64_t r = 0; r < rows; ++r)
    add_columns<T, 1, 8>({in[r], 0}, size, weight, apart, columns, {out[r], 0});
}

}  // namespace HS_ISA
}  // namespace hs
