"""The linear Gaussian model against the joint Gaussian of everything, assembled in NumPy."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import has
from hiddenstate.latent.linear_gaussian import LinearGaussian

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


@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])
@pytest.mark.parametrize("name", MODELS)
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

    for strategy in BOTH if has(model, "combine") else BOTH[:1]:
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
