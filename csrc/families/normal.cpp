// Independent normal columns under each of several states, vectorised over states.
#include "kernels/normal.h"

#include <algorithm>

#include "kernels/rows.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int64_t BLOCK = 128;  // steps that are summed before they join the rest: precise over long time
constexpr int COLUMNS = 4;      // columns whose sums are held in registers

// The parameters in padded rows, one for each column; zeros in the padding.
template <class T>
class Prepared {
 public:
  explicit Prepared(const NormalStates<T>& of)
      : columns(of.columns), pitch(pitch_of<T>(of.states)), memory_(3 * of.columns * pitch) {
    transpose(of, of.centres, memory_.get());
    transpose(of, of.offsets, memory_.get() + columns * pitch);
    transpose(of, of.inverse, memory_.get() + 2 * columns * pitch);
  }

  // Standardised deviations of one number, a vector of states from `state` on.
  template <int W>
  HS_INLINE Row<T, W> deviation(T x, int64_t column, int64_t state) const {
    const T* const at = memory_.get() + column * pitch + state;
    return ((x - get<T, W>(at)) - get<T, W>(at + columns * pitch)) * get<T, W>(at + 2 * columns * pitch);
  }

  const int64_t columns, pitch;

 private:
  void transpose(const NormalStates<T>& of, const T* from, T* to) const {
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t k = 0; k < pitch; ++k) to[i * pitch + k] = k < of.states ? from[k * columns + i] : T(0);
  }

  const Buffer<T> memory_;
};

template <class T>
void densities(const NormalDensities<T>& in) {
  const Prepared<T> prepared(in.of);
  const int64_t states = in.of.states, columns = in.of.columns;
  const Buffer<T> constants(prepared.pitch);
  for (int64_t k = 0; k < prepared.pitch; ++k) constants.get()[k] = k < states ? in.constants[k] : T(0);
  with_width<T>(states, [&](auto width) {
    constexpr int W = decltype(width)::value;
    for (int64_t t = 0; t < in.steps; ++t)
      for (int64_t k = 0; k < states; k += W) {
        Row<T, W> squares = {};
        for (int64_t i = 0; i < columns; ++i) {
          const Row<T, W> a = prepared.template deviation<W>(in.values[t * columns + i], i, k);
          squares += a * a;
        }
        const Row<T, W> v = get<T, W>(constants.get() + k) - T(0.5) * squares;
        T* const to = in.out + t * states + k;
        const int64_t left = (in.steps - t) * states - k;
        if (__builtin_expect(left >= W, 1))  // rows are written in order, each over what the one before wrote too much
          put<T, W>(to, v);
        else
          std::memcpy(to, &v, size_t(std::min(left, states - k)) * sizeof(T));
      }
  });
}

// Adds the sums over some steps, of C columns from `column` on, for one vector of states.
template <class T, int W, int C>
HS_INLINE void add_moments(const Prepared<T>& prepared, const NormalMoments<T>& in, int64_t begin, int64_t end,
                           int64_t state, int64_t column, T* sums) {
  const int64_t states = in.of.states, columns = in.of.columns;
  Row<T, W> weight = {}, first[C] = {}, second[C] = {};
  for (int64_t t = begin; t < end; ++t) {
    const int64_t left = (in.steps - t) * states - state;
    const Row<T, W> w = read<T, W>(in.weights + t * states + state, states - state, left, T(0));
    weight += w;
#pragma GCC unroll 4
    for (int i = 0; i < C; ++i) {
      const Row<T, W> a = prepared.template deviation<W>(in.values[t * columns + column + i], column + i, state);
      const Row<T, W> weighted = w * a;
      first[i] += weighted;
      second[i] += weighted * a;
    }
  }
  const auto add = [&](int64_t row, Row<T, W> v) {
    T* const at = sums + row * prepared.pitch + state;
    put<T, W>(at, get<T, W>(at) + v);
  };
  if (column == 0) add(0, weight);
  for (int i = 0; i < C; ++i) add(1 + column + i, first[i]), add(1 + columns + column + i, second[i]);
}

template <class T>
void moments(const NormalMoments<T>& in) {
  const Prepared<T> prepared(in.of);
  const int64_t states = in.of.states, columns = in.of.columns, pitch = prepared.pitch;
  const Buffer<T> sums((1 + 2 * columns) * pitch);
  std::memset(sums.get(), 0, size_t((1 + 2 * columns) * pitch) * sizeof(T));
  with_width<T>(states, [&](auto width) {
    constexpr int W = decltype(width)::value;
    for (int64_t begin = 0; begin < in.steps; begin += BLOCK) {
      const int64_t end = std::min(begin + BLOCK, in.steps);
      for (int64_t k = 0; k < states; k += W) {
        int64_t i = 0;
        for (; i + COLUMNS <= columns; i += COLUMNS)
          add_moments<T, W, COLUMNS>(prepared, in, begin, end, k, i, sums.get());
        for (; i + 2 <= columns; i += 2) add_moments<T, W, 2>(prepared, in, begin, end, k, i, sums.get());
        for (; i < columns; ++i) add_moments<T, W, 1>(prepared, in, begin, end, k, i, sums.get());
      }
    }
  });
  for (int64_t k = 0; k < states; ++k) {
    in.weight[k] = sums.get()[k];
    for (int64_t i = 0; i < columns; ++i) {
      in.first[k * columns + i] = sums.get()[(1 + i) * pitch + k];
      in.second[k * columns + i] = sums.get()[(1 + columns + i) * pitch + k];
    }
  }
}

}  // namespace

extern const NormalTable normal_table;
const NormalTable normal_table = {densities<float>, densities<double>, moments<float>, moments<double>};

}  // namespace HS_ISA
}  // namespace hs
