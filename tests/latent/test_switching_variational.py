"""Variational inference and EM for switching models, against sums over all regime paths and dense Gaussians."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import hiddenstate as hs
from hiddenstate.core import Steps
from hiddenstate.latent.switching.variational import RegimeChain, ascended, prepared, swept

REGIMES, STATE, EVENT, TIME = 2, 2, 3, 5


def multivariate_normal(mean, covariance) -> Any:
    return stats.multivariate_normal(mean, covariance)  # pyright: ignore[reportArgumentType]


def covariances(random, regimes, size):
    rows = random.normal(size=(regimes, size, size + 1))
    return rows @ np.swapaxes(rows, -1, -2) / size + 0.1 * np.eye(size)


def model_of(seed=0, regimes=REGIMES, shared=(), **rest):
    random = np.random.default_rng(seed)
    turn = random.normal(size=(regimes, STATE, STATE))
    parts = {
        "initial_mean": random.normal(size=(regimes, STATE)),
        "initial_covariance": covariances(random, regimes, STATE),
        "dynamics": 0.8 * turn / np.linalg.norm(turn, 2, axis=(1, 2))[:, None, None],
        "dynamics_offset": random.normal(size=(regimes, STATE)),
        "dynamics_noise": covariances(random, regimes, STATE),
        "observation": random.normal(size=(regimes, EVENT, STATE)),
        "observation_offset": random.normal(size=(regimes, EVENT)),
        "observation_noise": covariances(random, regimes, EVENT),
    }
    parts = {name: part[0] if name in shared else part for name, part in parts.items()}
    return hs.SwitchingLinearGaussian(
        initial=random.dirichlet(np.ones(regimes)),
        transition=random.dirichlet(np.ones(regimes), regimes),
        **parts,
        **rest,
    )


def observations(seed=1, time=TIME):
    return np.random.default_rng(seed).normal(size=(time, EVENT)) * 1.5


def dense_state_prior(model, path):
    """Mean and covariance of all states given the regimes, one behind the other."""
    time, n = len(path), model.state_size
    mean, spread = np.zeros((time, n)), np.zeros((time, n, time, n))
    mean[0], spread[0, :, 0] = model.initial_mean[path[0]], model.initial_covariance[path[0]]
    for t in range(1, time):
        matrix = np.asarray(model.dynamics[path[t]])
        mean[t] = matrix @ mean[t - 1] + model.dynamics_offset[path[t]]
        for u in range(t):
            spread[t, :, u] = matrix @ spread[t - 1, :, u]
            spread[u, :, t] = spread[t, :, u].T
        spread[t, :, t] = matrix @ spread[t - 1, :, t - 1] @ matrix.T + model.dynamics_noise[path[t]]
    return mean.ravel(), spread.reshape(time * n, time * n)


def dense_observation(model, path):
    """x = matrix s + offset + noise for all steps together."""
    time, n, m = len(path), model.state_size, model.event_size
    regimes = model.arrays()
    matrix, noise = np.zeros((time, m, time, n)), np.zeros((time, m, time, m))
    for t, k in enumerate(path):
        matrix[t, :, t], noise[t, :, t] = regimes.observation[k], regimes.observation_noise[k]
    offset = np.asarray(regimes.observation_offset)[list(path)].ravel()
    return matrix.reshape(time * m, -1), offset, noise.reshape(time * m, -1)


def paths(model, time):
    return list(itertools.product(range(model.regimes), repeat=time))


def log_path(model, path):
    initial, transition = np.log(model.initial_probs), np.log(model.transition_probs)
    return initial[path[0]] + sum(transition[a, b] for a, b in itertools.pairwise(path))


def exact_log_prob(model, x, known=None):
    """The log-likelihood, summed over every path of the regimes."""
    known = np.ones(x.size, bool) if known is None else known.ravel()
    terms = []
    for path in paths(model, len(x)):
        mean, spread = dense_state_prior(model, path)
        matrix, offset, noise = dense_observation(model, path)
        whole = multivariate_normal(
            (matrix @ mean + offset)[known], (matrix @ spread @ matrix.T + noise)[np.ix_(known, known)]
        )
        terms.append(log_path(model, path) + whole.logpdf(x.ravel()[known]))
    return logsumexp(terms)


def expected_joint(model, x, path, mean, covariance):
    """The mean of log p(x, s | path) over s from a Gaussian, all steps at once."""
    prior_mean, prior = dense_state_prior(model, path)
    matrix, offset, noise = dense_observation(model, path)
    total = multivariate_normal(prior_mean, prior).logpdf(mean) - 0.5 * np.trace(np.linalg.solve(prior, covariance))
    seen = multivariate_normal(matrix @ mean + offset, noise).logpdf(x.ravel())
    return total + seen - 0.5 * np.trace(np.linalg.solve(noise, matrix @ covariance @ matrix.T))


def best_states(model, x, weights):
    """The best q(s) given a distribution over paths: precisions and vectors of all paths averaged."""
    precision, vector = 0, 0
    for path, weight in weights.items():
        mean, spread = dense_state_prior(model, path)
        matrix, offset, noise = dense_observation(model, path)
        before, white = np.linalg.inv(spread), np.linalg.solve(noise, matrix)
        precision = precision + weight * (before + matrix.T @ white)
        vector = vector + weight * (before @ mean + white.T @ (x.ravel() - offset))
    covariance = np.linalg.inv(precision)
    return covariance @ vector, covariance


def chain_of(model):
    return RegimeChain(model.initial_probs, model.transition_probs)


@pytest.fixture(scope="module")
def small():
    model, x = model_of(), observations()
    return model, x, exact_log_prob(model, x)


def test_a_sweep_is_coordinate_ascent_over_all_paths(small):
    model, x, log_prob = small
    marginals = np.random.default_rng(2).dirichlet(np.ones(REGIMES), TIME)
    found = swept(chain_of(model), prepared(model.arrays(), Steps(jnp.asarray(x))), jnp.asarray(marginals))
    every = paths(model, TIME)
    weights = {path: np.prod([marginals[t, k] for t, k in enumerate(path)]) for path in every}
    mean, covariance = best_states(model, x, weights)
    np.testing.assert_allclose(found.states.mean.ravel(), mean, rtol=1e-8)
    blocks = covariance.reshape(TIME, STATE, TIME, STATE)
    np.testing.assert_allclose(found.states.covariance, [blocks[t, :, t] for t in range(TIME)], rtol=1e-8)
    crossed = [blocks[t, :, t + 1] for t in range(TIME - 1)]
    np.testing.assert_allclose(found.states.cross_covariance, crossed, rtol=1e-7, atol=1e-12)

    scores = np.array([log_path(model, path) + expected_joint(model, x, path, mean, covariance) for path in every])
    posterior = np.exp(scores - logsumexp(scores))
    expected = np.array([[posterior[[p[t] == k for p in every]].sum() for k in range(REGIMES)] for t in range(TIME)])
    np.testing.assert_allclose(found.regimes.marginals, expected, rtol=1e-8, atol=1e-12)
    moves = np.zeros((REGIMES, REGIMES))
    for path, share in zip(every, posterior, strict=True):
        for a, b in itertools.pairwise(path):
            moves[a, b] += share
    np.testing.assert_allclose(found.regimes.moves, moves, rtol=1e-8, atol=1e-12)
    entropy = multivariate_normal(mean, covariance).entropy()
    bound = (posterior * (scores - np.log(posterior))).sum() + entropy
    np.testing.assert_allclose(found.bound, bound, rtol=1e-10)
    assert found.bound < log_prob


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_the_bound_rises_and_stays_below_the_likelihood(small, temperature):
    model, x, log_prob = small
    steps, chain = Steps(jnp.asarray(x)), chain_of(model)
    start = jnp.full((TIME, REGIMES), 0.5)
    hot = ascended(chain, model.arrays(), steps, start, 3, temperature)
    bounds, marginals = [float(hot.bound)], hot.regimes.marginals
    for _ in range(8):
        found = ascended(chain, model.arrays(), steps, marginals, 1)
        bounds, marginals = [*bounds, float(found.bound)], found.regimes.marginals
    assert (np.diff(bounds) > -1e-10).all()
    assert bounds[-1] > bounds[0]
    assert bounds[-1] <= log_prob
    many = ascended(chain, model.arrays(), steps, hot.regimes.marginals, 8)
    np.testing.assert_allclose(many.bound, bounds[-1], rtol=1e-12)


def test_the_bound_of_one_regime_is_the_likelihood():
    model, x = model_of(regimes=1), observations()
    found = ascended(chain_of(model), model.arrays(), Steps(jnp.asarray(x)), jnp.ones((TIME, 1)), 1)
    np.testing.assert_allclose(found.bound, exact_log_prob(model, x), rtol=1e-10)


def test_missing_entries_and_padding_are_summed_out(small):
    model, x, _ = small
    known = np.random.default_rng(4).random(x.shape) < 0.6
    known[2] = False
    one = model_of(regimes=1)
    steps = Steps(jnp.asarray(np.where(known, x, 0.0)), observed=jnp.asarray(known))
    alone = ascended(chain_of(one), one.arrays(), steps, jnp.ones((TIME, 1)), 1)
    np.testing.assert_allclose(alone.bound, exact_log_prob(one, x, known), rtol=1e-10)

    start = jnp.full((TIME, REGIMES), 0.5)
    short = ascended(chain_of(model), model.arrays(), steps, start, 4)
    assert short.bound <= exact_log_prob(model, x, known)
    longer = Steps(
        jnp.pad(steps.values, ((0, 2), (0, 0)), constant_values=3.0),
        observed=jnp.pad(steps.observed, ((0, 2), (0, 0)), constant_values=True),
        valid=jnp.arange(TIME + 2) < TIME,
    )
    padded = ascended(chain_of(model), model.arrays(), longer, jnp.full((TIME + 2, REGIMES), 0.5), 4)
    np.testing.assert_allclose(padded.bound, short.bound, rtol=1e-12)
    np.testing.assert_allclose(padded.states.mean[:TIME], short.states.mean, rtol=1e-9)
    np.testing.assert_allclose(padded.regimes.marginals[:TIME], short.regimes.marginals, rtol=1e-9)
