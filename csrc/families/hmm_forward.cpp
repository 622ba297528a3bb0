// The forward recursion of hidden Markov models, vectorised over states; several sequences advance together, so that
// the matrix is loaded once for all of them and none waits for its own last result.
//
// Beliefs are not normalised on the way: the next step needs them only up to a factor, and a division for each step
// would be waited for. They are held near a large power of two, by factors that are powers of two, so that small ones
// keep their digits; sums, and from them the evidence, are kept beside.
#include "kernels/hmm_forward.h"

#include "kernels/hmm_belief.h"
#include "kernels/hmm_forward_lanes.h"
#include "kernels/rows.h"
#include "kernels/together.h"

namespace hs {
namespace HS_ISA {
namespace {

constexpr int64_t KEPT = 4096;  // numbers of one sequence that are worked on at a time

// One of the sequences that advance together, and its piece of time.
template <class T>
struct Run {
  int64_t sequence, at, left;
  const T* seen;  // log-likelihoods from `at` on
  T scale;        // the belief is scale times a distribution
  T* belief;
  T *likely;               // rows without padding, of few states: likelihoods
  T *weights, *before;     // rows: likelihoods of many states, then joint weights; beliefs before the observations
  T *top, *sum, *divisor;  // total = sum / divisor
  T *scales;
};

// The likelihoods of some steps, relative to the largest of each, in padded rows with zeros in the padding.
template <class T, int W>
void exponentials(const T* seen, int64_t left, int64_t states, int64_t pitch, int64_t steps, T* out, T* top) {
  for (int64_t t = 0; t < steps; ++t) {
    T* const row = out + t * pitch;
    Row<T, W> first = read<T, W>(seen + t * states, states, left - t * states, -T(INFINITY)), best = first;
    for (int64_t j = W; j < pitch; j += W) {
      const int64_t from = t * states + j;
      const Row<T, W> v = read<T, W>(seen + from, states - j, left - from, -T(INFINITY));
      put<T, W>(row + j, v);
      best = v > best ? v : best;
    }
    const T largest = max_of<T, W>(best), shift = largest > -T(INFINITY) ? largest : T(0);
    top[t] = largest;
    put<T, W>(row, first - shift);
    for (int64_t j = W; j < pitch; j += W) put<T, W>(row + j, get<T, W>(row + j) - shift);
  }
  for (int64_t i = 0; i < steps * pitch; i += Lanes<T>::count) store<T>(out + i, exp_normal<T>(load<T>(out + i)));
}

// The same for states that fit into one vector, in rows without padding: no time goes into exponentials of padding. Each
// row is written over what the one before wrote too much.
template <class T, int W>
void packed_exponentials(const T* seen, int64_t left, int64_t states, int64_t steps, T* out, T* top) {
  for (int64_t t = 0; t < steps; ++t) {
    const Row<T, W> v = read<T, W>(seen + t * states, states, left - t * states, -T(INFINITY));
    const T largest = max_of<T, W>(v), shift = largest > -T(INFINITY) ? largest : T(0);
    top[t] = largest;
    put<T, W>(out + t * states, v - shift);
  }
  const int64_t size = (steps - 1) * states + W;  // the last row with its padding
  for (int64_t i = 0; i < size; i += Lanes<T>::count) store<T>(out + i, exp_normal<T>(load<T>(out + i)));
}

// A step whose sum is too small.
template <class T>
HS_INLINE void doubt(Run<T>& run, int64_t t, int64_t states, int64_t pitch, const T* belief, T scale) {
  const Joint<T> found = by_logarithms<T>(belief, scale, run.seen + t * states, states, run.weights + t * pitch);
  run.top[t] = found.top, run.sum[t] = found.sum, run.divisor[t] = found.divisor;
}

// The states fit into one vector: beliefs stay in registers. They are zero in the padding, whatever likelihoods are there.
template <class T, int W, int N, int B, int R>
void advance_few(Run<T>* const* runs, int64_t states, const T* matrix, int64_t steps) {
  const HeldMatrix<T, W, N, B> held(matrix);
  Row<T, W> belief[R];
  T scale[R];
  const T* likely[R];
  T *weights[R], *before[R], *sums[R], *divisors[R], *scales[R];
  for (int r = 0; r < R; ++r) {
    const Run<T>& run = *runs[r];
    belief[r] = get<T, W>(run.belief), scale[r] = run.scale;
    likely[r] = run.likely, weights[r] = run.weights, before[r] = run.before;
    sums[r] = run.sum, divisors[r] = run.divisor, scales[r] = run.scales;
  }
  for (int64_t t = 0; t < steps; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      T* const row = weights[r] + t * W;
      const Row<T, W> joint = belief[r] * get<T, W>(likely[r] + t * states);
      T sum = sum_of<T, W>(joint);
      put<T, W>(row, joint);
      if (before[r]) put<T, W>(before[r] + t * W, belief[r]), scales[r][t] = scale[r];
      sums[r][t] = sum;
      divisors[r][t] = scale[r];
      if (__builtin_expect(!(sum > Scale<T>::doubtful), 0)) {
        T rest[W];
        put<T, W>(rest, belief[r]);
        doubt<T>(*runs[r], t, states, W, rest, scale[r]);
        sum = sums[r][t];
      }
      const T factor = rescaling<T, typename Lanes<T>::integer>(sum);
      belief[r] = held.product(row) * factor;
      scale[r] = sum * factor;
    }
  }
  for (int r = 0; r < R; ++r) put<T, W>(runs[r]->belief, belief[r]), runs[r]->scale = scale[r];
}

template <class T, int W>
void advance_few(int64_t count, Run<T>* const* runs, int64_t states, const T* matrix, int64_t steps) {
  with_chains<W>(states, [&](auto chains, auto length) {
    constexpr int N = decltype(chains)::value, B = decltype(length)::value;
    if (count == 4) return advance_few<T, W, N, B, 4>(runs, states, matrix, steps);
    if (count == 3) return advance_few<T, W, N, B, 3>(runs, states, matrix, steps);
    if (count == 2) return advance_few<T, W, N, B, 2>(runs, states, matrix, steps);
    advance_few<T, W, N, B, 1>(runs, states, matrix, steps);
  });
}

template <class T, int W>
void weigh(Run<T>& run, int64_t t, int64_t states, int64_t pitch) {
  T* const row = run.weights + t * pitch;
  Row<T, W> sums = {};
  for (int64_t j = 0; j < pitch; j += W) {
    const Row<T, W> belief = get<T, W>(run.belief + j), joint = belief * get<T, W>(row + j);
    if (run.before) put<T, W>(run.before + t * pitch + j, belief);
    put<T, W>(row + j, joint);
    sums += joint;
  }
  const T sum = sum_of<T, W>(sums);
  run.scales[t] = run.scale;
  run.sum[t] = sum;
  run.divisor[t] = run.scale;
  if (__builtin_expect(!(sum > Scale<T>::doubtful), 0)) doubt<T>(run, t, states, pitch, run.belief, run.scale);
}

template <class T, int W>
void advance_many(int64_t count, Run<T>* const* runs, int64_t states, int64_t pitch, const T* matrix, int64_t steps) {
  for (int64_t t = 0; t < steps; ++t) {
    const T* joint[TOGETHER];
    T* moved[TOGETHER];
    for (int64_t r = 0; r < count; ++r) {
      weigh<T, W>(*runs[r], t, states, pitch);
      joint[r] = runs[r]->weights + t * pitch;
      moved[r] = runs[r]->belief;
    }
    product<T, W>(count, joint, matrix, states, pitch, moved);
    for (int64_t r = 0; r < count; ++r) {
      const T factor = rescaling<T, typename Lanes<T>::integer>(runs[r]->sum[t]);
      for (int64_t j = 0; j < pitch; j += W) put<T, W>(moved[r] + j, get<T, W>(moved[r] + j) * factor);
      runs[r]->scale = runs[r]->sum[t] * factor;
    }
  }
}

template <class T>
class Forward {
 public:
  explicit Forward(const HmmForward<T>& in)
      : in_(in),
        pitch_(pitch_of<T>(in.states)),
        piece_(std::max<int64_t>(8, std::min<int64_t>(256, KEPT / pitch_))),
        size_(pitch_ + 3 * (piece_ * pitch_ + Lanes<T>::count) + 5 * (piece_ + Lanes<T>::count)),
        memory_(TOGETHER * size_) {}

  void run(int64_t begin, int64_t end) {
    Run<T> slots[TOGETHER];
    for (int i = 0; i < TOGETHER; ++i) lay_out(slots[i], memory_.get() + i * size_);
    run_together(
        slots, begin, end, [&](Run<T>& run, int64_t sequence) { start(run, sequence); },
        [&](Run<T>* const* runs, int64_t count) { advance(runs, count, std::min(piece_, fewest_left(runs, count))); },
        [&](const Run<T>& run) { finish_forward<T>(in_, run.sequence, run.at, run.belief, run.scale); });
  }

 private:
  void lay_out(Run<T>& run, T* memory) {
    const int64_t rows = piece_ * pitch_ + Lanes<T>::count, column = piece_ + Lanes<T>::count;
    run.belief = memory;
    run.likely = memory + pitch_;
    run.weights = run.likely + rows;
    run.before = in_.predicted ? run.weights + rows : nullptr;
    run.top = run.weights + 2 * rows;
    run.sum = run.top + column;
    run.divisor = run.sum + column;
    run.scales = run.divisor + column;
    factors_ = run.scales + column;
  }

  void start(Run<T>& run, int64_t sequence) {
    const int64_t states = in_.states;
    run.sequence = sequence;
    run.at = 0;
    run.left = in_.lengths[sequence];
    run.seen = in_.likelihoods + sequence * in_.time * states;
    run.scale = power_of_scale<T>();
    for (int64_t j = 0; j < pitch_; ++j)
      run.belief[j] = j < states ? in_.first[sequence * states + j] * run.scale : T(0);
  }

  void advance(Run<T>* const* runs, int64_t count, int64_t steps) {
    const int64_t states = in_.states;
    with_width<T>(states, [&](auto width) {
      constexpr int W = decltype(width)::value;
      for (int64_t i = 0; i < count; ++i) {
        Run<T>& run = *runs[i];
        const int64_t left = (in_.time - run.at) * states;
        if (pitch_ > W)
          exponentials<T, W>(run.seen, left, states, pitch_, steps, run.weights, run.top);
        else
          packed_exponentials<T, W>(run.seen, left, states, steps, run.likely, run.top);
      }
      if (pitch_ > W)
        advance_many<T, W>(count, runs, states, pitch_, in_.matrix, steps);
      else
        advance_few<T, W>(count, runs, states, in_.matrix, steps);
      for (int64_t i = 0; i < count; ++i) write<W>(*runs[i], steps);
    });
  }

  // What was found in some steps, into the arrays.
  template <int W>
  void write(Run<T>& run, int64_t steps) {
    const int64_t from = run.sequence * in_.time + run.at, states = in_.states;
    constexpr int lanes = Lanes<T>::count;
    for (int64_t t = 0; t < steps; t += lanes) {
      const int count = int(steps - t < lanes ? steps - t : lanes);
      const Vec<T> total = load<T>(run.sum + t) / load<T>(run.divisor + t), top = load<T>(run.top + t);
      store_up_to<T>(in_.total + from + t, total, count);
      store_up_to<T>(in_.top + from + t, top, count);
      store_up_to<T>(in_.evidence + from + t, top + logarithm<T>(total), count);
    }
    if (in_.filtered) {
      for (int64_t t = 0; t < steps; t += lanes) store<T>(factors_ + t, T(1) / load<T>(run.sum + t));
      write_rows<T, W>(in_.filtered + from * states, run.weights, factors_, steps, states, pitch_);
    }
    if (in_.predicted) {
      for (int64_t t = 0; t < steps; t += lanes) store<T>(factors_ + t, T(1) / load<T>(run.scales + t));
      write_rows<T, W>(in_.predicted + from * states, run.before, factors_, steps, states, pitch_);
    }
    run.at += steps;
    run.left -= steps;
    run.seen += steps * states;
  }

  const HmmForward<T>& in_;
  const int64_t pitch_, piece_, size_;
  const Buffer<T> memory_;
  T* factors_ = nullptr;
};

template <class T>
void forward(const HmmForward<T>& in, int64_t begin, int64_t end) {
  side_by_side<T>(
      in.lengths, in.states, begin, end,
      [&](int64_t begin, int64_t end, auto states) { ForwardAbreast<T, decltype(states)::value>(in, begin, end).run(); },
      [&](int64_t begin, int64_t end) { Forward<T>(in).run(begin, end); });
}

template <class T>
int64_t size(int64_t states) {
  return pitch_of<T>(states) * pitch_of<T>(states);
}

template <class T>
void prepare(const T* matrix, int64_t states, T* out) {
  pad_matrix<T>(matrix, states, false, T(0), out);
}

}  // namespace

extern const HmmForwardTable hmm_forward_table;
const HmmForwardTable hmm_forward_table = {lanes_for<float>, lanes_for<double>, size<float>,    size<double>,
                                           prepare<float>,   prepare<double>,   forward<float>, forward<double>};

}  // namespace HS_ISA
}  // namespace hs
