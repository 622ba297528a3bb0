"""Filter, smoother, pairs, Viterbi, posterior samples and forecasts against the sum over all hidden paths.

The oracle is written in NumPy from the definitions and knows nothing of the library: a list of all paths with their
prior probabilities, and the probability of the observations given each.
"""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import has
from hiddenstate.inference import arrays_for, steps_of
from marks import quick

K, S, T = 3, 4, 5
rng = np.random.default_rng(3)
INITIAL = rng.dirichlet(np.ones(K))
DENSE = rng.dirichlet(np.ones(K), K)
ZEROS = np.array([[0.6, 0.4, 0.0], [0.0, 0.3, 0.7], [0.0, 0.0, 1.0]])
WEIGHTS = rng.normal(size=(K, K, 2))
SYMBOLS = rng.dirichlet(np.ones(S), K)
MOVES = np.array([[0.0, 0.7, 0.3], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
DURATIONS = rng.dirichlet(np.ones(3), K)
US = rng.normal(size=(T + 3, 2))
XS = np.array([1, 3, 0, 2, 1])
AR_XS = np.array([0.3, -0.5, 1.1, 0.2, -0.9])
INTERCEPTS, SLOPES, VARIANCES = np.array([0.0, 1.0, -1.0]), rng.normal(size=(K, 2)) / 3, np.array([0.5, 1.0, 2.0])


def emission():
    return hs.emissions.Categorical(probs=SYMBOLS)


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    found = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return found / found.sum()


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def markov(initial, matrices):
    """The prior probability of every path: `matrices` holds that of each move."""
    steps = len(matrices) + 1

    def prior(path):
        value = initial[path[0]]
        for matrix, a, b in zip(matrices, path[:-1], path[1:], strict=True):
            value *= matrix[a, b]
        return value

    return {path: prior(path) for path in itertools.product(range(K), repeat=steps)}


def semi_markov(steps):
    """The prior probability of every path, by all ways to cut it into segments; the last may be cut off."""
    priors = dict.fromkeys(itertools.product(range(K), repeat=steps), 0.0)

    def grow(path, weight):
        if len(path) == steps:
            priors[path] += weight
            return
        starts = INITIAL if not path else MOVES[path[-1]]
        for state in range(K):
            for duration in range(1, DURATIONS.shape[1] + 1):
                mass = weight * starts[state] * DURATIONS[state, duration - 1]
                grow((*path, *([state] * min(duration, steps - len(path)))), mass)

    grow((), 1.0)
    return priors


def symbol_likelihoods(xs):
    return np.array([SYMBOLS[:, x] if x is not None else np.ones(K) for x in xs])


def regression_likelihoods(xs):
    past = np.concatenate([[0.0, 0.0], xs])
    rows = []
    for t, x in enumerate(xs):
        mean = INTERCEPTS + SLOPES @ past[t : t + 2][::-1]
        rows.append(np.exp(-0.5 * (x - mean) ** 2 / VARIANCES) / np.sqrt(2 * np.pi * VARIANCES))
    return np.array(rows)


def driven(steps):
    return [softmax(np.log(DENSE) + WEIGHTS @ u) for u in US[: steps - 1]]


CASES = {
    "dense": (
        lambda: hs.HMM(INITIAL, DENSE, emission()),
        lambda n: markov(INITIAL, [DENSE] * (n - 1)),
    ),
    "zeros": (
        lambda: hs.HMM([1.0, 0.0, 0.0], ZEROS, emission()),
        lambda n: markov(np.array([1.0, 0, 0]), [ZEROS] * (n - 1)),
    ),
    "stationary": (
        lambda: hs.HMM("stationary", DENSE, emission()),
        lambda n: markov(stationary(DENSE), [DENSE] * (n - 1)),
    ),
    "input-driven": (
        lambda: hs.HMM(INITIAL, hs.InputDriven(DENSE, WEIGHTS), emission()),
        lambda n: markov(INITIAL, driven(n)),
    ),
    "durations": (lambda: hs.HSMM(INITIAL, MOVES, DURATIONS, emission()), semi_markov),
    "autoregressive": (
        lambda: hs.HMM(INITIAL, DENSE, hs.emissions.Autoregressive(INTERCEPTS, SLOPES, VARIANCES)),
        lambda n: markov(INITIAL, [DENSE] * (n - 1)),
    ),
}


class Truth:
    """Every question answered by summing over all paths."""

    def __init__(self, priors, likelihoods):
        self.paths = np.array(list(priors))
        steps = len(likelihoods)
        prior = np.array(list(priors.values()))
        self.each = likelihoods[np.arange(steps), self.paths]
        self.joint = prior * self.each.prod(1)
        self.prior = prior
        self.steps = steps

    def marginals(self, weights):
        out = np.zeros((self.steps, K))
        for t in range(self.steps):
            np.add.at(out[t], self.paths[:, t], weights)
        return out / out.sum(1, keepdims=True)

    def seen(self, upto):
        return self.prior * self.each[:, :upto].prod(1)

    @property
    def filtered(self):
        return np.array([self.marginals(self.seen(t + 1))[t] for t in range(self.steps)])

    def lagged(self, lag):
        return np.array([self.marginals(self.seen(min(t + 1 + lag, self.steps)))[t] for t in range(self.steps)])

    @property
    def pairs(self):
        out = np.zeros((self.steps - 1, K, K))
        for t in range(self.steps - 1):
            np.add.at(out[t], (self.paths[:, t], self.paths[:, t + 1]), self.joint)
        return out / self.joint.sum()


def data_of(name, extra=0):
    xs = AR_XS if name == "autoregressive" else XS
    inputs = US[: T + extra] if name == "input-driven" else None
    return hs.Sequences.of(xs, inputs=inputs)


def truth_of(name, xs=None):
    xs = (AR_XS if name == "autoregressive" else XS) if xs is None else xs
    likelihoods = regression_likelihoods(xs) if name == "autoregressive" else symbol_likelihoods(xs)
    return Truth(CASES[name][1](len(xs)), likelihoods)


def ways(model):
    return [hs.Sequential(), *([hs.Associative()] if has(model, "combine") else [])]


@pytest.fixture(params=quick(CASES, 2))
def name(request):
    return request.param


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10, atol=1e-12)


def test_everything_equals_the_sum_over_all_paths(name):
    model, data, truth = CASES[name][0](), data_of(name), truth_of(name)
    best = np.argmax(truth.joint)
    for way in ways(model):
        close(hs.log_prob(model, data, strategy=way)[0], np.log(truth.joint.sum()))
        close(hs.filter(model, data, strategy=way)[0], truth.filtered)
        smoothed = hs.smooth(model, data, strategy=way)
        close(smoothed.marginals[0], truth.marginals(truth.joint))
        close(smoothed.pairwise[0], truth.pairs)
        decoded = hs.most_likely_states(model, data, strategy=way)
        if name == "durations":  # the best path there is one over states and what remains of them
            assert float(decoded.log_prob[0]) <= np.log(truth.joint[best]) + 1e-12
        else:
            np.testing.assert_array_equal(decoded.states[0], truth.paths[best])
            close(decoded.log_prob[0], np.log(truth.joint[best]))
        for lag in (0, 2, 9):
            close(hs.fixed_lag(model, data, lag, strategy=way)[0], truth.lagged(lag))


def test_the_best_path_with_durations_is_the_best_over_all_segmentations():
    model, xs = CASES["durations"][0](), XS
    likelihoods = symbol_likelihoods(xs)
    best = (-np.inf, ())

    def grow(path, weight):
        nonlocal best
        if len(path) == T:
            weight = np.log(weight) + np.log(likelihoods[np.arange(T), path]).sum() if weight > 0 else -np.inf
            best = max(best, (weight, path))
            return
        starts = INITIAL if not path else MOVES[path[-1]]
        for state in range(K):
            for duration in range(1, DURATIONS.shape[1] + 1):
                mass = weight * starts[state] * DURATIONS[state, duration - 1]
                grow((*path, *([state] * min(duration, T - len(path)))), mass)

    grow((), 1.0)
    decoded = hs.most_likely_states(model, data_of("durations"))
    close(decoded.log_prob[0], best[0])
    np.testing.assert_array_equal(decoded.states[0], best[1])


def test_posterior_samples_have_the_frequencies_of_their_paths(name):
    model, data, truth = CASES[name][0](), data_of(name), truth_of(name)
    count = 20000
    draws = [np.asarray(hs.sample_states(model, data, key=jr.key(1), n=count, strategy=way))[0] for way in ways(model)]
    for other in draws[1:]:
        np.testing.assert_array_equal(draws[0], other)
    codes = draws[0] @ K ** np.arange(T)[::-1]
    seen = np.bincount(codes, minlength=K**T) / count
    expected = truth.joint / truth.joint.sum()
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / count) + 1e-4).all()
    assert seen[expected == 0].sum() == 0


def test_statistics_by_recursion_and_by_differentiation_are_the_same_and_right(name):
    model, data, truth = CASES[name][0](), data_of(name), truth_of(name)
    steps = steps_of(arrays_for(model, data))
    one = type(steps)(*(None if a is None else jnp.asarray(a)[0] for a in steps))
    recursed, total = model.expected_statistics(one, hs.Sequential())
    derived, same = model.expected_statistics(one, hs.Sequential(), how="gradient")
    close(total, np.log(truth.joint.sum()))
    close(same, np.log(truth.joint.sum()))
    for a, b in zip(jax.tree.leaves(recursed), jax.tree.leaves(derived), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    close(recursed.initial, truth.marginals(truth.joint)[0])
    close(recursed.occupancy, truth.marginals(truth.joint).sum(0))
    if name in ("dense", "zeros", "stationary", "autoregressive"):
        close(recursed.transition, truth.pairs.sum(0))


def test_forecasts_are_exact_k_steps_ahead(name):
    if name == "autoregressive":
        return
    model, data = CASES[name][0](), data_of(name)
    inputs = US[T : T + 3] if name == "input-driven" else None
    found = hs.forecast(model, data, 3, key=jr.key(0), n=2, inputs=inputs)
    truth = Truth(CASES[name][1](T + 3), symbol_likelihoods([*XS, None, None, None]))
    ahead = truth.marginals(truth.joint)[T:]
    close(found.probs[0], ahead @ SYMBOLS)
    beliefs = np.asarray(found.states[0])
    close(beliefs.sum(-1) if name == "durations" else beliefs, ahead)


def test_missing_steps_are_summed_out(name):
    if name == "autoregressive":
        with pytest.raises(hs.MissingDataError, match="step 3"):
            gap = hs.Sequences.of(AR_XS, missing=np.arange(T) == 2)
            hs.log_prob(CASES[name][0](), gap)
        return
    model, truth = CASES[name][0](), truth_of(name, [1, None, 0, None, 1])
    inputs = US[:T] if name == "input-driven" else None
    data = hs.Sequences.of(XS, missing=np.array([0, 1, 0, 1, 0], bool), inputs=inputs)
    for way in ways(model):
        close(hs.log_prob(model, data, strategy=way)[0], np.log(truth.joint.sum()))
        close(hs.smooth(model, data, strategy=way).marginals[0], truth.marginals(truth.joint))


@pytest.mark.parametrize("name", quick(["dense", "input-driven", "durations", "autoregressive"]))
def test_ragged_batches_equal_their_sequences_alone(name):
    model = CASES[name][0]()
    xs = AR_XS if name == "autoregressive" else XS
    inputs = [US[:T], US[:2], US[:1]] if name == "input-driven" else None
    rows = [xs, xs[:2], xs[:1]]
    data = hs.Sequences.of(rows, inputs=inputs, schema=hs.Sequences.of(xs).schema)
    for way in ways(model):
        smoothed, decoded = hs.smooth(model, data, strategy=way), hs.most_likely_states(model, data, strategy=way)
        filtered = hs.filter(model, data, strategy=way)
        drawn = hs.sample_states(model, data, key=jr.key(2), strategy=way)
        for i, row in enumerate(rows):
            n, truth = len(row), truth_of(name, row)
            close(smoothed.marginals[i, :n], truth.marginals(truth.joint))
            close(filtered[i, :n], truth.filtered)
            close(smoothed.pairwise[i, : n - 1], truth.pairs)
            close(smoothed.marginals[i, n:], np.repeat(truth.marginals(truth.joint)[-1:], T - n, 0))
            assert not np.asarray(smoothed.pairwise[i, n - 1 :]).any()
            assert truth.joint[(truth.paths == np.asarray(drawn)[i, 0, :n]).all(1)].sum() > 0
            if name != "durations":
                np.testing.assert_array_equal(decoded.states[i, :n], truth.paths[np.argmax(truth.joint)])
                close(decoded.log_prob[i], np.log(truth.joint.max()))
