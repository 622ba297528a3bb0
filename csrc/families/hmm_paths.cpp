// Paths through hidden Markov models, vectorised over states.
//
// The most probable path: the best scores of all states, and on the way back from which state each was reached. Where
// the states fit into one vector, that state is kept for each; where they are many, the scores are kept, and on the way
// back one column of the matrix tells the state.
#include "kernels/hmm_paths.h"

#include "kernels/hmm_best.h"
#include "kernels/hmm_best_lanes.h"
#include "kernels/rows.h"
#include "kernels/together.h"

namespace hs {
namespace HS_ISA {
namespace {

// The best scores of R sequences in J vectors of columns, before their likelihoods.
template <class T, int W, int R, int J>
HS_INLINE void best_tile(const T* const* scores, const T* matrix, int64_t states, int64_t pitch, T* const* out) {
  Row<T, W> best[R][J];
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) best[r][j] = row_of<T, W>(-T(INFINITY));
  for (int64_t i = 0; i < states; ++i)
    for (int j = 0; j < J; ++j) {
      const Row<T, W> moves = get<T, W>(matrix + i * pitch + j * W);
      for (int r = 0; r < R; ++r) {
        const Row<T, W> reached = moves + scores[r][i];
        best[r][j] = reached > best[r][j] ? reached : best[r][j];
      }
    }
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) put<T, W>(out[r] + j * W, best[r][j]);
}

template <class T, int W, int R, int J>
HS_INLINE void best_columns(const T* const* scores, const T* matrix, int64_t states, int64_t pitch, T* const* out) {
  int64_t j = 0;
  T* at[R];
  for (; j + J * W <= pitch; j += J * W) {
    for (int r = 0; r < R; ++r) at[r] = out[r] + j;
    best_tile<T, W, R, J>(scores, matrix + j, states, pitch, at);
  }
  for (; j < pitch; j += W) {
    for (int r = 0; r < R; ++r) at[r] = out[r] + j;
    best_tile<T, W, R, 1>(scores, matrix + j, states, pitch, at);
  }
}

template <class T, int W>
void best_rows(int64_t count, const T* const* scores, const T* matrix, int64_t states, int64_t pitch, T* const* out) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4)
    best_columns<T, W, 4, MANY_REGISTERS ? 4 : 2>(scores + r, matrix, states, pitch, out + r);
  for (; r + 2 <= count; r += 2) best_columns<T, W, 2, 4>(scores + r, matrix, states, pitch, out + r);
  for (; r < count; ++r) best_columns<T, W, 1, 8>(scores + r, matrix, states, pitch, out + r);
}

template <class T>
struct Run {
  int64_t sequence, at, left;
  T shift;  // the largest score: taken off the next likelihoods, so that scores stay small
  std::unique_ptr<Buffer<T>> kept;
  int64_t room = 0;
  T *row, *origins;  // of a few states, the last scores and from which states all came; of many, all scores
};

template <class T>
class Best {
 public:
  explicit Best(const HmmBest<T>& in) : in_(in), pitch_(pitch_of<T>(in.states)) {}

  void run(int64_t begin, int64_t end) {
    Run<T> slots[TOGETHER];
    run_together(
        slots, begin, end, [&](Run<T>& run, int64_t sequence) { start(run, sequence); },
        [&](Run<T>* const* runs, int64_t count) { advance(runs, count, fewest_left(runs, count)); },
        [&](const Run<T>& run) { finish(run); });
  }

 private:
  void start(Run<T>& run, int64_t sequence) {
    run.sequence = sequence;
    run.at = 0;
    run.left = in_.lengths[sequence];
    const int64_t due = (run.left + 1) * pitch_;
    if (run.room < due) run.kept.reset(new Buffer<T>(run.room = due));
    run.row = run.kept->get();
    // A move of no cost to where the chain begins.
    for (int64_t j = 0; j < pitch_; ++j)
      run.row[j] = j < in_.states ? in_.first[sequence * in_.states + j] : -T(INFINITY);
    run.shift = T(0);
  }

  void advance(Run<T>* const* runs, int64_t count, int64_t steps) {
    with_width<T>(in_.states, [&](auto width) {
      constexpr int W = decltype(width)::value;
      if (pitch_ > W) return many<W>(runs, count, steps);
      if (count == 4) return few<W, 4>(runs, steps);
      if (count == 3) return few<W, 3>(runs, steps);
      if (count == 2) return few<W, 2>(runs, steps);
      few<W, 1>(runs, steps);
    });
  }

  HS_INLINE static T off(T top) { return top > -T(INFINITY) ? top : T(0); }

  // Row t + 1 of what is kept says for each state at t from which one at t - 1 it was reached; row 0 is the last scores.
  template <int W, int R>
  void few(Run<T>* const* runs, int64_t steps) {
    const int64_t states = in_.states;
    Row<T, W> scores[R];
    const T* seen[R];
    for (int r = 0; r < R; ++r) {
      scores[r] = get<T, W>(runs[r]->row);
      seen[r] = in_.likelihoods + (runs[r]->sequence * in_.time + runs[r]->at) * states;
    }
    for (int64_t t = 0; t < steps; ++t)
      for (int r = 0; r < R; ++r) {
        Run<T>& run = *runs[r];
        const int64_t left = (in_.time - run.at - t) * states;
        const Row<T, W> likelihoods =
            read<T, W>(seen[r] + t * states, states, left, -T(INFINITY)) - run.shift;
        if (run.at + t > 0) {
          T* const before = run.row;
          put<T, W>(before, scores[r]);
          Row<T, W> best = get<T, W>(in_.matrix) + before[0];
          typename Wide<T, W>::integers where = {};
          for (int64_t i = 1; i < states; ++i) {
            const Row<T, W> reached = get<T, W>(in_.matrix + i * W) + before[i];
            where = reached > best ? Integer<T>(i) - typename Wide<T, W>::integers{} : where;
            best = reached > best ? reached : best;
          }
          scores[r] = best;
          std::memcpy(before + (run.at + t) * W, &where, sizeof where);
        }
        scores[r] += likelihoods;
        run.shift = off(max_of<T, W>(scores[r]));
      }
    for (int r = 0; r < R; ++r) {
      put<T, W>(runs[r]->row, scores[r]);
      runs[r]->at += steps;
      runs[r]->left -= steps;
    }
  }

  // Row t of what is kept are the scores of step t.
  template <int W>
  void many(Run<T>* const* runs, int64_t count, int64_t steps) {
    const int64_t states = in_.states;
    for (int64_t t = 0; t < steps; ++t) {
      const T* before[TOGETHER];
      T* scores[TOGETHER];
      int64_t moving = 0;
      for (int64_t r = 0; r < count; ++r)
        if (runs[r]->at > 0) {
          before[moving] = runs[r]->row + (runs[r]->at - 1) * pitch_;
          scores[moving++] = runs[r]->row + runs[r]->at * pitch_;
        }
      best_rows<T, W>(moving, before, in_.matrix, states, pitch_, scores);
      for (int64_t r = 0; r < count; ++r) {
        Run<T>& run = *runs[r];
        const T* const seen = in_.likelihoods + (run.sequence * in_.time + run.at) * states;
        T* const row = run.row + run.at * pitch_;
        Row<T, W> top = row_of<T, W>(-T(INFINITY));
        for (int64_t j = 0; j < pitch_; j += W) {
          const int64_t left = (in_.time - run.at) * states - j;
          const Row<T, W> likelihoods = read<T, W>(seen + j, states - j, left, -T(INFINITY)) - run.shift;
          const Row<T, W> reached = get<T, W>(row + j) + likelihoods;
          put<T, W>(row + j, reached);
          top = reached > top ? reached : top;
        }
        run.shift = off(max_of<T, W>(top));
        ++run.at;
        --run.left;
      }
    }
  }

  void finish(const Run<T>& run) {
    if (run.at > 0) with_width<T>(in_.states, [&](auto width) { trace<decltype(width)::value>(run); });
    finish_best<T>(in_, run.sequence, run.at);
  }

  template <int W>
  void trace(const Run<T>& run) {
    const bool few = pitch_ == W;
    const int64_t from = run.sequence * in_.time;
    const T* const last = run.row + (few ? 0 : (run.at - 1) * pitch_);
    int64_t state = first_largest<T, W>(pitch_, [&](int64_t j) { return get<T, W>(last + j); });
    for (int64_t t = run.at - 1; t > 0; --t) {
      int64_t before;
      if (few) {
        Integer<T> origin;
        std::memcpy(&origin, run.row + t * W + state, sizeof origin);
        before = origin;
      } else {
        const T *const scores = run.row + (t - 1) * pitch_, *const moves = in_.columns + state * pitch_;
        before = first_largest<T, W>(pitch_, [&](int64_t j) { return get<T, W>(scores + j) + get<T, W>(moves + j); });
      }
      in_.path[from + t] = int32_t(state);
      in_.steps[from + t] = step_of<T>(in_, pitch_, run.sequence, t, before, state);
      state = before;
    }
    in_.path[from] = int32_t(state);
    in_.steps[from] = step_of<T>(in_, pitch_, run.sequence, 0, 0, state);
  }

  const HmmBest<T>& in_;
  const int64_t pitch_;
};

template <class T>
void best(const HmmBest<T>& in, int64_t begin, int64_t end) {
  side_by_side<T>(
      in.lengths, in.states, begin, end,
      [&](int64_t begin, int64_t end, auto states) { BestAbreast<T, decltype(states)::value>(in, begin, end).run(); },
      [&](int64_t begin, int64_t end) { Best<T>(in).run(begin, end); });
}

template <class T>
void draw_one(const HmmDraw<T>& in, int64_t sequence) {
  if (in.time == 0) return;
  constexpr int W = Lanes<T>::count;
  const int64_t states = in.states, pitch = pitch_of<T>(states), length = in.lengths[sequence];
  const int64_t from = sequence * in.time, size = in.time * states;
  const T *const filtered = in.filtered + from * states, *const noise = in.noise + from * states;
  int32_t* const path = in.path + from;
  const int64_t end = (length > 0 ? length - 1 : 0) * states;
  int64_t state = first_largest<T, W>(states, [&](int64_t j) {
    const int64_t last = (in.time - 1) * states + j;
    return logarithm<T>(read<T, W>(filtered + end + j, states - j, size - end - j, T(0))) +
           read<T, W>(noise + last, states - j, size - last, T(0));
  });
  for (int64_t t = length > 0 ? length - 1 : 0; t < in.time; ++t) path[t] = int32_t(state);
  for (int64_t t = length - 2; t >= 0; --t) {
    const T* const moves = in.columns + state * pitch;
    const int64_t row = t * states;
    state = first_largest<T, W>(states, [&](int64_t j) {
      const Vec<T> joint = read<T, W>(filtered + row + j, states - j, size - row - j, T(0)) *
                           read<T, W>(moves + j, states - j, pitch - j, T(0));
      return logarithm<T>(joint) + read<T, W>(noise + row + j, states - j, size - row - j, T(0));
    });
    path[t] = int32_t(state);
  }
}

template <class T>
void draw(const HmmDraw<T>& in, int64_t begin, int64_t end) {
  for (int64_t sequence = begin; sequence < end; ++sequence) draw_one<T>(in, sequence);
}

template <class T>
int64_t size(int64_t states) {
  return pitch_of<T>(states) * pitch_of<T>(states);
}

template <class T>
void prepare(const T* matrix, int64_t states, bool transposed, T padding, T* out) {
  pad_matrix<T>(matrix, states, transposed, padding, out);
}

}  // namespace

extern const HmmPathsTable hmm_paths_table;
const HmmPathsTable hmm_paths_table = {lanes_for<float>, lanes_for<double>, size<float>, size<double>, prepare<float>,
                                       prepare<double>,  best<float>,       best<double>, draw<float>, draw<double>};

}  // namespace HS_ISA
}  // namespace hs
