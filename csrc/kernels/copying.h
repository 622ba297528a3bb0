// Chains whose state is kept or drawn afresh: transitions that are a multiple of the identity plus a matrix of rank one,
// so that a step costs as many operations as there are states.
#pragma once
#include <cstdint>

namespace hs {

// Sequences that share a chain: `time` rows of `states` numbers each, of which the first lengths[i] count.
template <class T>
struct Copying {
  int64_t states, time;
  const T *stay, *fresh;  // the probability that a state is kept, and those of resets into each; logarithms for `best`
  const int32_t* lengths;
};

template <class T>
struct CopyForward {
  const T *first, *likelihoods;
  T *evidence, *final;
  T *predicted, *filtered;  // null where they are not wanted
};

// The way back: derivatives of the evidence and of the last belief, with respect to all that it was computed from.
template <class T>
struct CopySlopes {
  const T *first, *evidence, *filtered, *d_evidence, *d_final;
  T *d_likelihoods, *d_first, *d_stay, *d_fresh;  // the last two of each sequence
};

template <class T>
struct CopySmooth {
  const T* filtered;
  T* smoothed;
};

// The most probable path, with the log-probability of each of its steps. There the chain's `stay` has a number for each
// state, the log-probability of finding it again whether it was kept or drawn.
template <class T>
struct CopyBest {
  const T *first, *likelihoods;  // both logarithms
  int32_t* path;
  T* steps;
};

// A path from the posterior, by Gumbel noise of which the last row is for the last state.
template <class T>
struct CopyDraw {
  const T *filtered, *noise;
  int32_t* path;
};

// Each for sequence i.
template <class T>
struct CopyRuns {
  void (*forward)(const Copying<T>&, const CopyForward<T>&, int64_t i);
  void (*slopes)(const Copying<T>&, const CopySlopes<T>&, int64_t i);
  void (*smooth)(const Copying<T>&, const CopySmooth<T>&, int64_t i);
  void (*best)(const Copying<T>&, const CopyBest<T>&, int64_t i);
  void (*draw)(const Copying<T>&, const CopyDraw<T>&, int64_t i);
};

struct CopyTable {
  CopyRuns<float> single;
  CopyRuns<double> precise;

  const CopyRuns<float>& runs(float) const { return single; }
  const CopyRuns<double>& runs(double) const { return precise; }
};

}  // namespace hs
