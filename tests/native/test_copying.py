"""The kernels of chains whose state is kept or drawn afresh, against the dense chain that they stand for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.latent.hmm import copied, recursions
from hiddenstate.latent.hmm.operators import Copy
from hiddenstate.latent.hmm.recursions import Chain
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, each_instruction_set, needs_kernels, slopes

SIZES = st.one_of(st.integers(1, 9), st.sampled_from([16, 33, 100]))
LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=4)


def a_chain(random, states, lengths, precision):
    """The chain, first beliefs and log-likelihoods, with states that cannot be and observations that rule some out."""
    fresh = random.random(states) * (random.random(states) < 0.8) + 1e-3 * (np.arange(states) == 0)
    stay = random.choice([0.0, 0.3, 0.9])
    belief = random.random((len(lengths), states)) * (random.random((len(lengths), states)) < 0.7) + 1e-3
    seen = 3 * random.normal(size=(len(lengths), max(1, *lengths), states))
    seen[random.random(seen.shape) < 0.1] = -np.inf
    seen[..., 0] = np.maximum(seen[..., 0], -5)  # some state can have given every observation
    operator = Copy(*(jnp.asarray(a, precision) for a in (stay, (1 - stay) * fresh / fresh.sum())))
    belief = belief / belief.sum(1, keepdims=True)
    return operator, jnp.asarray(belief, precision), jnp.asarray(seen, precision)


def dense(operator, belief, seen, length):
    """Evidence, filtered and smoothed beliefs and the last predicted one, in float64 over the dense matrix."""
    stay, fresh = np.asarray(operator.stay, float), np.asarray(operator.fresh, float)
    matrix = stay * np.eye(len(fresh)) + fresh
    belief, likelihoods = np.asarray(belief, float), np.exp(np.asarray(seen, float)[:length])
    evidence, filtered = [], []
    for likelihood in likelihoods:
        joint = belief * likelihood
        evidence.append(np.log(joint.sum()))
        filtered.append(joint / joint.sum())
        belief = filtered[-1] @ matrix
    back, smoothed = np.ones(len(fresh)), []
    for t in range(length - 1, -1, -1):
        smoothed.append(filtered[t] * back / (filtered[t] * back).sum())
        back = matrix @ (likelihoods[t] * back)
        back = back / back.max()
    return np.asarray(evidence), np.asarray(filtered), np.asarray(smoothed[::-1]), belief


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", ["float32", "float64"])
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(states=SIZES, lengths=LENGTHS, seed=st.integers(0, 999))
def test_beliefs_are_those_of_the_dense_chain(instructions, precision, states, lengths, seed):
    operator, beliefs, seen = a_chain(np.random.default_rng(seed), states, lengths, precision)
    valid = jnp.arange(seen.shape[1]) < jnp.asarray(lengths)[:, None]

    def one(belief, seen, valid):
        found = copied.forward(Chain(operator), belief, seen, valid)
        return found, copied.smooth(Chain(operator), found, valid), copied.score(Chain(operator), belief, seen, valid)

    found, smoothed, scored = assert_threads_agree(lambda: jax.vmap(one)(beliefs, seen, valid), instructions)
    for i, length in enumerate(lengths):
        evidence, filtered, marginals, last = dense(operator, beliefs[i], seen[i], length)
        for each in (found.evidence[i], scored[0][i]):
            assert_close(each[:length], evidence.astype(precision))
            assert (each[length:] == 0).all()
        for each in (found.final[i], scored[1][i], *found.predicted[i, length:]):
            assert_close(each, last.astype(precision))
        if length:
            assert_close(found.filtered[i, :length], filtered.astype(precision))
            assert_close(smoothed[i, :length], marginals.astype(precision))
            assert_close(found.predicted[i, 0], beliefs[i])


@needs_kernels
@each_instruction_set
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(states=SIZES, lengths=LENGTHS, seed=st.integers(0, 999))
def test_derivatives_are_those_of_the_recursion(instructions, states, lengths, seed):
    random = np.random.default_rng(seed)
    operator, beliefs, seen = a_chain(random, states, lengths, "float64")
    if max(lengths) > 1:
        seen = seen.at[0, 1].set(-jnp.inf)  # an observation that no state can have given
    valid = jnp.arange(seen.shape[1]) < jnp.asarray(lengths)[:, None]
    weights = random.normal(size=seen.shape[:2]), random.normal(size=beliefs.shape)

    def by_kernel(stay, fresh, beliefs, seen):
        return jax.vmap(lambda *a: copied.score(Chain(Copy(stay, fresh)), *a))(beliefs, seen, valid)

    def plain(stay, fresh, beliefs, seen):
        return jax.vmap(lambda *a: recursions.score(False, Copy(stay, fresh), *a))(beliefs, seen, valid)

    def finite(run):
        out, gradient = slopes(
            lambda *a: jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0.0), run(*a)), weights, *given
        )
        return out, gradient

    given = operator.stay, operator.fresh, beliefs, seen
    found = assert_threads_agree(lambda: finite(by_kernel), instructions)
    assert_close(found, finite(plain))


def best_score(operator, belief, seen, length):
    """The log-probability of the most probable path, in float64 over the dense matrix."""
    stay, fresh = np.asarray(operator.stay, float), np.asarray(operator.fresh, float)
    with np.errstate(divide="ignore"):
        moves, scores = np.log(stay * np.eye(len(fresh)) + fresh), np.log(np.asarray(belief, float))
    for t in range(length):
        scores = (scores if t == 0 else (scores[:, None] + moves).max(0)) + np.asarray(seen[t], float)
    return scores.max()


def score_of(path, operator, belief, seen):
    """The log-probability of a path, step by step, in float64 over the dense matrix."""
    stay, fresh = np.asarray(operator.stay, float), np.asarray(operator.fresh, float)
    matrix, before = stay * np.eye(len(fresh)) + fresh, np.append(-1, path)[: len(path)]
    moves = [float(belief[s]) if b < 0 else matrix[b, s] for b, s in zip(before, path, strict=True)]
    with np.errstate(divide="ignore"):
        return np.log(moves) + np.asarray(seen, float)[np.arange(len(path)), path]


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", ["float32", "float64"])
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(states=SIZES, lengths=LENGTHS, seed=st.integers(0, 999))
def test_no_path_is_better_than_the_best(instructions, precision, states, lengths, seed):
    operator, beliefs, seen = a_chain(np.random.default_rng(seed), states, lengths, precision)
    valid = jnp.arange(seen.shape[1]) < jnp.asarray(lengths)[:, None]
    one = lambda *a: copied.best_path(Chain(operator), *a)  # noqa: E731
    paths, steps = assert_threads_agree(lambda: jax.vmap(one)(beliefs, seen, valid), instructions)
    for i, length in enumerate(lengths):
        path = np.asarray(paths[i, :length])
        assert_close(steps[i, :length], score_of(path, operator, beliefs[i], seen[i, :length]).astype(precision))
        assert (steps[i, length:] == 0).all()
        assert (paths[i, length:] == (path[-1] if length else 0)).all()
        if length:
            best = np.asarray(best_score(operator, beliefs[i], seen[i], length), precision)
            assert_close(steps[i].sum(), best)


@needs_kernels
@each_instruction_set
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(states=SIZES, lengths=LENGTHS, seed=st.integers(0, 999))
def test_the_same_noise_draws_the_same_path(instructions, states, lengths, seed):
    operator, beliefs, seen = a_chain(np.random.default_rng(seed), states, lengths, "float64")
    valid = jnp.arange(seen.shape[1]) < jnp.asarray(lengths)[:, None]
    noise = jr.gumbel(jr.key(seed), seen.shape, "float64")

    def paths(ways):
        def one(belief, seen, noise, valid):
            chain = Chain(operator)
            return ways.sampled_path(chain, ways.forward(chain, belief, seen, valid), noise, valid)

        return jax.jit(jax.vmap(one))(beliefs, seen, noise, valid)

    found, expected = assert_threads_agree(lambda: paths(copied), instructions), paths(recursions)
    assert (found == expected)[np.asarray(lengths) > 0].all()  # what is drawn for no step means nothing


@needs_kernels
def test_smoothed_beliefs_can_be_differentiated():
    operator, beliefs, seen = a_chain(np.random.default_rng(4), 5, [6, 3], "float64")
    valid = jnp.arange(6) < jnp.asarray([6, 3])[:, None]

    def slope(ways):
        def one(stay, fresh, belief, seen, valid):
            chain = Chain(Copy(stay, fresh))
            marginals = ways.smooth(chain, ways.forward(chain, belief, seen, valid), valid)
            return (jnp.where(valid[:, None], marginals, 0.0) ** 2).sum()

        total = lambda stay, fresh: jax.vmap(one, (None, None, 0, 0, 0))(stay, fresh, beliefs, seen, valid).sum()  # noqa: E731
        return jax.jit(jax.grad(total, (0, 1)))(operator.stay, operator.fresh)

    assert_close(slope(copied), slope(recursions))


def a_model(states, random, **options):
    emission = hs.emissions.Gaussian(means=random.normal(size=states) * 2, covariances=random.random(states) + 0.2)
    return hs.SwitchCopy(0.2, random.dirichlet(np.ones(states)), emission, **options)


@needs_kernels
@pytest.mark.parametrize("gaps", [False, True])
def test_a_model_gives_the_same_with_and_without_kernels(gaps):
    random = np.random.default_rng(1)
    model, xs = a_model(5, random), [random.normal(size=n) for n in (9, 1, 4)]
    data = hs.Sequences.of(xs, missing=[random.random(len(x)) < 0.3 for x in xs] if gaps else None)
    assert isinstance(hs.Auto().choose(model, 10).strategy, hs.Native)

    def sampled(model, data, strategy):
        return hs.sample_states(model, data, key=jr.key(0), strategy=strategy)

    def slope(model, data, strategy):
        arrays, rest = eqx.partition(model, eqx.is_inexact_array)
        return jax.grad(lambda a: hs.log_prob(eqx.combine(a, rest), data, strategy=strategy).sum())(arrays)

    asked = [
        lambda *a, strategy, f=f: f(*a, strategy=strategy)
        for f in (hs.step_log_probs, hs.states, hs.filter, hs.smooth, hs.most_likely_states)
    ]
    asked += [lambda *a, strategy: a[0].filtered_resets(a[1], strategy=strategy)]
    asked += [lambda *a, strategy, f=f: f(*a, strategy) for f in (sampled, slope)]
    for ask in asked:
        assert_close(ask(model, data, strategy=hs.Native()), ask(model, data, strategy=hs.Sequential()))
    iterations = {"iterations": 3, "restarts": 1}
    fits = [hs.fit(model, data, hs.EM(strategy=s, **iterations), key=jr.key(0)) for s in (hs.Native(), hs.Sequential())]
    assert_close(*(eqx.filter(fit.model, eqx.is_inexact_array) for fit in fits))


@needs_kernels
def test_chunks_of_long_sequences_make_no_difference():
    random = np.random.default_rng(2)
    model, data = a_model(3, random), hs.Sequences.of([random.normal(size=n) for n in (700, 520)])
    assert_close(hs.step_log_probs(model, data), hs.step_log_probs(model, data, strategy=hs.Sequential()))


@needs_kernels
def test_moves_between_resets_have_no_kernel():
    model = a_model(2, np.random.default_rng(3), between=[[0.5, 0.5], [0.1, 0.9]])
    assert isinstance(hs.Auto().choose(model, 10).strategy, hs.Sequential)
