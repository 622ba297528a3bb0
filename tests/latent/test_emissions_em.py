"""Emissions learn: stationary points, rising likelihoods, scipy's maxima, gaps, priors, precision."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import digamma

from hiddenstate.core import Prior, Steps, partition
from hiddenstate.latent.emissions import (
    Bernoulli,
    Categorical,
    Gaussian,
    GaussianMixture,
    LinearRegression,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from hiddenstate.latent.emissions.gammas import gamma_shape
from latent.emission_examples import EXAMPLES, FULL, MEANS, total, with_gaps

CLOSED = [name for name in EXAMPLES if not name.startswith(("student", "negative", "mixture"))]
OTHERS = [name for name in EXAMPLES if name not in CLOSED]
GAPPED = [name for name in EXAMPLES if not name.startswith("autoregressive")]


def learned(emission, weights, steps, pasts=None, rounds=1, prior=None):
    """The emission after some rounds with fixed weights, and the expected log-likelihood before each and at last."""
    arrays, static = eqx.partition(emission, eqx.is_array)

    @jax.jit
    def run(arrays):
        def once(arrays, _):
            current = eqx.combine(arrays, static)
            new = current.maximise(current.statistics(weights, steps, pasts), prior or Prior())
            return eqx.filter(new, eqx.is_array), total(current, weights, steps, pasts)

        last, scores = jax.lax.scan(once, arrays, None, length=rounds)
        return last, jnp.append(scores, total(eqx.combine(last, static), weights, steps, pasts))

    arrays, scores = run(arrays)
    return eqx.combine(arrays, static), np.asarray(scores)


@eqx.filter_jit
def log_likelihoods(emission, x, u, past):
    return emission.log_likelihoods(x, u, past)


@pytest.mark.parametrize("name", CLOSED)
def test_one_step_reaches_the_maximum(name):
    example = EXAMPLES[name]
    emission, scores = learned(example.emission, example.weights, example.steps, example.pasts)
    assert scores[1] >= scores[0]
    parameters, rest = partition(emission)
    slopes = jax.jit(jax.grad(lambda p: total(eqx.combine(p, rest), example.weights, example.steps, example.pasts)))(
        parameters
    )
    for slope in jax.tree.leaves(slopes):
        np.testing.assert_allclose(slope, 0, atol=1e-9 * example.steps.length)


@pytest.mark.parametrize("name", [*OTHERS, *(f"{name} with gaps" for name in GAPPED)])
def test_the_likelihood_never_falls(name):
    example = EXAMPLES[name.removesuffix(" with gaps")]
    example = with_gaps(example) if name.endswith("gaps") else example
    _, scores = learned(example.emission, example.weights, example.steps, rounds=5)
    assert (np.diff(scores) >= -1e-9 * np.abs(scores[1:])).all(), scores
    assert scores[-1] > scores[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_shape_of_a_gamma_distribution_is_found(dtype):
    shapes = np.logspace(-4, 6, 100)
    excess = np.where(shapes < 1e3, np.log(shapes) - digamma(shapes), 1 / (2 * shapes) + 1 / (12 * shapes**2))
    found = gamma_shape(jnp.asarray(excess, dtype), 1e-4, 1e6)
    np.testing.assert_allclose(found, shapes, rtol=1e-10 if dtype == np.float64 else 3e-5)
    np.testing.assert_allclose(
        gamma_shape(jnp.asarray([-1.0, 0.0, 1e9], dtype), 1e-4, 1e6), [1e6, 1e6, 1e-4], rtol=1e-6
    )


def test_a_negative_binomial_reaches_the_most_likely_parameters():
    x = stats.nbinom.rvs(3.0, 0.3, size=400, random_state=0)
    emission, scores = learned(NegativeBinomial([2.0], [1.0]), np.ones((400, 1)), Steps(x), rounds=400)

    def loss(p):
        mean, r = np.exp(p)
        return -stats.nbinom.logpmf(x, r, r / (r + mean)).sum()

    best = optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    np.testing.assert_allclose([emission.means[0], emission.concentrations[0]], np.exp(best.x), rtol=1e-4)
    assert scores[-1] >= -best.fun - 1e-6
    assert emission.means[0] == pytest.approx(x.mean(), rel=1e-12)


def test_a_student_t_reaches_the_most_likely_parameters():
    x = 100 + 5 * stats.t.rvs(4.0, size=400, random_state=0)
    emission, scores = learned(StudentT([90.0], [1.0], [20.0]), np.ones((400, 1)), Steps(x), rounds=200)

    def loss(p):
        return -stats.t.logpdf(x, np.exp(p[0]), p[1], np.exp(p[2])).sum()

    best = optimize.minimize(
        loss, [1.0, 100.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 2000}
    )
    found = [emission.degrees[0], emission.locations[0], emission.scales[0]]
    np.testing.assert_allclose(found, [np.exp(best.x[0]), best.x[1], np.exp(best.x[2])], rtol=1e-5)
    assert scores[-1] >= -best.fun - 1e-8


def test_gaps_in_a_pair_of_normals_reach_the_most_likely_parameters():
    random = np.random.default_rng(0)
    x = random.multivariate_normal([1.0, -2.0], [[2.0, 1.2], [1.2, 1.5]], size=60)
    observed = random.random(x.shape) < 0.7
    observed[:, 1] &= (x[:, 0] < 2) | ~observed[:, 0]  # what is missing depends on what is seen
    steps = Steps(np.where(observed, x, 0.0), None, observed)
    emission, scores = learned(Gaussian([[0.0, 0.0]], [np.eye(2)]), np.ones((60, 1)), steps, rounds=300)
    assert (np.diff(scores) >= -1e-9).all()
    parameters, rest = partition(Gaussian([[0.0, 0.0]], [np.eye(2)]))
    flat, back = jax.flatten_util.ravel_pytree(parameters)
    slope = jax.jit(jax.value_and_grad(lambda p: -total(eqx.combine(back(p), rest), jnp.ones((60, 1)), steps)))
    best = optimize.minimize(slope, flat, jac=True, method="BFGS", options={"gtol": 1e-8})
    other = eqx.combine(back(jnp.asarray(best.x)), rest)
    np.testing.assert_allclose(scores[-1], -best.fun, rtol=1e-9)
    np.testing.assert_allclose(emission.means, other.means, atol=1e-5)
    np.testing.assert_allclose(emission.covariances, other.covariances, atol=1e-5)


def test_a_mixture_within_states_reaches_what_it_was_drawn_from():
    random = np.random.default_rng(0)
    x = np.where(random.random(3000) < 0.3, random.normal(-3.0, 1.0, 3000), random.normal(2.0, 0.5, 3000))
    start = GaussianMixture([[0.5, 0.5]], [[-1.0, 1.0]], [[4.0, 4.0]])
    emission, _ = learned(start, np.ones((3000, 1)), Steps(x), rounds=30)
    np.testing.assert_allclose(emission.weights, [[0.3, 0.7]], atol=0.03)
    np.testing.assert_allclose(emission.means, [[-3.0, 2.0]], atol=0.1)
    np.testing.assert_allclose(emission.covariances, [[1.0, 0.25]], atol=0.12)


def test_pseudocounts_are_added_to_every_count_and_empty_states_stay():
    weights, prior = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), Prior(pseudocount=0.5)
    symbols = Categorical([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    sums = symbols.statistics(weights, Steps(np.array([0, 1, 1])))
    np.testing.assert_allclose(symbols.maximise(sums, prior).probs[0], np.array([1.5, 2.5, 0.5]) / 4.5)
    np.testing.assert_allclose(symbols.maximise(sums).probs[1], [0.1, 0.1, 0.8])
    bits = Bernoulli([0.5, 0.2])
    sums = bits.statistics(weights, Steps(np.array([0, 1, 1])))
    np.testing.assert_allclose(bits.maximise(sums, prior).probs, [2.5 / 4, 0.5])
    np.testing.assert_allclose(bits.maximise(sums).probs, [2 / 3, 0.2])
    for name, (emission, steps, pasts) in EXAMPLES.items():
        nothing = np.zeros((steps.length, emission.states))
        nothing[:, 0] = 1
        new = eqx.filter_jit(lambda e, *data: e.maximise(e.statistics(*data)))(emission, nothing, steps, pasts)
        x, u, past = jax.tree.map(lambda a: np.asarray(a)[0], (steps.values, steps.inputs, pasts))
        before, after = (np.asarray(log_likelihoods(e, x, u, past)) for e in (emission, new))
        assert before[0] != after[0] and np.isfinite(after).all()
        if not name.endswith("tied"):
            np.testing.assert_allclose(after[1:], before[1:], rtol=1e-12)


def test_a_floor_below_variances_gives_the_best_covariance_above_it():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 2)) @ np.array([[1.0, 0.9], [0.0, 0.1]])
    weights, steps, prior = np.ones((50, 1)), Steps(x), Prior(variance_floor=0.3)
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    assert values[0] < 0.3 < values[1]
    expected = vectors @ np.diag([0.3, values[1]]) @ vectors.T
    start = Gaussian(x[:1], [np.eye(2)])
    full, _ = learned(start, weights, steps, prior=prior)
    np.testing.assert_allclose(full.covariances[0], expected, rtol=1e-10)
    tied, _ = learned(Gaussian(x[:1], np.eye(2), covariance="tied"), weights, steps, prior=prior)
    np.testing.assert_allclose(tied.covariances, expected, rtol=1e-10)
    wide, _ = learned(Gaussian([0.0], [1.0]), weights, Steps(x[:, 0]), prior=Prior(variance_floor=9.0))
    np.testing.assert_allclose(wide.covariances, [9.0], rtol=1e-12)
    line = LinearRegression([0.0], [[0.0]], [1.0])
    fitted, _ = learned(line, weights, Steps(3 + 2 * x[:, 0], x[:, :1]), prior=prior)
    np.testing.assert_allclose([*fitted.intercepts, *fitted.weights[0], *fitted.variances], [3, 2, 0.3], rtol=1e-9)


def test_clusters_of_one_point_do_not_break_anything():
    same = Steps(np.full((5, 2), 3.0))
    for kind, covariances in {
        "full": [np.eye(2)],
        "diagonal": [[1.0, 1.0]],
        "spherical": [1.0],
        "tied": np.eye(2),
    }.items():
        emission, scores = learned(
            Gaussian([[0.0, 0.0]], covariances, covariance=kind), np.ones((5, 1)), same, rounds=3
        )
        assert np.isfinite(scores).all() and (np.diff(scores) >= -1e-9 * np.abs(scores[1:])).all()
        np.testing.assert_allclose(emission.means, 3.0, rtol=1e-12)
    none = Poisson([2.0]).maximise(Poisson([2.0]).statistics(np.ones((5, 1)), Steps(np.zeros(5, int))))
    assert 0 < none.rates[0] < 1e-300


def test_regressors_that_say_nothing_leave_their_weights():
    u = np.random.default_rng(0).normal(size=(30, 1))
    steps = Steps(1 + 2 * u[:, 0], np.concatenate([u, u, np.zeros((30, 1))], axis=1))
    start = LinearRegression([0.0], [[0.5, 0.5, 7.0]], [1.0])
    emission, scores = learned(start, np.ones((30, 1)), steps, rounds=2)
    np.testing.assert_allclose(emission.weights, [[1.0, 1.0, 7.0]], rtol=1e-6)
    assert np.isfinite(scores).all()


def test_float32_moments_far_from_zero_keep_their_digits():
    random = np.random.default_rng(0)
    x = (1e4 + random.normal(size=(2000, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])).astype(np.float32)
    expected = np.cov(x.astype(float).T, bias=True)
    weights = np.ones((2000, 1), np.float32)
    for covariances, due in (([np.eye(2)], [expected]), ([[1.0, 1.0]], np.diag(expected)[None])):
        emission = Gaussian(np.float32([[1e4, 1e4]]), covariances)
        emission, _ = learned(emission, weights, Steps(x))
        assert emission.covariances.dtype == jnp.float32
        np.testing.assert_allclose(emission.covariances, due, rtol=1e-4)
    far = Gaussian(np.float32([[0.0, 0.0]]), [np.eye(2)])
    assert not np.allclose(learned(far, weights, Steps(x))[0].covariances, expected, rtol=1e-2)
    near = learned(far, weights, Steps(x))[0].recentred()
    np.testing.assert_allclose(learned(near, weights, Steps(x))[0].covariances, [expected], rtol=1e-4)


def test_many_models_are_maximised_at_once():
    x = np.random.default_rng(0).normal(size=(20, 2))
    models = [Gaussian(MEANS[:2] + i, FULL[:2]) for i in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    weights = np.random.default_rng(1).dirichlet([1, 1], 20)

    def step(model):
        return model.maximise(model.statistics(weights, Steps(x)), Prior())

    together = jax.jit(jax.vmap(step))(stacked)
    alone = jax.jit(step)(models[2])
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a[2], b, rtol=1e-10, atol=1e-12)
