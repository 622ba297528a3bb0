// Square roots of covariances, made triangular by reflections: nothing is squared, so no digits are lost.
//
// All that a Kalman filter and its smoother do to a covariance is one operation, `absorb`: of the square root [L | B]
// with a lower triangular L, reflections of the columns bring all of B into L. Row i meets only its own diagonal entry
// and B, since L is triangular already. Rows that stand below L are turned along with it.
#pragma once
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

// The logarithm of positive numbers, to within 2 units in the last place; minus infinity of zero, NaN below it.
template <class T>
HS_INLINE Vec<T> logarithm(Vec<T> x) {
  using L = Lanes<T>;
  using I = typename L::integer;
  constexpr int terms = std::is_same<T, float>::value ? 6 : 12;
  const T least = std::is_same<T, float>::value ? T(1.17549435e-38f) : T(2.2250738585072014e-308);
  const T large = T(int64_t(1) << (L::mantissa + 1));
  const Vec<T> normal = x < least ? x * large : x;
  const Ints<T> bits = (Ints<T>)normal;
  Ints<T> exponent = (bits >> L::mantissa) - L::bias;
  Vec<T> f = (Vec<T>)((bits & ((I(1) << L::mantissa) - 1)) | (I(L::bias) << L::mantissa));
  const Ints<T> upper = f > T(1.4142135623730951);
  f = upper ? f * T(0.5) : f;
  exponent = exponent - upper;  // a true comparison is minus one
  exponent = x < least ? exponent - (L::mantissa + 1) : exponent;
  // log f = 2 artanh s with s = (f - 1) / (f + 1), |s| < 0.18
  const Vec<T> s = (f - T(1)) / (f + T(1)), square = s * s;
  Vec<T> series = all<T>(T(1) / T(2 * terms + 1));
  for (int k = terms - 1; k >= 1; --k) series = series * square + T(1) / T(2 * k + 1);
  const Vec<T> twice = s + s, e = __builtin_convertvector(exponent, Vec<T>);
  Vec<T> y = e * Exponential<T>::high + (twice + (twice * (square * series) + e * Exponential<T>::low));
  y = x == T(0) ? all<T>(-T(INFINITY)) : y;
  y = x < T(0) ? all<T>(T(NAN)) : y;
  y = x == T(INFINITY) ? x : y;
  return x == x ? y : x;
}

template <class T>
HS_INLINE Vec<T> square_root(Vec<T> x) {
  T numbers[Lanes<T>::count];
  store<T>(numbers, x);
  for (int i = 0; i < Lanes<T>::count; ++i) numbers[i] = std::sqrt(numbers[i]);
  return load<T>(numbers);
}

template <class T>
HS_INLINE Vec<T> absolute(Vec<T> x) {
  return x < T(0) ? -x : x;
}

// -- many matrices at once: every lane holds one --------------------------------------------------------------------

#define HS_UNROLL _Pragma("GCC unroll 32")

// Sums of products in four strands, always the same ones: the order in which a number is formed does not depend on what
// the compiler knows of sizes. `Width` is the count where it is known, otherwise zero.
template <class T, int Width>
HS_INLINE Vec<T> strands(const Vec<T>* a, const Vec<T>* b, int count, Vec<T> first) {
  Vec<T> s[4] = {first, Vec<T>{}, Vec<T>{}, Vec<T>{}};
  if constexpr (Width > 0) {
    HS_UNROLL for (int j = 0; j < Width; ++j) s[j & 3] += a[j] * b[j];
  } else {
    int j = 0;
    for (; j + 4 <= count; j += 4) {
      s[0] += a[j] * b[j];
      s[1] += a[j + 1] * b[j + 1];
      s[2] += a[j + 2] * b[j + 2];
      s[3] += a[j + 3] * b[j + 3];
    }
    if (j < count) s[0] += a[j] * b[j];
    if (j + 1 < count) s[1] += a[j + 1] * b[j + 1];
    if (j + 2 < count) s[2] += a[j + 2] * b[j + 2];
  }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

constexpr int LARGEST_ROOT = 32;

// `triangle` has `rows` rows of `size` numbers, of which the first `size` are lower triangular; `dense` has `rows` rows
// of `width`. Afterwards the first `size` rows of `dense` count for nothing. Each row meets all reflections before it
// while it lies in registers; it then makes one of its own, or is done.
template <class T, int Width>
HS_INLINE void absorb(Vec<T>* triangle, Vec<T>* dense, int size, int rows, int given_width) {
  const int width = Width > 0 ? Width : given_width;
  Vec<T> firsts[LARGEST_ROOT], scales[LARGEST_ROOT], registers[Width > 0 ? Width : 1];
  for (int r = 0; r < rows; ++r) {
    Vec<T>* const kept = dense + r * width;
    Vec<T>* const row = Width > 0 ? registers : kept;
    if constexpr (Width > 0) {
      HS_UNROLL for (int j = 0; j < Width; ++j) row[j] = kept[j];
    }
    const int before = r < size ? r : size;
    for (int i = 0; i < before; ++i) {
      const Vec<T>* mirror = dense + i * width;
      Vec<T>* const entry = triangle + r * size + i;
      const Vec<T> along = scales[i] * strands<T, Width>(row, mirror, width, *entry * firsts[i]);
      *entry -= along * firsts[i];
      if constexpr (Width > 0) {
        HS_UNROLL for (int j = 0; j < Width; ++j) row[j] -= along * mirror[j];
      } else {
        for (int j = 0; j < width; ++j) row[j] -= along * mirror[j];
      }
    }
    if (r < size) {
      const Vec<T> corner = triangle[r * size + r];
      const Vec<T> square = strands<T, Width>(row, row, width, corner * corner);
      const Vec<T> length = square_root<T>(square);
      const Vec<T> becomes = corner > T(0) ? -length : length;
      const Vec<T> half = square - becomes * corner;
      firsts[r] = corner - becomes;
      scales[r] = half > T(0) ? T(1) / half : all<T>(T(0));
      triangle[r * size + r] = becomes;
    }
    if constexpr (Width > 0) {
      HS_UNROLL for (int j = 0; j < Width; ++j) kept[j] = row[j];
    }
  }
}

// out = matrix x, for a matrix that all lanes share and x of `inner` rows and `width` columns.
template <class T>
HS_INLINE void multiply(const T* matrix, const Vec<T>* x, Vec<T>* out, int rows, int inner, int width) {
  for (int r = 0; r < rows; ++r) {
    int j = 0;
    for (; j + 4 <= width; j += 4) {
      Vec<T> s0 = {}, s1 = {}, s2 = {}, s3 = {};
      for (int k = 0; k < inner; ++k) {
        const T a = matrix[r * inner + k];
        const Vec<T>* row = x + k * width + j;
        s0 += a * row[0];
        s1 += a * row[1];
        s2 += a * row[2];
        s3 += a * row[3];
      }
      Vec<T>* to = out + r * width + j;
      to[0] = s0;
      to[1] = s1;
      to[2] = s2;
      to[3] = s3;
    }
    for (; width % 4 != 0 && j < width; ++j) {
      Vec<T> s = {};
      for (int k = 0; k < inner; ++k) s += matrix[r * inner + k] * x[k * width + j];
      out[r * width + j] = s;
    }
  }
}

// The same, where every lane has a matrix of its own.
template <class T>
HS_INLINE void multiply(const Vec<T>* matrix, const Vec<T>* x, Vec<T>* out, int rows, int inner, int width) {
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < width; ++j) {
      Vec<T> s = {};
      for (int k = 0; k < inner; ++k) s += matrix[r * inner + k] * x[k * width + j];
      out[r * width + j] = s;
    }
}

// -- one matrix: lanes hold rows -------------------------------------------------------------------------------------

// A matrix by columns, each padded with zeros to whole vectors.
template <class T>
struct Columns {
  T* data;
  int rows, padded;

  static int pad(int rows) {
    constexpr int width = Lanes<T>::count;
    return (rows + width - 1) / width * width;
  }
  HS_INLINE T* column(int j) const { return data + j * padded; }
  HS_INLINE T& at(int i, int j) const { return data[j * padded + i]; }
};

template <class T>
HS_INLINE void clear(Columns<T> to, int columns) {
  std::memset(to.data, 0, sizeof(T) * size_t(to.padded) * size_t(columns));
}

// From rows of `columns` numbers, and back.
template <class T>
HS_INLINE void read(Columns<T> to, const T* from, int columns) {
  for (int i = 0; i < to.rows; ++i)
    for (int j = 0; j < columns; ++j) to.at(i, j) = from[i * columns + j];
}

template <class T>
HS_INLINE void write(T* to, Columns<T> from, int columns) {
  for (int i = 0; i < from.rows; ++i)
    for (int j = 0; j < columns; ++j) to[i * columns + j] = from.at(i, j);
}

// One reflection, of the rows of a panel from `from` on; those above are done and stay. (They are not set to zero: a
// vector that is read right after one of its numbers was written waits for that to reach the cache.)
template <class T>
HS_INLINE void reflect(T* entry, Columns<T> dense, const T* mirror, int width, T first, T scale, int from) {
  Ints<T> place;
  for (int i = 0; i < Lanes<T>::count; ++i) place[i] = i;
  for (int v = from / Lanes<T>::count * Lanes<T>::count; v < dense.padded; v += Lanes<T>::count) {
    T* row = dense.data + v;
    Vec<T> s0 = load<T>(entry + v) * first, s1 = {}, s2 = {}, s3 = {};
    int j = 0;
    for (; j + 4 <= width; j += 4) {
      s0 += load<T>(row + j * dense.padded) * mirror[j];
      s1 += load<T>(row + (j + 1) * dense.padded) * mirror[j + 1];
      s2 += load<T>(row + (j + 2) * dense.padded) * mirror[j + 2];
      s3 += load<T>(row + (j + 3) * dense.padded) * mirror[j + 3];
    }
    if (j < width) s0 += load<T>(row + j * dense.padded) * mirror[j];
    if (j + 1 < width) s1 += load<T>(row + (j + 1) * dense.padded) * mirror[j + 1];
    if (j + 2 < width) s2 += load<T>(row + (j + 2) * dense.padded) * mirror[j + 2];
    const Ints<T> meant = place >= typename Lanes<T>::integer(from - v);
    const Vec<T> along = select<T>(meant, scale * ((s0 + s1) + (s2 + s3)), Vec<T>{});
    store<T>(entry + v, load<T>(entry + v) - along * first);
    for (j = 0; j < width; ++j) {
      T* at = row + j * dense.padded;
      store<T>(at, load<T>(at) - along * mirror[j]);
    }
  }
}

// As above: L and B, of `triangle.rows` rows, and the rows `below` L and B, where there are any.
template <class T>
HS_INLINE void absorb(Columns<T> triangle, Columns<T> dense, const Columns<T>* below_triangle, const Columns<T>* below,
                      int width, T* mirror) {
  for (int i = 0; i < triangle.rows; ++i) {
    const T corner = triangle.at(i, i);
    T s[4] = {corner * corner, 0, 0, 0};
    for (int j = 0; j < width; ++j) {
      mirror[j] = dense.at(i, j);
      s[j & 3] += mirror[j] * mirror[j];
    }
    const T square = (s[0] + s[1]) + (s[2] + s[3]), length = std::sqrt(square);
    const T becomes = corner > 0 ? -length : length;
    const T first = corner - becomes, half = square - becomes * corner, scale = half > 0 ? 1 / half : T(0);
    reflect<T>(triangle.column(i), dense, mirror, width, first, scale, i + 1);
    if (below) reflect<T>(below_triangle->column(i), *below, mirror, width, first, scale, 0);
    triangle.at(i, i) = becomes;
  }
}

// out = matrix x for x of `width` columns.
template <class T>
HS_INLINE void multiply(Columns<T> matrix, Columns<T> x, Columns<T> out, int width) {
  constexpr int lanes = Lanes<T>::count;
  for (int v = 0; v < matrix.padded; v += lanes) {
    int j = 0;
    for (; j + 4 <= width; j += 4) {
      Vec<T> s0 = {}, s1 = {}, s2 = {}, s3 = {};
      for (int k = 0; k < x.rows; ++k) {
        const Vec<T> a = load<T>(matrix.column(k) + v);
        s0 += a * x.at(k, j);
        s1 += a * x.at(k, j + 1);
        s2 += a * x.at(k, j + 2);
        s3 += a * x.at(k, j + 3);
      }
      store<T>(out.column(j) + v, s0);
      store<T>(out.column(j + 1) + v, s1);
      store<T>(out.column(j + 2) + v, s2);
      store<T>(out.column(j + 3) + v, s3);
    }
    for (; j < width; ++j) {
      Vec<T> s = {};
      for (int k = 0; k < x.rows; ++k) s += load<T>(matrix.column(k) + v) * x.at(k, j);
      store<T>(out.column(j) + v, s);
    }
  }
}

}  // namespace HS_ISA
}  // namespace hs
