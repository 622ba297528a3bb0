"""The way back through the Kalman filter, against automatic differentiation of its textbook form in float64."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.native import kalman
from hiddenstate.native.evidence import Noises, Start, evidence
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, each_instruction_set, needs_kernels, slopes
from native.test_kalman import SIZES, a_model, covariance, some_data


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def textbook(observed, length, A, Q, C, R, mean, P, xs, shift):
    """Log-probabilities and the last belief of one sequence, by covariances, step by step."""
    Q, R, P = symmetric(Q), symmetric(R), symmetric(P)

    def step(belief, given):
        t, seen, x, shift = given
        mean, P = belief
        H = jnp.where(seen[:, None], C, 0.0)
        S = H @ P @ H.T + jnp.where(seen[:, None] & seen, R, jnp.eye(len(seen)))  # a missing entry has noise of its own
        apart = jnp.where(seen, x - C @ mean, 0.0)
        gain = jnp.linalg.solve(S, H @ P).T
        size = jnp.linalg.slogdet(S)[1] + seen.sum() * np.log(2 * np.pi)
        log_prob = -0.5 * (apart @ jnp.linalg.solve(S, apart) + size)
        known = mean + gain @ apart, P - gain @ S @ gain.T
        moved = A @ known[0] + shift, A @ known[1] @ A.T + Q
        return jax.tree.map(lambda a, b: jnp.where(t < length, a, b), (moved, log_prob), (belief, 0.0))

    each = jnp.arange(len(xs)), observed, xs, jnp.broadcast_to(shift, (len(xs), len(mean)))
    (mean, P), logs = jax.lax.scan(step, (mean, P), each)
    return logs, mean, P


def by_kernel(observed, lengths, A, Q, C, R, mean, P, xs, shift):
    Q, R, P = (jax.vmap(symmetric)(a) if a.ndim > 2 else symmetric(a) for a in (Q, R, P))
    root = lambda a: jnp.linalg.cholesky(jax.lax.stop_gradient(a))  # noqa: E731
    system = kalman.Roots(A, root(Q), C, root(R))

    def one(observed, length, mean, P, xs, shift):
        return evidence(system, Noises(Q, R), Start(mean, root(P), P), xs, observed, shift, length)

    first = 0 if P.ndim > 2 else None
    there = None if observed is None else 0
    return tuple(jax.vmap(one, (there, 0, 0, first, 0, 0))(observed, lengths, mean, P, xs, shift))


def drawn(random, state, event, lengths, precision, *, moving, own):
    sequences, time = len(lengths), max(lengths)
    A = random.normal(size=(state, state))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    P = np.stack([covariance(random, state) for _ in range(sequences)]) if own else covariance(random, state)
    given = (
        *(A, covariance(random, state), random.normal(size=(event, state)), covariance(random, event)),
        *(random.normal(size=(sequences, state)), P, random.normal(size=(sequences, time, event))),
        random.normal(size=(sequences, time if moving else 1, state)),
    )
    return [jnp.asarray(a, precision) for a in given]


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@settings(max_examples=max(2, EXAMPLES // 2), deadline=None)
@given(
    state=SIZES,
    event=SIZES,
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    moving=st.booleans(),
    own=st.booleans(),
    seed=st.integers(0, 99),
)
def test_slopes_are_those_of_the_textbook(instructions, missing, precision, state, event, lengths, moving, own, seed):
    random = np.random.default_rng(seed)
    arguments = drawn(random, state, event, lengths, precision, moving=moving, own=own)
    sequences, time = len(lengths), max(lengths)
    observed = random.random((sequences, time, event)) < (0.6 if missing else 2.0)
    weights = [random.normal(size=(sequences, time)), random.normal(size=(sequences, state))]
    weights.append(random.normal(size=(sequences, state, state)))
    run = partial(by_kernel, jnp.asarray(observed) if missing else None, jnp.asarray(lengths, jnp.int32))
    found = assert_threads_agree(lambda: slopes(run, weights, *arguments), instructions)

    def expected(A, Q, C, R, mean, P, xs, shift):
        each = jnp.asarray(observed), jnp.asarray(lengths), mean, P if own else jnp.stack([P] * sequences), xs, shift
        return jax.vmap(
            lambda seen, length, mean, P, xs, shift: textbook(seen, length, A, Q, C, R, mean, P, xs, shift)
        )(*each)

    wanted, wanted_slopes = slopes(expected, weights, *(jnp.asarray(a, "float64") for a in arguments))
    assert_close(found[0], jax.tree.map(lambda a, b: np.asarray(a, b.dtype), wanted, found[0]))
    # The covariances drawn have condition numbers of ten to a hundred, by which solving with them multiplies rounding.
    assert_close(found[1], jax.tree.map(lambda a, b: np.asarray(a, b.dtype), wanted_slopes, found[1]), room=10)


@needs_kernels
@pytest.mark.parametrize("missing", [False, True])
def test_a_model_learns_by_the_slopes_of_the_scan(missing):
    random = np.random.default_rng(1)
    model = a_model(random, 3, 2, "float64")
    data = some_data(random, model, [5, 2, 7], missing)

    def slope(strategy):
        return eqx.filter_grad(lambda model: hs.log_prob(model, data, strategy=strategy, total=True))(model)

    assert_close(slope(hs.Native()), slope(hs.Sequential()))


@needs_kernels
def test_slopes_of_inputs_and_of_several_models_at_once():
    random = np.random.default_rng(3)
    inputs = {"transition_input": random.normal(size=(2, 3)), "emission_input": random.normal(size=(1, 3))}
    models = [a_model(random, 2, 1, "float64", **inputs) for _ in range(2)]
    xs, us = random.normal(size=(4, 5, 1)), random.normal(size=(4, 5, 3))
    data = hs.Sequences.of(list(xs), inputs=list(us))

    def slope(model, strategy):
        return eqx.filter_grad(lambda model: hs.log_prob(model, data, strategy=strategy, total=True))(model)

    each = [slope(model, hs.Sequential()) for model in models]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *models)
    found = eqx.filter_vmap(lambda model: slope(model, hs.Native()))(stacked)
    assert_close(found, jax.tree.map(lambda *a: np.stack(a), *each))


@needs_kernels
@pytest.mark.parametrize("missing", [False, True])
def test_slopes_of_a_sequence_do_not_depend_on_its_batch(missing):
    random = np.random.default_rng(2)
    A, Q, C, R, mean, P, xs, shift = drawn(random, 4, 3, [6] * 21, "float32", moving=True, own=False)
    observed = jnp.asarray(random.random(xs.shape) < 0.7) if missing else None

    def slope(first):
        there = None if observed is None else observed[first:]
        count = jnp.full(21 - first, 6, jnp.int32)
        run = lambda xs: by_kernel(there, count, A, Q, C, R, mean[first:], P, xs, shift[first:])[0].sum()  # noqa: E731
        return jax.jit(jax.grad(run))(xs[first:])

    np.testing.assert_array_equal(slope(0)[20:], slope(20))


@needs_kernels
def test_singular_noises_have_slopes():
    random = np.random.default_rng(4)
    model = hs.LinearGaussian(
        transition=np.array([[1.0, 1.0], [0.0, 0.9]]),
        transition_noise=np.array([0.0, 0.3]),
        emission=np.array([[1.0, 0.0], [0.5, 1.0]]),
        emission_noise=np.array([[0.5, 0.5], [0.5, 0.5]]),
        initial_covariance=np.zeros((2, 2)) + np.diag([1.0, 0.0]),
    )
    data = hs.Sequences.of([random.normal(size=(9, 2))])

    def slope(strategy):
        return eqx.filter_grad(lambda model: hs.log_prob(model, data, strategy=strategy, total=True))(model)

    found, expected = slope(hs.Native()), slope(hs.Sequential())
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(found))
    assert_close(found, expected)


@needs_kernels
def test_thousands_of_steps_in_single_precision_lose_few_digits():
    random = np.random.default_rng(5)
    wide = a_model(random, 4, 2, "float64")
    xs = random.normal(size=(3000, 2))

    def slope(model, precision):
        model, data = hs.cast(model, precision), hs.Sequences.of([xs.astype(precision)])
        return eqx.filter_grad(lambda model: hs.log_prob(model, data, strategy=hs.Native(), total=True))(model)

    for a, b in zip(*map(jax.tree.leaves, (slope(wide, jnp.float32), slope(wide, jnp.float64))), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-3 * np.abs(b).max())


@needs_kernels
@pytest.mark.parametrize("missing", [False, True])
def test_a_vague_start_in_single_precision_keeps_its_slopes(missing):
    """A first covariance a million times that of the noise: P - K C P alone would leave one digit of its slope."""
    random = np.random.default_rng(6)
    noises = {"transition_noise": 0.1 * np.eye(4), "emission_noise": np.eye(4)}
    emission = random.normal(size=(4, 4))
    model = hs.LinearGaussian(
        transition=0.9 * np.eye(4), emission=emission, initial_covariance=1e6 * np.eye(4), **noises
    )
    xs = random.normal(size=(50, 4))
    mask = random.random(xs.shape) < 0.8 if missing else np.ones(xs.shape, bool)
    mask[0] = True

    def slope(precision):
        data = hs.Sequences.of([xs.astype(precision)], missing=[~mask] if missing else None)
        total = lambda model: hs.log_prob(model, data, strategy=hs.Native(), total=True)  # noqa: E731
        return eqx.filter_grad(total)(hs.cast(model, precision)).parameters.initial_covariance.log_diagonal

    np.testing.assert_allclose(slope(jnp.float32), slope(jnp.float64), rtol=1e-3)
