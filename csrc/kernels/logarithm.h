// Logarithms of vectors, and what follows from them.
#pragma once
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

// How log(1 + f) = 2 artanh(s), s = f / (2 + f), is summed: enough terms for the last bit where |f| <= sqrt(2) - 1.
template <class T>
struct Logarithm;
template <>
struct Logarithm<float> {
  static constexpr int terms = 5;
  static constexpr float least = 1.17549435e-38f, raise = 33554432.0f;  // the smallest normal number; 2^25
  static constexpr int raised = 25;
  static constexpr int32_t half_root = 0x3f3504f3;  // the bits of sqrt(1/2)
};
template <>
struct Logarithm<double> {
  static constexpr int terms = 12;
  static constexpr double least = 2.2250738585072014e-308, raise = 18014398509481984.0;  // 2^54
  static constexpr int raised = 54;
  static constexpr int64_t half_root = 0x3fe6a09e667f3bcd;
};

// log x: minus infinity of zero, NaN below, infinity of infinity.
template <class T>
HS_INLINE Vec<T> logarithm(Vec<T> x) {
  using L = Logarithm<T>;
  const Ints<T> small = x < L::least;
  const Vec<T> y = small ? x * L::raise : x;
  const Ints<T> exponent = ((Ints<T>)y - L::half_root) >> Lanes<T>::mantissa;  // of y / sqrt(1/2), so that m is near one
  const Vec<T> m = (Vec<T>)((Ints<T>)y - (exponent << Lanes<T>::mantissa));
  const Vec<T> magic = all<T>(Exponential<T>::magic);  // adding to its bits counts in ones
  const Vec<T> n = (Vec<T>)(exponent + (Ints<T>)magic) - magic - (small ? all<T>(T(L::raised)) : Vec<T>{});
  const Vec<T> f = m - T(1), s = f / (f + T(2)), square = s * s, half = T(0.5) * f * f;
  Vec<T> r = all<T>(T(2) / (2 * L::terms + 1));
  for (int i = L::terms - 1; i >= 1; --i) r = r * square + T(2) / (2 * i + 1);
  r = r * square;
  using E = Exponential<T>;
  Vec<T> found = n * E::high - ((half - (s * (half + r) + n * E::low)) - f);
  found = x > T(0) ? found : all<T>(T(NAN));
  found = x == T(0) ? all<T>(T(-INFINITY)) : found;
  return x == T(INFINITY) ? x : found;
}

// log(1 + e) for e from 0 on, without loss near zero.
template <class T>
HS_INLINE Vec<T> log_one_plus(Vec<T> e) {
  const Vec<T> one_plus = e + T(1), rounded = one_plus - T(1);
  const Ints<T> lost = rounded == T(0);
  const Vec<T> found = logarithm<T>(one_plus) * (e / (lost ? all<T>(T(1)) : rounded));
  return lost ? e : (e == T(INFINITY) ? e : found);
}

// log(1 + e^x).
template <class T>
HS_INLINE Vec<T> softplus(Vec<T> x) {
  const Vec<T> size = x < T(0) ? -x : x;
  return maximum<T>(x, Vec<T>{}) + log_one_plus<T>(exp<T>(-size));
}

template <class T>
HS_INLINE Vec<T> log_sigmoid(Vec<T> x) {
  return -softplus<T>(-x);
}

}  // namespace HS_ISA
}  // namespace hs
