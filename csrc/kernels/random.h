// JAX's random numbers: the same bits from the same key, many at a time.
//
// A key is two words. Its n-th block of bits is the cipher threefry (Salmon et al. 2011) of the number n; new keys are
// such blocks, and so are the bits of uniform numbers, from which normal ones come by the inverse error function.
#pragma once
#include "kernels/logarithm.h"
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

typedef uint32_t Words __attribute__((vector_size(HS_VECTOR_BYTES)));
constexpr int WORDS = HS_VECTOR_BYTES / 4;

// A key, or a block of bits; of one, or of as many as a vector has lanes.
template <class W>
struct Block {
  W first, second;
};
typedef Block<uint32_t> Key;

template <class W, int a, int b, int c, int d>
HS_INLINE void four_rounds(Block<W>& x) {
#define HS_ROUND(turn)                                         \
  x.first += x.second;                                         \
  x.second = (x.second << turn) | (x.second >> (32 - turn));   \
  x.second ^= x.first;
  HS_ROUND(a) HS_ROUND(b) HS_ROUND(c) HS_ROUND(d)
#undef HS_ROUND
}

// The block of a number below 2^32.
template <class W>
HS_INLINE Block<W> threefry(Block<W> key, W number) {
  const W third = key.first ^ key.second ^ 0x1BD11BDAu;
  Block<W> x{key.first, number + key.second};
  four_rounds<W, 13, 15, 26, 6>(x);
  x.first += key.second, x.second += third + 1;
  four_rounds<W, 17, 29, 16, 24>(x);
  x.first += third, x.second += key.first + 2;
  four_rounds<W, 13, 15, 26, 6>(x);
  x.first += key.first, x.second += key.second + 3;
  four_rounds<W, 17, 29, 16, 24>(x);
  x.first += key.second, x.second += third + 4;
  four_rounds<W, 13, 15, 26, 6>(x);
  x.first += third, x.second += key.first + 5;
  return x;
}

HS_INLINE Block<Words> spread(Key key) { return {key.first - Words{}, key.second - Words{}}; }

// first, first + 1, ... in the lanes.
HS_INLINE Words counting(uint32_t first) {
  Words numbers;
  for (int i = 0; i < WORDS; ++i) numbers[i] = uint32_t(i);
  return numbers + first;
}

// Numbers from 1 up to 2 whose mantissas are the leading bits of blocks, into out[0 .. WORDS).
HS_INLINE void mantissas(Block<Words> bits, float* out) {
  const Words number = ((bits.first ^ bits.second) >> 9) | 0x3f800000u;
  std::memcpy(out, &number, sizeof number);
}
HS_INLINE void mantissas(Block<Words> bits, double* out) {
  for (int i = 0; i < WORDS; ++i) {
    const uint64_t both = uint64_t(bits.first[i]) << 32 | bits.second[i], number = both >> 12 | 0x3ff0000000000000u;
    std::memcpy(out + i, &number, sizeof number);
  }
}

// A uniform number from 0 up to, not including, 1.
template <class D>
HS_INLINE D uniform(Key key, uint32_t number = 0) {
  D lanes[WORDS];
  mantissas(threefry<Words>(spread(key), number - Words{}), lanes);
  return lanes[0] - D(1);
}

// The inverse error function by polynomials of w = -log(1 - x^2) (Giles 2010): in the middle, and in one or two tails.
template <class D>
struct InverseError;
template <>
struct InverseError<float> {
  static constexpr float end = 5.0f, middle = 2.5f, tail = 3.0f;
  static constexpr int terms = 9;
  static constexpr float c[terms] = {2.81022636e-08f, 3.43273939e-07f,  -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                     -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  static constexpr float tails[terms] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                         -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
};
template <>
struct InverseError<double> {
  static constexpr double end = 6.25, middle = 3.125, tail = 3.25, far = 16.0, far_tail = 5.0;
  static constexpr int terms = 23, tail_terms = 19, far_terms = 17;
  static constexpr double c[terms] = {
      -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,  1.115787767802518096e-17,
      -1.333171662854620906e-16,  2.0972767875968561637e-17, 6.6376381343583238325e-15,  -4.0545662729752068639e-14,
      -8.1519341976054721522e-14, 2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
      1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
      -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,  -0.00074070253416626697512,
      -0.0060336708714301490533,  0.24015818242558961693,    1.6536545626831027356};
  static constexpr double tails[tail_terms] = {
      2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
      1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
      -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
      0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
      0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
  static constexpr double far_tails[far_terms] = {
      -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09,
      7.6157012080783393804e-09,  -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08,
      2.2900482228026654717e-07,  -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
      7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977,
      4.8499064014085844221};
};

template <class V, class D, int terms>
HS_INLINE V polynomial(const D (&c)[terms], V w) {
  V p = c[0] + V{};
  for (int i = 1; i < terms; ++i) p = p * w + c[i];
  return p;
}

inline float inverse_error_tail(float w) {
  using I = InverseError<float>;
  return polynomial<float>(I::tails, std::sqrt(w) - I::tail);
}
inline double inverse_error_tail(double w) {
  using I = InverseError<double>;
  return w < I::far ? polynomial<double>(I::tails, std::sqrt(w) - I::tail)
                    : polynomial<double>(I::far_tails, std::sqrt(w) - I::far_tail);
}

// Standard normal numbers from mantissas.
template <class D>
HS_INLINE Vec<D> normal(Vec<D> mantissa) {
  using I = InverseError<D>;
  constexpr D lowest = std::is_same<D, float>::value ? D(-0x1.fffffep-1) : D(-0x1.fffffffffffffp-1);
  const Vec<D> x = maximum<D>((mantissa - D(1)) * D(2) + lowest, all<D>(lowest));
  // In the tails it matters that the square is rounded before it is subtracted, as XLA does it: its sign bit, which is
  // never set, is cleared, so that the compiler cannot make one operation of the two.
  const Vec<D> square = (Vec<D>)((Ints<D>)(x * x) & ~(Ints<D>)all<D>(D(-0.0)));
  const Vec<D> w = -logarithm<D>(D(1) - square);
  Vec<D> p = polynomial<Vec<D>>(I::c, w - I::middle);
  const Ints<D> far = w >= I::end;
  typename Lanes<D>::integer any = 0;
  for (int i = 0; i < Lanes<D>::count; ++i) any |= far[i];
  if (__builtin_expect(any != 0, 0))
    for (int i = 0; i < Lanes<D>::count; ++i)
      if (far[i]) p[i] = inverse_error_tail(D(w[i]));
  return D(1.41421356237309504880) * (p * x);
}

// Two vectors of keys or blocks: the rounds of one wait for each other, those of two fill the time.
constexpr int TOGETHER = 2 * WORDS;

// For each of `count` keys that follow from `key`, body(i, blocks): the number of the first, and a function that gives the
// n-th block of the vectors of keys from there on. Goes on to a multiple of TOGETHER.
template <class F>
HS_INLINE void over_keys(Key key, int64_t count, F&& body) {
  const Block<Words> of = spread(key);
  for (int64_t i = 0; i < count; i += TOGETHER) {
    const Block<Words> a = threefry<Words>(of, counting(uint32_t(i)));
    const Block<Words> b = threefry<Words>(of, counting(uint32_t(i + WORDS)));
    body(i, a, b);
  }
}

// For each of `count` keys that follow from `key`, `size` normal numbers: out[n * pitch + i]. Rows are filled up to a
// multiple of TOGETHER.
template <class T, class D>
inline void normals(Key key, int64_t count, int64_t size, int64_t pitch, T* out) {
  over_keys(key, count, [&](int64_t i, const Block<Words>& a, const Block<Words>& b) {
    for (int64_t n = 0; n < size; ++n) {
      alignas(64) D lanes[TOGETHER];
      const Words number = uint32_t(n) - Words{};
      mantissas(threefry<Words>(a, number), lanes);
      mantissas(threefry<Words>(b, number), lanes + WORDS);
      for (int k = 0; k < TOGETHER; k += Lanes<D>::count) {
        const Vec<D> found = normal<D>(load<D>(lanes + k));
        if constexpr (std::is_same<T, D>::value)
          store<D>(out + n * pitch + i + k, found);
        else
          for (int j = 0; j < Lanes<D>::count; ++j) out[n * pitch + i + k + j] = T(found[j]);
      }
    }
  });
}

// For each of `count` keys that follow from `key`, a uniform number; filled up to a multiple of TOGETHER.
template <class D>
inline void uniforms_of_keys(Key key, int64_t count, D* out) {
  over_keys(key, count, [&](int64_t i, const Block<Words>& a, const Block<Words>& b) {
    mantissas(threefry<Words>(a, Words{}), out + i);
    mantissas(threefry<Words>(b, Words{}), out + i + WORDS);
    for (int k = 0; k < TOGETHER; ++k) out[i + k] -= D(1);
  });
}

// `count` uniform numbers of one key; filled up to a multiple of TOGETHER.
template <class D>
inline void uniforms(Key key, int64_t count, D* out) {
  over_keys(key, count, [&](int64_t i, const Block<Words>& a, const Block<Words>& b) {
    mantissas(a, out + i);
    mantissas(b, out + i + WORDS);
    for (int k = 0; k < TOGETHER; ++k) out[i + k] -= D(1);
  });
}

}  // namespace HS_ISA
}  // namespace hs
