// The way back through hidden Markov models, vectorised over states; several sequences go together.
//
// With f_t the filtered belief, P the matrix and g_t the likelihoods relative to the evidence, so that f_t is the
// predicted belief times g_t, the adjoint a_t of the predicted belief follows from v = P a_{t+1}:
//     adjoint of the log-likelihoods  f_t (v - f_t . v + slope_t),       a_t = g_t (v - f_t . v + slope_t)
// and smoothed beliefs, with a_t their ratio to predicted ones, from
//     smoothed belief                 f_t v / (f_t . v),                 a_t = g_t v / (f_t . v).
// A state that cannot be has a_t = 0. The matrix gets the sum of the outer products of f_t and a_{t+1}.
#include "kernels/hmm_backward.h"

#include "kernels/hmm_adjoint.h"
#include "kernels/hmm_backward_lanes.h"
#include "kernels/outer.h"
#include "kernels/rows.h"
#include "kernels/together.h"

namespace hs {
namespace HS_ISA {
namespace {

template <class T>
struct Run {
  int64_t sequence, left;  // `left` steps are before where it is
  int64_t inside, rows;    // `inside` of these in its piece of time, of which the buffers hold `rows` steps
  bool last;               // nothing follows
  T *filtered, *ratios;    // rows: f of many states, and g, in whose place the results come
  T *likely, *factors;     // of few states: g is a row without padding times a factor
  T *adjoints;             // one row more: a_t .. a_{t + steps}
  T *moved, *slopes;
  T *chain;                // of few states: a_t of the last step, up to what cancels; see `few`
  T expected;              // of few states: f_t . v of the next step, where it is known
  bool known;
  T *recent, *sums;
  int64_t pieces;
};

// Rows of an array as padded rows.
template <class T, int W>
void read_rows(const T* from, int64_t left, int64_t states, int64_t pitch, int64_t steps, T* out) {
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t j = 0; j < pitch; j += W) {
      const int64_t at = t * states + j;
      put<T, W>(out + t * pitch + j, read<T, W>(from + at, states - j, left - at, T(0)));
    }
}

// g of some steps: zero where f is; one where the observation was impossible, so that the belief stayed.
template <class T, int W>
void likelihood_ratios(const T* seen, const T* top, const T* total, int64_t left, int64_t states, int64_t pitch,
                       int64_t steps, const T* filtered, T* out) {
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t j = 0; j < pitch; j += W) {
      const int64_t at = t * states + j;
      const Row<T, W> v = read<T, W>(seen + at, states - j, left - at, -T(INFINITY));
      put<T, W>(out + t * pitch + j, top[t] > -T(INFINITY) ? v - top[t] : row_of<T, W>(T(0)));
    }
  for (int64_t i = 0; i < steps * pitch; i += Lanes<T>::count) store<T>(out + i, exp_normal<T>(load<T>(out + i)));
  for (int64_t t = 0; t < steps; ++t) {
    const T factor = T(1) / total[t];
    for (int64_t j = 0; j < pitch; j += W) {
      T* const row = out + t * pitch + j;
      const Row<T, W> f = get<T, W>(filtered + t * pitch + j);
      put<T, W>(row, f > T(0) ? get<T, W>(row) * factor : row_of<T, W>(T(0)));
    }
  }
}

// The same for states that fit into one vector, in rows without padding, before they are divided by the total and zero
// where f is; and the inverse totals. Each row is written over what the one before wrote too much.
template <class T, int W>
void packed_likelihoods(const T* seen, const T* top, const T* total, int64_t left, int64_t states, int64_t steps, T* out,
                        T* factors) {
  for (int64_t t = 0; t < steps; ++t) {
    const Row<T, W> v = read<T, W>(seen + t * states, states, left - t * states, T(0));
    put<T, W>(out + t * states, top[t] > -T(INFINITY) ? v - top[t] : row_of<T, W>(T(0)));
  }
  const int64_t size = (steps - 1) * states + W;
  for (int64_t i = 0; i < size; i += Lanes<T>::count) store<T>(out + i, exp_normal<T>(load<T>(out + i)));
  for (int64_t t = 0; t < steps; t += Lanes<T>::count) {
    const int count = int(std::min<int64_t>(steps - t, Lanes<T>::count));
    store<T>(factors + t, T(1) / load_some<T>(total + t, count, T(1)));
  }
}

template <class T>
class Backward {
 public:
  explicit Backward(const HmmBackward<T>& in)
      : in_(in),
        pitch_(pitch_of<T>(in.states)),
        piece_(piece_for(pitch_)),
        rows_((piece_ + 1) * pitch_ + Lanes<T>::count),
        size_(4 * rows_ + 2 * pitch_ + 2 * (piece_ + Lanes<T>::count)),
        square_(pitch_ * pitch_),
        memory_(TOGETHER * size_),
        squares_(2 * square_ * TOGETHER) {}

  void run(int64_t begin, int64_t end) {
    Run<T> slots[TOGETHER];
    for (int i = 0; i < TOGETHER; ++i) lay_out(slots[i], i);
    run_together(
        slots, begin, end, [&](Run<T>& run, int64_t sequence) { start(run, sequence); },
        [&](Run<T>* const* runs, int64_t count) { retreat(runs, count); },
        [&](Run<T>& run) { finish(run); });
  }

 private:
  void lay_out(Run<T>& run, int64_t i) {
    run.filtered = memory_.get() + i * size_;
    run.ratios = run.filtered + rows_;
    run.adjoints = run.ratios + rows_;
    run.moved = run.adjoints + rows_;
    run.chain = run.moved + pitch_;
    run.slopes = run.chain + pitch_;
    run.factors = run.slopes + piece_ + Lanes<T>::count;
    run.likely = run.factors + piece_ + Lanes<T>::count;
    run.recent = squares_.get() + 2 * i * square_;
    run.sums = run.recent + square_;
  }

  void start(Run<T>& run, int64_t sequence) {
    run.sequence = sequence;
    run.left = in_.lengths[sequence];
    run.inside = 0;
    run.last = true;
    run.pieces = 0;
    std::memset(run.recent, 0, size_t(2 * square_) * sizeof(T));
    // Behind the end the last belief stood: what is asked of it there comes first.
    for (int64_t j = 0; j < pitch_; ++j)
      run.adjoints[j] = in_.smooth || j >= in_.states ? T(0) : in_.d_final[sequence * in_.states + j];
    if (in_.d_predicted)
      for (int64_t t = in_.time - 1; t >= run.left; --t)
        for (int64_t j = 0; j < in_.states; ++j)
          run.adjoints[j] += in_.d_predicted[(sequence * in_.time + t) * in_.states + j];
  }

  // Pieces of time are those of the sequence, whichever goes along: sums over them are always the same.
  void retreat(Run<T>* const* runs, int64_t count) {
    if (fewest_left(runs, count) == 0) return;
    with_width<T>(in_.states, [&](auto width) {
      constexpr int W = decltype(width)::value;
      int64_t steps = piece_;
      for (int64_t i = 0; i < count; ++i) {
        if (runs[i]->inside == 0) fetch<W>(*runs[i]);
        steps = std::min(steps, runs[i]->inside);
      }
      if (pitch_ > W)
        many<W>(runs, count, steps);
      else
        with_chains<W>(in_.states, [&](auto chains, auto length) {
          few<W, decltype(chains)::value, decltype(length)::value>(runs, count, steps);
        });
      for (int64_t i = 0; i < count; ++i)
        if (runs[i]->inside == 0) settle<W>(*runs[i]);
    });
  }

  template <int W>
  void fetch(Run<T>& run) {
    const int64_t steps = run.left % piece_ ? run.left % piece_ : piece_, states = in_.states;
    const int64_t at = run.sequence * in_.time + run.left - steps, left = (in_.time - (run.left - steps)) * states;
    run.inside = run.rows = steps;
    std::memmove(run.adjoints + steps * pitch_, run.adjoints, size_t(pitch_) * sizeof(T));
    std::memcpy(run.chain, run.adjoints + steps * pitch_, size_t(pitch_) * sizeof(T));
    run.known = in_.smooth && !run.last;
    const T *const seen = in_.likelihoods + at * states, *const top = in_.top + at, *const total = in_.total + at;
    if (pitch_ > W) {
      read_rows<T, W>(in_.filtered + at * states, left, states, pitch_, steps, run.filtered);
      likelihood_ratios<T, W>(seen, top, total, left, states, pitch_, steps, run.filtered, run.ratios);
    } else {
      packed_likelihoods<T, W>(seen, top, total, left, states, steps, run.likely, run.factors);
    }
    if (in_.d_evidence) std::memcpy(run.slopes, in_.d_evidence + at, size_t(steps) * sizeof(T));
  }

  // The states fit into one vector. The next step waits for v alone, not for f_t . v, which is known up to rounding: one to
  // smooth, otherwise the slope of the step behind. So a_t goes on with what rounding did to it, which cancels where
  // results divide by f_t . v, or take it off; each piece of time begins anew from such a result.
  template <int W, int N, int B>
  void few(Run<T>* const* runs, int64_t count, int64_t steps) {
    const HeldMatrix<T, W, N, B> held(in_.matrix);
    const bool smooth = in_.smooth, more = in_.d_filtered || in_.d_predicted;
    const int64_t states = in_.states;
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t r = 0; r < count; ++r) {
        Run<T>& run = *runs[r];
        const int64_t t = --run.inside;
        --run.left;
        const Row<T, W> moved = held.product(run.chain);
        const int64_t at = run.sequence * in_.time + run.left, left = (in_.time - run.left) * states;
        const Row<T, W> f = read<T, W>(in_.filtered + at * states, states, left, T(0));
        const Row<T, W> likely = get<T, W>(run.likely + t * states) * run.factors[t];
        const Row<T, W> g = f > T(0) ? likely : row_of<T, W>(T(0));
        T* const adjoint = run.adjoints + t * W;
        if (__builtin_expect(run.last || more || !(in_.top[at] > -T(INFINITY)), 0)) {
          put<T, W>(run.moved, moved);
          put<T, W>(run.filtered + t * W, f);
          put<T, W>(run.ratios + t * W, g);
          condition<W>(run);
          put<T, W>(run.chain, get<T, W>(adjoint));
          run.known = smooth;
          continue;
        }
        const T sum = sum_of<T, W>(f * moved);
        Row<T, W> v;
        if (smooth) {
          put<T, W>(run.chain, g * moved);
          v = moved * (T(1) / sum);
        } else {
          const T slope = run.slopes[t];
          put<T, W>(run.chain, g * (moved + (slope - (__builtin_expect(run.known, 1) ? run.expected : sum))));
          v = moved + (slope - sum);
          run.expected = slope;
          run.known = true;
        }
        put<T, W>(adjoint, g * v);
        put<T, W>(run.ratios + t * W, f * v);
      }
  }

  template <int W>
  void many(Run<T>* const* runs, int64_t count, int64_t steps) {
    for (int64_t t = 0; t < steps; ++t) {
      const T* later[TOGETHER];
      T* moved[TOGETHER];
      for (int64_t r = 0; r < count; ++r) {
        --runs[r]->inside, --runs[r]->left;
        later[r] = runs[r]->adjoints + (runs[r]->inside + 1) * pitch_;
        moved[r] = runs[r]->moved;
      }
      product<T, W>(count, later, in_.matrix, in_.states, pitch_, moved);
      for (int64_t r = 0; r < count; ++r) condition<W>(*runs[r]);
    }
  }

  // One step of one sequence, from v in `moved`.
  template <int W>
  void condition(Run<T>& run) {
    const int64_t t = run.inside, at = run.sequence * in_.time + run.left;
    if (__builtin_expect(in_.smooth && run.last, 0)) {
      for (int64_t j = 0; j < pitch_; ++j) run.moved[j] = T(1);
    } else if (in_.d_filtered) {
      add_row<T>(in_.d_filtered, at, in_.states, run.moved);
      if (run.last)
        for (int64_t later = at + 1; later < (run.sequence + 1) * in_.time; ++later)
          add_row<T>(in_.d_filtered, later, in_.states, run.moved);
    }
    run.last = false;
    T *const f = run.filtered + t * pitch_, *const g = run.ratios + t * pitch_, *const a = run.adjoints + t * pitch_;
    Row<T, W> sums = {};
    for (int64_t j = 0; j < pitch_; j += W) sums += get<T, W>(f + j) * get<T, W>(run.moved + j);
    const T sum = sum_of<T, W>(sums);
    if (in_.smooth) {
      const T factor = T(1) / sum;
      for (int64_t j = 0; j < pitch_; j += W) {
        const Row<T, W> v = get<T, W>(run.moved + j) * factor;
        put<T, W>(a + j, get<T, W>(g + j) * v);
        put<T, W>(g + j, get<T, W>(f + j) * v);
      }
      return;
    }
    if (__builtin_expect(in_.top[at] > -T(INFINITY), 1)) {
      const T shift = run.slopes[t] - sum;
      for (int64_t j = 0; j < pitch_; j += W) {
        const Row<T, W> v = get<T, W>(run.moved + j) + shift;
        put<T, W>(a + j, get<T, W>(g + j) * v);
        put<T, W>(g + j, get<T, W>(f + j) * v);
      }
    } else {
      std::memcpy(a, run.moved, size_t(pitch_) * sizeof(T));
      std::memset(g, 0, size_t(pitch_) * sizeof(T));
    }
    if (in_.d_predicted) add_row<T>(in_.d_predicted, at, in_.states, a);
  }

  template <int W>
  void settle(Run<T>& run) {
    const int64_t states = in_.states, at = run.sequence * in_.time + run.left;
    write_rows<T, W>(in_.rows + at * states, run.ratios, nullptr, run.rows, states, pitch_);
    const bool few = pitch_ == W;
    const T* const filtered = few ? in_.filtered + at * states : run.filtered;
    add_outer<T, W>(filtered, few ? states : pitch_, run.adjoints + pitch_, run.rows, states, pitch_, run.recent);
    if (++run.pieces % SETTLED == 0) join(run);
  }

  void join(const Run<T>& run) {
    for (int64_t i = 0; i < square_; ++i) run.sums[i] += run.recent[i], run.recent[i] = T(0);
  }

  void finish(Run<T>& run) {
    join(run);
    finish_backward<T>(in_, run.sequence, run.adjoints, run.sums, pitch_);
  }

  const HmmBackward<T>& in_;
  const int64_t pitch_, piece_, rows_, size_, square_;
  const Buffer<T> memory_, squares_;
};

template <class T>
void backward(const HmmBackward<T>& in, int64_t begin, int64_t end) {
  const auto rows = [&](int64_t begin, int64_t end) { Backward<T>(in).run(begin, end); };
  if (in.d_predicted || in.d_filtered) return rows(begin, end);
  side_by_side<T>(
      in.lengths, in.states, begin, end,
      [&](int64_t begin, int64_t end, auto states) { BackwardAbreast<T, decltype(states)::value>(in, begin, end).run(); },
      rows);
}

template <class T>
int64_t size(int64_t states) {
  return pitch_of<T>(states) * pitch_of<T>(states);
}

template <class T>
void prepare(const T* matrix, int64_t states, T* out) {
  pad_matrix<T>(matrix, states, true, T(0), out);
}

}  // namespace

extern const HmmBackwardTable hmm_backward_table;
const HmmBackwardTable hmm_backward_table = {lanes_for<float>, lanes_for<double>, size<float>,     size<double>,
                                             prepare<float>,   prepare<double>,   backward<float>, backward<double>};

}  // namespace HS_ISA
}  // namespace hs
