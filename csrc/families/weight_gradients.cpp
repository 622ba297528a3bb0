// Gradients of weights: blocks of rows are multiplied in tiles that stay in registers, and added up.
#include "kernels/weight_gradients.h"

#include "kernels/product.h"
#include "scratch.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int64_t BLOCK = 128;  // rows that are summed by themselves, which also keeps rounding errors small
constexpr int MOST = tile_rows(WIDEST);

// sums[i] += sum over rows of in[row][i] adjoints[row], for `count` columns i.
template <class T, int count>
HS_INLINE void add_tile(const T* in, int64_t stride, const T* adjoints, int64_t rows, T* sums) {
  constexpr int width = Lanes<T>::count;
  Vec<T> part[count][WIDEST];
#pragma GCC unroll 6
  for (int i = 0; i < count; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < WIDEST; ++v) part[i][v] = Vec<T>{};
#pragma GCC unroll 2
  for (int64_t row = 0; row < rows; ++row) {
    Vec<T> d[WIDEST];
#pragma GCC unroll 4
    for (int v = 0; v < WIDEST; ++v) d[v] = load<T>(adjoints + (row * WIDEST + v) * width);
#pragma GCC unroll 6
    for (int i = 0; i < count; ++i) {
      const Vec<T> entry = all<T>(in[row * stride + i]);
#pragma GCC unroll 4
      for (int v = 0; v < WIDEST; ++v) part[i][v] += entry * d[v];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < count; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < WIDEST; ++v) {
      T* at = sums + (i * WIDEST + v) * width;
      store<T>(at, load<T>(at) + part[i][v]);
    }
}

template <class T>
__attribute__((noinline)) void add_columns(const T* in, int64_t stride, int64_t columns, const T* adjoints, int64_t rows,
                                           T* sums) {
  constexpr int64_t row = WIDEST * Lanes<T>::count;
  int64_t i = 0;
  for (; i + MOST <= columns; i += MOST) add_tile<T, MOST>(in + i, stride, adjoints, rows, sums + i * row);
  if constexpr (MOST > 4)
    for (; i + 4 <= columns; i += 4) add_tile<T, 4>(in + i, stride, adjoints, rows, sums + i * row);
  for (; i < columns; ++i) add_tile<T, 1>(in + i, stride, adjoints, rows, sums + i * row);
}

// A few columns of adjoints of `rows` rows, side by side, zeros behind them.
template <class T>
HS_INLINE void gather_adjoints(const T* from, int64_t stride, int64_t columns, int64_t rows, T* to) {
  constexpr int width = Lanes<T>::count;
  for (int64_t row = 0; row < rows; ++row)
    for (int v = 0; v < WIDEST; ++v) {
      const int64_t left = columns - v * width;
      const Vec<T> d = left <= 0 ? Vec<T>{} : load_some<T>(from + row * stride + v * width, left < width ? int(left) : width);
      store<T>(to + (row * WIDEST + v) * width, d);
    }
}

// The columns [begin, end) of one of the factors that lie in a range of both beside each other, from `offset` on.
struct Columns {
  int64_t begin, count;
  Columns(int64_t offset, int64_t size, int64_t from, int64_t to)
      : begin(from > offset ? from - offset : 0), count((to - offset < size ? to - offset : size) - begin) {
    if (count < 0) count = 0;
  }
};

// For the panels of outputs and the columns of `seen` and `read`, beside each other, in the two ranges. Blocks of rows
// are the outer loop, so that each is read from memory once.
template <class T>
void run(const WeightGradients<T>& g, Range panels, Range columns) {
  constexpr int64_t size = WIDEST * Lanes<T>::count;
  const Columns seen(0, g.seen_size, columns.begin, columns.end);
  const Columns read(g.seen_size, g.read_size, columns.begin, columns.end);
  const bool biased = g.d_bias && columns.begin == 0;
  const int64_t each = (seen.count + read.count + 1) * size;
  const Scratch<T> sums((panels.end - panels.begin) * each), adjoints(BLOCK * size);
  const T one[1] = {T(1)};
  std::memset(sums, 0, size_t((panels.end - panels.begin) * each) * sizeof(T));
  for (int64_t row = 0; row < g.rows; row += BLOCK) {
    const int64_t rows = g.rows - row < BLOCK ? g.rows - row : BLOCK;
    T* to = sums;
    for (int64_t panel = panels.begin; panel < panels.end; ++panel, to += each) {
      const int64_t first = panel * size;
      gather_adjoints<T>(g.adjoints + row * g.outputs + first, g.outputs, g.outputs - first, rows, adjoints);
      if (first < g.seen_outputs)
        add_columns<T>(g.seen + row * g.seen_size + seen.begin, g.seen_size, seen.count, adjoints, rows, to);
      add_columns<T>(g.read + row * g.read_size + read.begin, g.read_size, read.count, adjoints, rows,
                     to + seen.count * size);
      if (biased) add_columns<T>(one, 0, 1, adjoints, rows, to + (seen.count + read.count) * size);
    }
  }
  const T* from = sums;
  for (int64_t panel = panels.begin; panel < panels.end; ++panel, from += each)
    for (int64_t lane = 0; lane < size; ++lane) {
      const int64_t n = panel * size + lane;
      if (n < g.seen_outputs)
        for (int64_t i = 0; i < seen.count; ++i) g.d_seen[n * g.seen_size + seen.begin + i] = from[i * size + lane];
      if (n >= g.outputs) break;
      for (int64_t i = 0; i < read.count; ++i)
        g.d_read[n * g.read_size + read.begin + i] = from[(seen.count + i) * size + lane];
      if (biased) g.d_bias[n] = from[(seen.count + read.count) * size + lane];
    }
}

}  // namespace

extern const WeightGradientsTable weight_gradients_table;
const WeightGradientsTable weight_gradients_table = {{panels_of<float>, run<float>}, {panels_of<double>, run<double>}};

}  // namespace HS_ISA
}  // namespace hs
