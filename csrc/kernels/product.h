// Products of a few rows with packed weights, in tiles that stay in registers.
//
// Packed weights are panels. A panel holds, for every k below `depth`, `vectors` vectors of outputs. The sum over k runs
// from first to last in every tile, so that the bits of a row do not depend on which rows share its tile.
#pragma once
#include "kernels/recurrent.h"
#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

constexpr int WIDEST = 4;  // vectors of a panel

template <class T>
constexpr int64_t vectors_of(int64_t units) {
  return (units + Lanes<T>::count - 1) / Lanes<T>::count;
}

// Rows of a tile: as many as leave registers for the weights and one entry of the rows.
constexpr int tile_rows(int vectors) {
  const int sums = HS_VECTOR_BYTES == 64 ? 24 : 12;
  const int rows = sums / vectors;
  return rows < 12 ? rows : 12;
}

// `first` is what every sum begins with, or null for zeros. Rows of `out` lie `pitch` numbers apart.
template <class T, int rows, int vectors>
HS_INLINE void multiply_tile(const T* in, int64_t stride, const T* panel, int64_t depth, const T* first, T* out,
                             int64_t pitch) {
  constexpr int width = Lanes<T>::count;
  Vec<T> sums[rows][vectors];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = first ? load<T>(first + v * width) : Vec<T>{};
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k) {
    Vec<T> weights[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) weights[v] = load<T>(panel + (k * vectors + v) * width);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      const Vec<T> entry = all<T>(in[r * stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += entry * weights[v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store<T>(out + r * pitch + v * width, sums[r][v]);
}

// out[r] = first + in[r] times the panel, for `rows` rows that lie `stride` numbers apart.
template <class T, int vectors>
__attribute__((noinline)) void multiply_from(const T* first, int64_t rows, const T* in, int64_t stride, const T* panel,
                                             int64_t depth, T* out, int64_t pitch) {
  constexpr int most = tile_rows(vectors);
  for (; rows >= most; rows -= most, in += most * stride, out += most * pitch)
    multiply_tile<T, most, vectors>(in, stride, panel, depth, first, out, pitch);
  if constexpr (most > 8)
    if (rows & 8) {
      multiply_tile<T, 8, vectors>(in, stride, panel, depth, first, out, pitch);
      in += 8 * stride, out += 8 * pitch;
    }
  if constexpr (most > 4)
    if (rows & 4) {
      multiply_tile<T, 4, vectors>(in, stride, panel, depth, first, out, pitch);
      in += 4 * stride, out += 4 * pitch;
    }
  if (rows & 2) {
    multiply_tile<T, 2, vectors>(in, stride, panel, depth, first, out, pitch);
    in += 2 * stride, out += 2 * pitch;
  }
  if (rows & 1) multiply_tile<T, 1, vectors>(in, stride, panel, depth, first, out, pitch);
}

// The same from zero, into rows of `vectors` vectors.
template <class T, int vectors>
HS_INLINE void multiply(int64_t rows, const T* in, int64_t stride, const T* panel, int64_t depth, T* out) {
  multiply_from<T, vectors>(nullptr, rows, in, stride, panel, depth, out, vectors * Lanes<T>::count);
}

// The weights of several gates, [gates * units, units]: panel j has vector j of the units of every gate.
template <class T, int gates>
void pack_gates(const T* weight, int64_t units, int64_t panel, T* out) {
  constexpr int width = Lanes<T>::count;
  for (int64_t k = 0; k < units; ++k)
    for (int g = 0; g < gates; ++g)
      for (int lane = 0; lane < width; ++lane) {
        const int64_t unit = panel * width + lane;
        *out++ = unit < units ? weight[(g * units + unit) * units + k] : T(0);
      }
}

// A matrix whose entry for output n and input k lies at n * by_output + k * by_input: panel p has the vectors from
// WIDEST * p on, the last panel what is left.
template <class T>
void pack_matrix(const T* weight, int64_t outputs, int64_t inputs, int64_t by_output, int64_t by_input, int64_t panel,
                 T* packed) {
  constexpr int width = Lanes<T>::count;
  const int64_t first = panel * WIDEST, left = vectors_of<T>(outputs) - first;
  const int64_t lanes = (left < WIDEST ? left : WIDEST) * width;
  T* out = packed + first * width * inputs;
  for (int64_t k = 0; k < inputs; ++k)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t n = first * width + lane;
      *out++ = n < outputs ? weight[n * by_output + k * by_input] : T(0);
    }
}

template <class T>
constexpr int64_t panels_of(int64_t units) {
  return (vectors_of<T>(units) + WIDEST - 1) / WIDEST;
}

// For W h of several gates.
template <class T, int gates>
constexpr Packing<T> gates_packing = {
    [](int64_t units) { return vectors_of<T>(units) * Lanes<T>::count * gates * units; },
    [](int64_t units) { return vectors_of<T>(units); },
    [](const T* weight, int64_t units, int64_t panel, T* packed) {
      pack_gates<T, gates>(weight, units, panel, packed + panel * Lanes<T>::count * gates * units);
    }};

// For W h of one gate.
template <class T>
constexpr Packing<T> plain_packing = {
    [](int64_t units) { return vectors_of<T>(units) * Lanes<T>::count * units; }, panels_of<T>,
    [](const T* weight, int64_t units, int64_t panel, T* packed) {
      pack_matrix<T>(weight, units, units, units, 1, panel, packed);
    }};

// For d W, where d are adjoints of all gates.
template <class T, int gates>
constexpr Packing<T> back_packing = {
    [](int64_t units) { return vectors_of<T>(units) * Lanes<T>::count * gates * units; }, panels_of<T>,
    [](const T* weight, int64_t units, int64_t panel, T* packed) {
      pack_matrix<T>(weight, units, gates * units, 1, units, panel, packed);
    }};

// For x W^T and for d W, of a matrix [outputs, inputs] that sees what comes from outside.
template <class T>
constexpr MatrixPacking<T> input_packing = {
    [](int64_t outputs, int64_t inputs) { return vectors_of<T>(outputs) * Lanes<T>::count * inputs; },
    [](int64_t outputs, int64_t) { return panels_of<T>(outputs); },
    [](const T* weight, int64_t outputs, int64_t inputs, int64_t panel, T* packed) {
      pack_matrix<T>(weight, outputs, inputs, inputs, 1, panel, packed);
    }};
template <class T>
constexpr MatrixPacking<T> input_back_packing = {
    [](int64_t outputs, int64_t inputs) { return vectors_of<T>(inputs) * Lanes<T>::count * outputs; },
    [](int64_t, int64_t inputs) { return panels_of<T>(inputs); },
    [](const T* weight, int64_t outputs, int64_t inputs, int64_t panel, T* packed) {
      pack_matrix<T>(weight, inputs, outputs, 1, inputs, panel, packed);
    }};

// One panel of a matrix that was packed so, into rows that lie `pitch` numbers apart, or side by side where that is 0;
// gives how many vectors the panel has. `first` has a number for every output, up to whole vectors, or is null.
template <class T>
HS_INLINE int multiply_panel(int64_t rows, const T* in, int64_t stride, const T* packed, int64_t outputs, int64_t inputs,
                             int64_t panel, T* out, const T* first = nullptr, int64_t pitch = 0) {
  constexpr int width = Lanes<T>::count;
  const int64_t begin = panel * WIDEST, left = vectors_of<T>(outputs) - begin;
  const int vectors = left < WIDEST ? int(left) : WIDEST;
  const T* from = packed + begin * width * inputs;
  first = first ? first + begin * width : first;
  pitch = pitch ? pitch : vectors * width;
  switch (vectors) {
    case 1: multiply_from<T, 1>(first, rows, in, stride, from, inputs, out, pitch); return 1;
    case 2: multiply_from<T, 2>(first, rows, in, stride, from, inputs, out, pitch); return 2;
    case 3: multiply_from<T, 3>(first, rows, in, stride, from, inputs, out, pitch); return 3;
    default: multiply_from<T, 4>(first, rows, in, stride, from, inputs, out, pitch); return 4;
  }
}

}  // namespace HS_ISA
}  // namespace hs
