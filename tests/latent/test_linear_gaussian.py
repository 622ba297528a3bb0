"""The linear Gaussian model against the joint Gaussian of everything, assembled in NumPy."""

from itertools import starmap

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import hiddenstate as hs
from hiddenstate.core import Steps, cast, has, partition
from hiddenstate.inference import masked_log_probs
from hiddenstate.latent.linear_gaussian import LinearGaussian
from marks import quick

T = 4
BOTH = (hs.Sequential(), hs.Associative())


def at(part, t, rank):
    if part is None:
        return None
    part = np.asarray(part)
    return part[t] if part.ndim > rank else part


def roots(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0))


def close(a, b):
    np.testing.assert_allclose(a, b, atol=1e-10)


def joint(model, us=None, T=T):
    """Mean and covariance of (z_1 .. z_T, x_1 .. x_T), by writing all of them as linear functions of the noises."""
    n, m = model.state_size, model.event_size
    single = int(model.scalar)
    size = n + T * n + T * m
    weights, means = np.zeros((T * (n + m), size)), np.zeros(T * (n + m))
    z, mean = np.zeros((n, size)), np.asarray(model.initial_mean)
    z[:, :n] = roots(np.asarray(model.initial_covariance))
    for t in range(T):
        u = None if us is None else us[t]
        C = at(model.emission, t, 2 - single).reshape(m, n)
        R = at(model.emission_noise, t, 2 - 2 * single).reshape(m, m)
        c = at(model.emission_offset, t, 1 - single)
        D = at(model.emission_input, t, 2 - single)
        seen = C @ mean + (0 if c is None else c) + (0 if D is None else D.reshape(m, -1) @ u)
        row = C @ z
        row[:, n + T * n + t * m : n + T * n + (t + 1) * m] = roots(R)
        weights[t * n : (t + 1) * n], means[t * n : (t + 1) * n] = z, mean
        at_x = slice(T * n + t * m, T * n + (t + 1) * m)
        weights[at_x], means[at_x] = row, seen
        A, Q = at(model.transition, t, 2), at(model.transition_noise, t, 2)
        a, B = at(model.transition_offset, t, 1), at(model.transition_input, t, 2)
        z = A @ z
        z[:, n + t * n : n + (t + 1) * n] = roots(Q)
        mean = A @ mean + (0 if a is None else a) + (0 if B is None else B @ u)
    return means, weights @ weights.T


def conditioned(means, covariance, rows, given, values):
    """Mean and covariance of some entries given others."""
    gain = covariance[np.ix_(rows, given)] @ np.linalg.inv(covariance[np.ix_(given, given)])
    return means[rows] + gain @ (values - means[given]), covariance[np.ix_(rows, rows)] - gain @ covariance[
        np.ix_(given, rows)
    ]


def log_density(means, covariance, given, values):
    apart, inner = values - means[given], covariance[np.ix_(given, given)]
    return -0.5 * (apart @ np.linalg.solve(inner, apart) + np.linalg.slogdet(2 * np.pi * inner)[1])


def random_covariance(rng, n, rank=None):
    root = rng.normal(size=(n, n if rank is None else rank))
    return root @ root.T + (0.1 * np.eye(n) if rank is None else 0)


def models():
    rng = np.random.default_rng(0)
    yield (
        "scalar",
        LinearGaussian(
            transition=0.6 * rng.normal(size=(2, 2)),
            transition_offset=rng.normal(size=2),
            transition_noise=random_covariance(rng, 2),
            emission=rng.normal(size=2),
            emission_offset=0.3,
            emission_noise=0.5,
            initial_mean=rng.normal(size=2),
            initial_covariance=random_covariance(rng, 2),
        ),
    )
    yield (
        "singular, with inputs",
        LinearGaussian(
            transition=0.6 * rng.normal(size=(3, 3)),
            transition_noise=random_covariance(rng, 3, rank=1),
            transition_input=rng.normal(size=(3, 2)),
            emission=rng.normal(size=(2, 3)),
            emission_input=rng.normal(size=(2, 2)),
            emission_noise=random_covariance(rng, 2),
            initial_covariance=[1.0, 0.0, 2.0],
        ),
    )
    yield (
        "varying",
        LinearGaussian(
            transition=0.6 * rng.normal(size=(T, 2, 2)),
            transition_noise=np.stack([random_covariance(rng, 2, 1) for _ in range(T)]),
            emission=rng.normal(size=(T, 2, 2)),
            emission_offset=rng.normal(size=(T, 2)),
            emission_noise=[0.3, 0.7],
            initial_covariance=random_covariance(rng, 2),
        ),
    )


MODELS = dict(models())
WAYS = dict(zip(MODELS, (BOTH, BOTH[1:], BOTH[:1]), strict=True))


@pytest.mark.parametrize(("name", "gaps"), quick(starmap(pytest.param, zip(MODELS, [False, True, True], strict=True))))
def test_everything_equals_conditioning_of_the_joint(name, gaps):
    model, rng = MODELS[name], np.random.default_rng(1)
    n, m = model.state_size, model.event_size
    us = rng.normal(size=(T, model.inputs)) if model.inputs else None
    means, covariance = joint(model, us)
    xs = rng.normal(size=(T, m))
    observed = rng.random((T, m)) < 0.6 if gaps else np.ones((T, m), bool)
    values = xs[:, 0] if model.scalar else xs
    mask = observed[:, 0] if model.scalar else observed
    data = hs.Sequences.of([values], missing=[~mask] if gaps else None, inputs=None if us is None else [us])

    def seen(upto):
        flat = np.flatnonzero(observed[:upto].ravel())
        return T * n + flat, xs[:upto].ravel()[flat]

    for strategy in WAYS[name]:
        assert isinstance(strategy, hs.Sequential) or has(model, "combine")
        close(hs.log_prob(model, data, strategy=strategy)[0], log_density(means, covariance, *seen(T)))
        filtered = hs.filter(model, data, strategy=strategy)
        lagged = hs.fixed_lag(model, data, 1, strategy=strategy)
        smooth = hs.smooth(model, data, strategy=strategy)
        everything = conditioned(means, covariance, np.arange(T * n), *seen(T))
        for t in range(T):
            rows = np.arange(t * n, (t + 1) * n)
            for result, upto in ((filtered, t + 1), (lagged, min(T, t + 2)), (smooth, T)):
                mean, spread = conditioned(means, covariance, rows, *seen(upto))
                close(result.mean[0, t], mean)
                close(result.covariance[0, t], spread)
            if t + 1 < T:
                close(smooth.cross_covariance[0, t], everything[1][np.ix_(rows, rows + n)])
        draws = np.asarray(hs.sample_states(model, data, key=jr.key(0), n=20000, strategy=strategy))[0]
        draws = draws.reshape(len(draws), -1)
        spread = np.sqrt(np.diag(everything[1]).clip(0)) + 1e-12
        np.testing.assert_allclose((draws.mean(0) - everything[0]) / spread, 0, atol=5 / np.sqrt(20000))
        np.testing.assert_allclose(
            np.cov(draws.T) / np.outer(spread, spread), everything[1] / np.outer(spread, spread), atol=0.06
        )
        decoded = hs.most_likely_states(model, data, strategy=strategy)
        close(decoded.states[0], smooth.mean[0])
        given, values_seen = seen(T)
        whole = np.concatenate([np.arange(T * n), given])
        if np.linalg.matrix_rank(covariance[np.ix_(whole, whole)]) == len(whole):
            together = np.concatenate([everything[0], values_seen])
            close(decoded.log_prob[0], log_density(means, covariance, whole, together))


def test_diffuse_is_the_limit_of_wide():
    """A flat prior on some entries, by generalised least squares in NumPy; with gaps in the first steps."""
    rng = np.random.default_rng(2)
    parts = {
        "transition": 0.7 * rng.normal(size=(3, 3)),
        "transition_noise": random_covariance(rng, 3, rank=2),
        "emission": rng.normal(size=(2, 3)),
        "emission_noise": random_covariance(rng, 2),
    }
    model = LinearGaussian(**parts, initial_covariance=np.diag([0.0, 0.5, 0.0]), diffuse=[True, False, True])
    n, m, T = 3, 2, 5
    means, covariance = joint(model, T=T)
    response = np.zeros((T * (n + m), 2))
    z = np.eye(n)[:, [0, 2]]
    for t in range(T):
        response[t * n : (t + 1) * n] = z
        response[T * n + t * m : T * n + (t + 1) * m] = np.asarray(model.emission) @ z
        z = np.asarray(model.transition) @ z
    xs, observed = rng.normal(size=(T, m)), rng.random((T, m)) < 0.7
    observed[0] = [False, True]
    given = T * n + np.flatnonzero(observed.ravel())
    values = xs.ravel()[observed.ravel()]
    inverse = np.linalg.inv(covariance[np.ix_(given, given)])
    H = response[given]
    unknown = np.linalg.inv(H.T @ inverse @ H)
    found = unknown @ H.T @ inverse @ (values - means[given])
    gain = covariance[: T * n, given] @ inverse
    direct = response[: T * n] - gain @ H
    mean = means[: T * n] + gain @ (values - means[given]) + direct @ found
    spread = covariance[: T * n, : T * n] - gain @ covariance[given][:, : T * n] + direct @ unknown @ direct.T
    data = hs.Sequences.of([xs], missing=[~observed])
    smooth = hs.smooth(model, data)
    np.testing.assert_allclose(smooth.mean[0].ravel(), mean, atol=1e-9)
    for t in range(T):
        rows = slice(t * n, (t + 1) * n)
        np.testing.assert_allclose(smooth.covariance[0, t], spread[rows, rows], atol=1e-9)
    apart = values - means[given] - H @ found
    limit = -0.5 * (apart @ inverse @ apart - np.linalg.slogdet(inverse / (2 * np.pi))[1])
    limit += 0.5 * np.linalg.slogdet(unknown)[1]
    np.testing.assert_allclose(hs.log_prob(model, data)[0], limit, atol=1e-9)
    assert np.isinf(np.asarray(hs.filter(model, data).covariance)[0, 0]).any()
    assert not has(model, "combine")
    assert np.isinf(hs.predictive(model, data).variance[0, 0]).all()


def test_gradients_are_those_of_the_joint():
    """Both strategies, singular noise and gaps: finite differences of the dense joint density."""
    model = MODELS["singular, with inputs"]
    rng = np.random.default_rng(3)
    us, xs, observed = rng.normal(size=(T, 2)), rng.normal(size=(T, 2)), rng.random((T, 2)) < 0.7
    data = hs.Sequences.of([xs], missing=[~observed], inputs=[us])
    given = T * model.state_size + np.flatnonzero(observed.ravel())
    learned, rest = partition(model)
    flat, shape = ravel_pytree(learned)

    def dense(numbers):
        return log_density(
            *joint(eqx.combine(shape(jnp.asarray(numbers)), rest), us), given, xs.ravel()[observed.ravel()]
        )

    def ours(numbers, strategy):
        return masked_log_probs(eqx.combine(shape(numbers), rest), arrays, strategy)[0].sum()

    arrays = data.arrays(np.float64)
    steps = 1e-5 * np.eye(len(flat))
    expected = [(dense(flat + s) - dense(flat - s)) / 2e-5 for s in steps]
    for strategy in BOTH:
        np.testing.assert_allclose(jax.jit(jax.grad(ours), static_argnums=1)(flat, strategy), expected, atol=1e-6)


@pytest.mark.slow
def test_single_precision_holds_where_covariances_are_ill_conditioned():
    """Nearly exact observations of a fast system, 2000 steps: values and gradients as in float64."""
    model = LinearGaussian(
        transition=[[1.0, 1.0], [0.0, 1.0]],
        transition_noise=np.diag([1e-4, 1e2]),
        emission=[1.0, 0.0],
        emission_noise=1e-6,
        initial_covariance=1e6 * np.eye(2),
    )
    data = hs.Sequences.of([np.cumsum(np.random.default_rng(0).normal(size=2000))])
    values, slopes = {}, {}
    for dtype in (np.float32, np.float64):
        arrays = data.arrays(dtype)
        learned, rest = partition(cast(model, dtype))
        total = jax.jit(
            jax.value_and_grad(lambda p: masked_log_probs(eqx.combine(p, rest), arrays, hs.Sequential())[0].sum())  # noqa: B023
        )
        value, slope = total(learned)
        values[dtype], slopes[dtype] = float(value), ravel_pytree(slope)[0]
    assert abs(values[np.float32] / values[np.float64] - 1) < 1e-5
    size = np.abs(slopes[np.float64]).max()
    np.testing.assert_allclose(slopes[np.float32] / size, slopes[np.float64] / size, atol=1e-3)
    smooth = [hs.smooth(cast(model, dtype), data) for dtype in (np.float32, np.float64)]
    np.testing.assert_allclose(smooth[0].mean, smooth[1].mean, atol=1e-2)


@pytest.mark.slow
def test_padding_and_varying_matrices():
    """Ragged sequences give what each gives alone; running beyond given matrices is an error, or not a number."""
    model = MODELS["scalar"]
    rows = [np.array([0.3, -1.0, 0.5, 2.0]), np.array([1.0]), np.array([-0.5, 0.7])]
    together = hs.smooth(model, hs.Sequences.of(rows))
    for i, row in enumerate(rows):
        alone = hs.smooth(model, hs.Sequences.of([row]))
        close(together.mean[i, : len(row)], alone.mean[0])
        close(together.covariance[i, : len(row)], alone.covariance[0])
        close(together.cross_covariance[i, : len(row) - 1], alone.cross_covariance[0])
    varying = MODELS["varying"]
    with pytest.raises(hs.DataError, match="the data have 5 steps, but the matrices of LinearGaussian are given for 4"):
        hs.log_prob(varying, np.zeros((5, 2)))
    ahead = hs.forecast(varying, hs.Sequences.of([np.zeros((3, 2))]), 1, key=jr.key(0), n=2)
    assert np.isfinite(ahead.mean).all()
    with pytest.raises(hs.DataError, match="what varies in time ends sooner"):
        hs.forecast(varying, hs.Sequences.of([np.zeros((3, 2))]), 2, key=jr.key(0), n=2)
    first, last = varying.score_sequence(varying.initial(), Steps(jnp.zeros((2, 2))), hs.Sequential())
    second, _ = varying.score_sequence(last, Steps(jnp.zeros((2, 2))), hs.Sequential())
    close(jnp.concatenate([first, second]), hs.step_log_probs(varying, np.zeros((4, 2)))[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition": [[1.0, 0.0]]}, r"transition has shape \(1, 2\); it must be square"),
        ({"transition_noise": [[1.0, 0.5], [0.0, 1.0]]}, "transition_noise is not symmetric"),
        ({"transition_noise": [[1.0, 2.0], [2.0, 1.0]]}, "transition_noise has the negative eigenvalue -1"),
        ({"emission_noise": -1.0}, "emission_noise has the negative eigenvalue -1"),
        ({"emission_noise": np.nan}, "emission_noise holds numbers that are not finite"),
        ({"emission": [1.0, 2.0, 3.0]}, r"emission has shape \(3,\); it must be \(n,\) or \(time, n\) with n = 2"),
        ({"initial_mean": [0.0]}, r"initial_mean has shape \(1,\); it must be \(2,\)"),
        ({"diffuse": [True]}, "diffuse is .*; it must be True, False or a list of 2 booleans"),
        ({"fixed": "emission"}, r"fixed is 'emission'; it must be a list of names"),
        ({"fixed": ["emision"]}, "fixed names 'emision'; the parts are transition,"),
        ({"inputs": 2}, "inputs is 2, but neither transition_input nor emission_input is given"),
        ({"transition": np.ones((3, 2, 2)), "transition_offset": np.ones((4, 2))}, "given for one number of steps"),
    ],
)
def test_bad_arguments(change, message):
    good = {"transition": np.eye(2), "transition_noise": np.eye(2), "emission": [1.0, 0.0], "emission_noise": 1.0}
    with pytest.raises(hs.HiddenStateError, match=message):
        LinearGaussian(**(good | change))


def test_missing_inputs_are_said():
    with pytest.raises(hs.DataError, match="takes 2 inputs at every step, but the data have none"):
        hs.log_prob(MODELS["singular, with inputs"], np.zeros((3, 2)))
