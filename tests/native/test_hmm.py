"""The kernels of hidden Markov models against the recursions in float64, enumeration and themselves."""

from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.latent.hmm import recursions
from hiddenstate.latent.hmm.operators import Dense
from hiddenstate.latent.hmm.recursions import Chain
from hiddenstate.native import hmm
from hiddenstate.ops.simplex import safe_log
from hiddenstate.ops.sums import sum_over_time
from native.kernels import assert_close, assert_threads_agree, needs_kernels

each_precision = pytest.mark.parametrize("precision", ["float32", "float64"])
few = settings(max_examples=5, deadline=None)
chains = given(
    states=st.one_of(st.integers(1, 40), st.sampled_from([65, 100, 257])),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    zeros=st.booleans(),
    seed=st.integers(0, 99),
)


def distributions(random, zeros, *shape):
    """Rows of probabilities; with zeros, about a third of the entries, but never all of a row."""
    weights = random.dirichlet(np.ones(shape[-1]), shape[:-1])
    if zeros:
        kept = np.arange(shape[-1]) == random.integers(shape[-1], size=(*shape[:-1], 1))
        weights = np.where((random.random(shape) < 0.3) & ~kept, 0, weights)
    return weights / weights.sum(-1, keepdims=True)


def example(states, lengths, zeros, seed):
    """A matrix, a first belief, log-likelihoods of all sequences and the masks of their steps."""
    random = np.random.default_rng(seed)
    matrix, belief = distributions(random, zeros, states, states), distributions(random, zeros, states)
    seen = 3 * random.normal(size=(len(lengths), max(lengths), states))
    if zeros:
        seen[random.random(seen.shape[:2]) < 0.1] = -np.inf  # nothing could have given these
        seen[random.random(seen.shape) < 0.1] = -np.inf
    return matrix, belief, seen, np.arange(max(lengths)) < np.array(lengths)[:, None]


def in_sequence(matrix, belief, seen, valid):
    """What the kernels compute, by the recursions."""
    chain = Chain(Dense(matrix))
    found = recursions.forward(chain, belief, seen, valid)
    marginals = recursions.smooth(chain, found, valid)
    moves = chain.operator.counts(found.filtered[:-1], recursions.ratios(found, marginals, valid)).matrix
    held = recursions.hold((found.filtered, marginals), valid)
    return found.evidence, found.final, found.predicted, *held, moves


def by_kernels(matrix, belief, seen, valid):
    found = hmm.forward(matrix, belief, seen, valid, predicted=True, filtered=True)
    marginals, moves = hmm.smooth(matrix, seen, found, valid)
    return found.evidence, found.final, found.predicted, found.filtered, marginals, moves


def scored(score):
    """The gradient of what weights make of the evidence and the last beliefs, with respect to all arguments."""

    def total(matrix, belief, seen, valid, weights, ends):
        evidence, final = jax.vmap(score, (None, None, 0, 0))(matrix, belief, seen, valid)
        return (jnp.where(evidence > -jnp.inf, evidence, 0.0) * weights).sum() + (final * ends).sum()

    return jax.jit(jax.grad(total, (0, 1, 2)))


def on_each_instruction_set(run):
    """The results of every instruction set, the same with one and two threads."""
    return [assert_threads_agree(run, instructions) for instructions in hs.native.instruction_sets()]


@needs_kernels
@each_precision
@few
@chains
def test_beliefs_and_moves_are_those_of_the_recursion(precision, states, lengths, zeros, seed):
    *numbers, valid = example(states, lengths, zeros, seed)
    given = [jnp.asarray(a, precision) for a in numbers]
    exact = [jnp.asarray(np.asarray(a), "float64") for a in given]
    expected = jax.jit(jax.vmap(in_sequence, (None, None, 0, 0)))(*exact, valid)
    run = jax.jit(jax.vmap(by_kernels, (None, None, 0, 0)))
    for found in on_each_instruction_set(lambda: run(*given, valid)):
        np.testing.assert_array_equal(np.isinf(found[0]), np.isinf(expected[0]))
        assert_close(jnp.where(jnp.isinf(found[0]), 0, found[0]), jnp.where(jnp.isinf(expected[0]), 0, expected[0]))
        assert_close(found[1:], expected[1:])


@needs_kernels
@each_precision
@few
@chains
def test_gradients_are_those_of_the_recursion(precision, states, lengths, zeros, seed):
    *numbers, valid = example(states, lengths, zeros, seed)
    random = np.random.default_rng(seed)
    weights, ends = random.normal(size=valid.shape), random.normal(size=(len(lengths), states))
    given = [jnp.asarray(a, precision) for a in (*numbers, weights, ends)]
    exact = [jnp.asarray(np.asarray(a), "float64") for a in given]
    expected = scored(lambda m, *rest: recursions.score(False, Dense(m), *rest))(*exact[:3], valid, *exact[3:])
    run = scored(lambda *arguments: hmm.forward(*arguments)[:2])
    for found in on_each_instruction_set(lambda: run(*given[:3], valid, *given[3:])):
        assert_close(found, expected)


@needs_kernels
@each_precision
@few
@chains
def test_paths_are_those_of_the_recursion(precision, states, lengths, zeros, seed):
    matrix, belief, seen, valid = example(states, lengths, False, seed)
    if zeros:
        matrix = distributions(np.random.default_rng(seed), True, states, states)
    noise = np.random.default_rng(seed).gumbel(size=seen.shape)
    given = [jnp.asarray(a, precision) for a in (matrix, belief, seen, noise)]

    def sequential(matrix, belief, seen, noise, valid):
        chain = Chain(Dense(matrix))
        path = recursions.best_path(chain, belief, seen, valid)
        each = recursions.path_log_prob(chain, belief, seen, path, valid)
        return path, each, recursions.sampled_path(chain, recursions.forward(chain, belief, seen, valid), noise, valid)

    def native(matrix, belief, seen, noise, valid):
        filtered = hmm.forward(matrix, belief, seen, valid, filtered=True).filtered
        path, each = hmm.best_path(safe_log(matrix), safe_log(belief), seen, valid)
        return path, each, hmm.sampled_path(matrix, filtered, noise, valid)

    axes = (None, None, 0, 0, 0)
    path, each, drawn = jax.jit(jax.vmap(sequential, axes))(*given, valid)
    for found in on_each_instruction_set(lambda: jax.jit(jax.vmap(native, axes))(*given, valid)):
        np.testing.assert_array_equal(found[0], path)
        assert_close(found[1], each)
        np.testing.assert_array_equal(found[2], drawn)


@needs_kernels
@pytest.mark.parametrize("states", [1, 2, 3])
def test_all_is_as_summed_over_all_paths(states):
    time = 4
    matrix, belief, seen, _ = example(states, [time], False, states)
    joint = {}
    for path in product(range(states), repeat=time):
        moves = [belief[path[0]]] + [matrix[i, j] for i, j in pairwise(path)]
        joint[path] = float(np.prod(moves) * np.exp(sum(seen[0, t, z] for t, z in enumerate(path))))
    total = sum(joint.values())
    marginals, moves = np.zeros((time, states)), np.zeros((states, states))
    for path, weight in joint.items():
        for t, z in enumerate(path):
            marginals[t, z] += weight / total
        for i, j in pairwise(path):
            moves[i, j] += weight / total
    given = [jnp.asarray(a) for a in (matrix, belief, seen[0])]
    evidence, _, _, _, found_marginals, found_moves = by_kernels(*given, None)
    assert_close(evidence.sum(), np.log(total))
    assert_close((found_marginals, found_moves), (marginals, moves))
    path, each = hmm.best_path(jnp.log(given[0]), jnp.log(given[1]), given[2], None)
    assert tuple(np.asarray(path)) == max(joint, key=joint.__getitem__)
    assert_close(each.sum(), np.log(max(joint.values())))


@needs_kernels
@each_precision
@pytest.mark.parametrize("states", [1, 5, 12, 33, 70])
def test_a_sequence_does_not_depend_on_its_batch(precision, states):
    lengths = [7, 300, 5, 300, 299, 1, 40, 8, 300]
    *numbers, valid = example(states, lengths, True, states)
    matrix, belief, seen = (jnp.asarray(a, precision) for a in numbers)

    slopes = scored(lambda *arguments: hmm.forward(*arguments)[:2])

    def one(seen, valid):
        weights = jnp.ones_like(seen[None, :, 0]), jnp.ones_like(seen[:1])
        best = hmm.best_path(safe_log(matrix), safe_log(belief), seen, valid)
        return by_kernels(matrix, belief, seen, valid), best, slopes(matrix, belief, seen[None], valid[None], *weights)

    every = jax.jit(jax.vmap(one))
    for instructions in hs.native.instruction_sets():
        with hs.native.limited(instructions=instructions):
            together = every(seen, valid)
            for i in (1, 5, 8):
                alone = every(seen[i : i + 1], valid[i : i + 1])
                jax.tree.map(lambda a, b, i=i: np.testing.assert_array_equal(a[i], b[0]), together, alone)


@needs_kernels
@each_precision
@pytest.mark.parametrize("states", [2, 5, 8, 20])
def test_long_sequences_lose_nothing_on_the_way_back(precision, states):
    """Over several pieces of time, with slopes of any size, and observations that nothing could have given."""
    *numbers, valid = example(states, [700, 257, 1, 513], True, states)
    random = np.random.default_rng(states)
    weights, ends = random.normal(size=valid.shape), random.normal(size=(len(valid), states))
    given = [jnp.asarray(a, precision) for a in (*numbers, weights, ends)]
    exact = [jnp.asarray(np.asarray(a), "float64") for a in given]
    expected = (
        jax.jit(jax.vmap(in_sequence, (None, None, 0, 0)))(*exact[:3], valid)[1:5],
        scored(lambda m, *rest: recursions.score(False, Dense(m), *rest))(*exact[:3], valid, *exact[3:]),
    )
    beliefs = jax.jit(jax.vmap(by_kernels, (None, None, 0, 0)))
    slopes = scored(lambda *arguments: hmm.forward(*arguments)[:2])
    run = lambda: (beliefs(*given[:3], valid)[1:5], slopes(*given[:3], valid, *given[3:]))  # noqa: E731
    for found in on_each_instruction_set(run):
        assert_close(found, expected)


@needs_kernels
@each_precision
@pytest.mark.parametrize("states", [6, 14, 40])
def test_likelihoods_of_states_that_cannot_be_are_of_no_matter(precision, states):
    """Relative to them those of the others would be zero; and a tiny belief that a likelihood makes up for counts."""
    half = states // 2
    matrix, belief, seen, valid = example(states, [9, 6], False, states)
    matrix[:half, half:] = matrix[half:, :half] = belief[:half] = 0
    belief[half] = 1e-35
    seen[:, 0, half] += 80
    seen[:, 1:, :half] += 1000
    given = [jnp.asarray(a, precision) for a in (matrix / matrix.sum(1, keepdims=True), belief, seen)]
    exact = [jnp.asarray(np.asarray(a), "float64") for a in given]
    expected = jax.jit(jax.vmap(in_sequence, (None, None, 0, 0)))(*exact, valid)
    run = jax.jit(jax.vmap(by_kernels, (None, None, 0, 0)))
    for found in on_each_instruction_set(lambda: run(*given, valid)):
        assert_close(found, expected)


@needs_kernels
def test_adjoints_of_beliefs_on_the_way():
    """Of states and of filtered beliefs too, which hs.states and hs.filter give."""
    *numbers, valid = example(5, [6, 9, 1], False, 0)
    given = [jnp.asarray(a) for a in numbers]
    weights = np.random.default_rng(0).normal(size=(2, *given[2].shape))

    def total(beliefs):
        def run(matrix, belief, seen):
            found = jax.vmap(beliefs, (None, None, 0, 0))(matrix, belief, seen, valid)
            return sum((w * a).sum() for w, a in zip(weights, found, strict=True))

        return jax.grad(run, (0, 1, 2))(*given)

    def sequential(matrix, belief, seen, valid):
        found = recursions.forward(Chain(Dense(matrix)), belief, seen, valid)
        return found.predicted, recursions.hold(found.filtered, valid)

    native = lambda *arguments: hmm.forward(*arguments, predicted=True, filtered=True)[4:]  # noqa: E731
    assert_close(total(native), total(sequential))


@needs_kernels
def test_gradients_of_several_models_and_of_each_sequence():
    random = np.random.default_rng(1)
    matrices, belief = (jnp.asarray(distributions(random, False, *shape)) for shape in ((3, 4, 4), (4,)))
    seen = jnp.asarray(random.normal(size=(2, 6, 4)))
    each = lambda score: jax.vmap(  # noqa: E731
        lambda matrix: jax.vmap(lambda seen: jax.grad(lambda m: score(m, belief, seen, None)[0].sum())(matrix))(seen)
    )(matrices)
    expected = each(lambda m, *rest: recursions.score(False, Dense(m), *rest))
    assert_close(each(lambda *arguments: hmm.forward(*arguments)), expected)


@needs_kernels
def test_a_million_steps_in_float32_keep_their_precision():
    random = np.random.default_rng(0)
    matrix, belief = distributions(random, False, 3, 3), np.full(3, 1 / 3)
    table = np.log(distributions(random, False, 5, 3))
    seen = table[random.integers(5, size=1_000_000)]
    totals, counts = [], []
    for precision in ("float32", "float64"):
        given = [jnp.asarray(a, precision) for a in (matrix, belief, seen)]
        found = hmm.forward(*given, None, filtered=True)
        totals.append(float(sum_over_time(found.evidence)))
        counts.append(np.asarray(hmm.smooth(given[0], given[2], found, None)[1]))
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)
    np.testing.assert_allclose(counts[0], counts[1], rtol=1e-4)
