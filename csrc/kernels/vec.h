// Vectors of the machine's width, by the compiler's vector extensions: the same source serves SSE, AVX2, AVX-512 and
// NEON. A file that includes this is compiled once for each instruction set, inside a namespace of its own.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define HS_CONCAT_(a, b) a##b
#define HS_CONCAT(a, b) HS_CONCAT_(a, b)

#if defined(__AVX512F__)
#define HS_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define HS_VECTOR_BYTES 32
#else
#define HS_VECTOR_BYTES 16
#endif

#define HS_INLINE inline __attribute__((always_inline))

#ifdef __has_builtin  // which GCC knows from 10 on
#if __has_builtin(__builtin_shufflevector)
#define HS_SHUFFLES
#endif
#endif

namespace hs {
namespace HS_ISA {

template <class T>
struct Lanes;
template <>
struct Lanes<float> {
  typedef float vector __attribute__((vector_size(HS_VECTOR_BYTES)));
  typedef int32_t integer;
  typedef int32_t integers __attribute__((vector_size(HS_VECTOR_BYTES)));
  static constexpr int count = HS_VECTOR_BYTES / sizeof(float);
  static constexpr int mantissa = 23;
  static constexpr integer bias = 127;
};
template <>
struct Lanes<double> {
  typedef double vector __attribute__((vector_size(HS_VECTOR_BYTES)));
  typedef int64_t integer;
  typedef int64_t integers __attribute__((vector_size(HS_VECTOR_BYTES)));
  static constexpr int count = HS_VECTOR_BYTES / sizeof(double);
  static constexpr int mantissa = 52;
  static constexpr integer bias = 1023;
};

template <class T>
using Vec = typename Lanes<T>::vector;
template <class T>
using Ints = typename Lanes<T>::integers;

template <class T>
HS_INLINE Vec<T> all(T x) {
  return x - Vec<T>{};
}

template <class T>
HS_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
HS_INLINE void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

// The first n numbers, fewer than twice `piece`, in pieces whose sizes are constants: no call of a library.
template <class T, int piece>
HS_INLINE void copy_some(T* to, const T* from, int n) {
  if constexpr (piece > 0) {
    if (n & piece) {
      std::memcpy(to, from, piece * sizeof(T));
      to += piece;
      from += piece;
    }
    copy_some<T, piece / 2>(to, from, n);
  }
}

// The first n lanes; the others hold `other`.
template <class T>
HS_INLINE Vec<T> load_some(const T* p, int n, T other = T(0)) {
  constexpr int count = Lanes<T>::count;
  if (n >= count) return load<T>(p);
  T lanes[count];
  store<T>(lanes, all<T>(other));
  copy_some<T, count / 2>(lanes, p, n);
  return load<T>(lanes);
}

template <class T>
HS_INLINE void store_some(T* p, Vec<T> v, int n) {
  constexpr int count = Lanes<T>::count;
  if (n >= count) return store<T>(p, v);
  T lanes[count];
  store<T>(lanes, v);
  copy_some<T, count / 2>(p, lanes, n);
}

template <class T>
HS_INLINE Vec<T> select(Ints<T> mask, Vec<T> yes, Vec<T> no) {
  return mask ? yes : no;
}

// a > b ? a : b, which compilers do not always know to be one instruction. With a mask of all lanes, which costs nothing,
// since GCC warns of what its header does without.
template <class T>
HS_INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_max_ps(__mmask16(-1), (__m512)a, (__m512)b);
  if constexpr (sizeof(T) == 8) return (Vec<T>)_mm512_maskz_max_pd(__mmask8(-1), (__m512d)a, (__m512d)b);
#endif
  return a > b ? a : b;
}

template <class T>
HS_INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_min_ps(__mmask16(-1), (__m512)a, (__m512)b);
  if constexpr (sizeof(T) == 8) return (Vec<T>)_mm512_maskz_min_pd(__mmask8(-1), (__m512d)a, (__m512d)b);
#endif
  return a < b ? a : b;
}

// Sums of all lanes, in an order that does not depend on how many vectors came before.
template <class T>
HS_INLINE T sum_lanes(Vec<T> v) {
  T total = 0;
  for (int i = 0; i < Lanes<T>::count; ++i) total += v[i];
  return total;
}

template <class T>
HS_INLINE T max_lanes(Vec<T> v) {
  T top = v[0];
  for (int i = 1; i < Lanes<T>::count; ++i) top = v[i] > top ? v[i] : top;
  return top;
}

// Coefficients 1/2!, 1/3!, ... of (e^r - 1 - r) / r^2 on |r| <= log(2) / 2; enough terms for the last bit.
template <class T>
struct Exponential;
template <>
struct Exponential<float> {
  static constexpr float log2e = 1.44269504088896341f, high = 0.693145751953125f, low = 1.42860682030941723212e-6f;
  static constexpr float largest = 88.72283905206835f, smallest = -103.97208f;  // beyond: infinity, zero
  static constexpr float magic = 12582912.0f;                                   // 1.5 * 2^23: adding it rounds
  static constexpr int terms = 6;
  static constexpr float c[terms] = {1.f / 2, 1.f / 6, 1.f / 24, 1.f / 120, 1.f / 720, 1.f / 5040};
};
template <>
struct Exponential<double> {
  static constexpr double log2e = 1.4426950408889634074, high = 6.93147180369123816490e-01,
                          low = 1.90821492927058770002e-10;
  static constexpr double largest = 709.782712893384, smallest = -745.1332191019412;
  static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr int terms = 12;
  static constexpr double c[terms] = {1. / 2,      1. / 6,       1. / 24,       1. / 120,       1. / 720,
                                      1. / 5040,   1. / 40320,   1. / 362880,   1. / 3628800,   1. / 39916800,
                                      1. / 479001600, 1. / 6227020800};
};

template <class T>
struct Reduced {
  Vec<T> p;      // e^r - 1
  Ints<T> n;     // x = n log 2 + r
};

template <class T>
HS_INLINE Reduced<T> reduce_exponent(Vec<T> x) {
  using E = Exponential<T>;
  const Vec<T> magic = all<T>(E::magic);
  const Vec<T> rounded = x * E::log2e + magic;
  const Vec<T> n = rounded - magic;
  Vec<T> r = x - n * E::high;
  r = r - n * E::low;
  Vec<T> q = all<T>(E::c[E::terms - 1]);
  for (int i = E::terms - 2; i >= 0; --i) q = q * r + E::c[i];
  return {r + r * r * q, (Ints<T>)rounded - (Ints<T>)magic};
}

// 2^n for n within the range of normal numbers.
template <class T>
HS_INLINE Vec<T> power_of_two(Ints<T> n) {
  using L = Lanes<T>;
  return (Vec<T>)((n + L::bias) << L::mantissa);
}

// e^x, to within 2 units in the last place; infinity and zero beyond the range, NaN of NaN.
template <class T>
HS_INLINE Vec<T> exp(Vec<T> x) {
  using E = Exponential<T>;
  const Vec<T> clamped = minimum<T>(maximum<T>(x, all<T>(E::smallest)), all<T>(E::largest));
  const Reduced<T> part = reduce_exponent<T>(clamped);
  const Ints<T> half = part.n >> 1;  // in two factors, so that the ends of the range are reached
  Vec<T> y = (part.p + T(1)) * power_of_two<T>(half) * power_of_two<T>(part.n - half);
  y = x > E::largest ? all<T>(T(INFINITY)) : y;
  y = x < E::smallest ? all<T>(T(0)) : y;
  return x == x ? y : x;
}

// e^x - 1 without loss near zero.
template <class T>
HS_INLINE Vec<T> expm1(Vec<T> x) {
  using E = Exponential<T>;
  const Vec<T> clamped = minimum<T>(maximum<T>(x, all<T>(T(-60))), all<T>(E::largest - T(1)));
  const Reduced<T> part = reduce_exponent<T>(clamped);
  const Ints<T> half = part.n >> 1;
  const Vec<T> first = power_of_two<T>(half), second = power_of_two<T>(part.n - half);
  Vec<T> y = part.p * first * second + (first * second - T(1));
  y = x > E::largest - T(1) ? exp<T>(x) : y;
  return x == x ? y : x;
}

// x within [low, high]; NaN stays.
template <class T>
HS_INLINE Vec<T> clamped(Vec<T> x, T low, T high) {
  const Vec<T> bottom = all<T>(low), top = all<T>(high);
  x = bottom > x ? bottom : x;
  return top < x ? top : x;
}

// tanh x = (e^{2|x|} - 1) / (e^{2|x|} + 1) with the sign of x; one beyond where the difference can be seen.
template <class T>
HS_INLINE Vec<T> tanh(Vec<T> x) {
  using L = Lanes<T>;
  const T far = std::is_same<T, float>::value ? T(10) : T(22);
  const Ints<T> sign = (Ints<T>)x & ((Ints<T>)all<T>(T(-0.0)));
  const Vec<T> a = clamped<T>((Vec<T>)((Ints<T>)x ^ sign), T(0), far);
  const Reduced<T> part = reduce_exponent<T>(a + a);
  const Vec<T> scale = (Vec<T>)((part.n + L::bias) << L::mantissa);
  const Vec<T> less_one = part.p * scale + (scale - T(1));
  return (Vec<T>)((Ints<T>)(less_one / (less_one + T(2))) ^ sign);
}

// 1 / (1 + e^{-x}). Where e^{-x} passes the largest number it is infinite, and the result zero.
template <class T>
HS_INLINE Vec<T> sigmoid(Vec<T> x) {
  constexpr bool single = std::is_same<T, float>::value;
  const Reduced<T> part = reduce_exponent<T>(clamped<T>(-x, single ? T(-87) : T(-708), single ? T(88.9) : T(709.9)));
  return T(1) / ((part.p + T(1)) * power_of_two<T>(part.n) + T(1));
}

}  // namespace HS_ISA
}  // namespace hs
