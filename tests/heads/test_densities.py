"""Log-probabilities against scipy, for parameters worked out by hand."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_softmax

from hiddenstate.heads import Bernoulli, Categorical, Gaussian, NegativeBinomial, Poisson, StudentT

KEY = jr.key(0)
EXACT = 1e-12  # a few dozen roundings in float64


def softplus_from_one(parameter):
    return np.log1p(np.exp(parameter + np.log(np.e - 1)))


def log_prob(head, parameters, x):
    return np.asarray(_log_prob(head, jnp.asarray(parameters), jnp.asarray(x)))


@eqx.filter_jit
def _log_prob(head, parameters, x):
    return head.distribution(parameters).log_prob(x)


def test_categorical_is_the_softmax_of_its_parameters():
    logits = np.array([0.3, -1.0, 2.0])
    head = Categorical(2, 3, key=KEY)
    got = [log_prob(head, logits, x) for x in range(3)]
    np.testing.assert_allclose(got, log_softmax(logits), rtol=EXACT)


def test_bits_are_independent_with_sigmoid_probabilities():
    logits = np.array([0.3, -1.0, 2.0])
    bits = np.array([1, 1, 0])
    expected = stats.bernoulli.logpmf(bits, expit(logits)).sum()
    np.testing.assert_allclose(log_prob(Bernoulli(2, 3, key=KEY), logits, bits), expected, rtol=EXACT)
    single = Bernoulli(2, None, key=KEY)
    np.testing.assert_allclose(log_prob(single, logits[:1], 0), np.log(1 - expit(0.3)), rtol=EXACT)


def test_gaussian_is_normal_in_the_units_of_the_data():
    head = Gaussian(2, 2, location=[919.0, 0.0], scale=[170.0, 2.0], key=KEY)
    x = np.array([1000.0, -1.5])
    mean, spread = np.array([0.2, -0.4]), np.array([-0.5, 1.0])
    loc = np.array([919.0, 0.0]) + np.array([170.0, 2.0]) * mean
    scale = np.array([170.0, 2.0]) * softplus_from_one(spread)
    expected = stats.norm.logpdf(x, loc, scale).sum()
    np.testing.assert_allclose(log_prob(head, [*mean, *spread], x), expected, rtol=EXACT)


def test_gaussian_of_single_numbers():
    head = Gaussian(2, None, location=919.0, scale=170.0, key=KEY)
    expected = stats.norm.logpdf(800.0, 919.0 + 170.0 * 0.2, 170.0 * softplus_from_one(-0.5))
    np.testing.assert_allclose(log_prob(head, [0.2, -0.5], 800.0), expected, rtol=EXACT)


def test_parameters_of_zero_give_location_and_scale():
    zeros = jnp.zeros(4)
    normal = Gaussian(2, 2, location=[919.0, 1.0], scale=[170.0, 2.0], key=KEY).distribution(zeros)
    np.testing.assert_allclose(normal.mean, [919.0, 1.0], rtol=EXACT)
    np.testing.assert_allclose(normal.variance, [170.0**2, 4.0], rtol=EXACT)
    full = Gaussian(2, 2, "full", location=[919.0, 1.0], scale=[170.0, 2.0], key=KEY).distribution(jnp.zeros(5))
    np.testing.assert_allclose(full.covariance_matrix, np.diag([170.0**2, 4.0]), rtol=EXACT)


def test_full_gaussian_has_the_covariance_of_its_triangle():
    scale = np.array([1.0, 10.0, 0.1])
    head = Gaussian(2, 3, "full", location=[1.0, 2.0, 3.0], scale=scale, key=KEY)
    mean, rows = np.array([0.5, -0.5, 1.0]), np.array([0.2, 0.7, -0.3, -1.1, 0.4, 0.9])
    lower = np.array(
        [
            [softplus_from_one(0.2), 0.0, 0.0],
            [0.7, softplus_from_one(-0.3), 0.0],
            [-1.1, 0.4, softplus_from_one(0.9)],
        ]
    )
    triangle = scale[:, None] * lower
    x = np.array([1.2, -3.0, 3.05])
    expected = stats.multivariate_normal.logpdf(x, [1.5, -3.0, 3.1], triangle @ triangle.T)
    np.testing.assert_allclose(log_prob(head, [*mean, *rows], x), expected, rtol=1e-10)


@pytest.mark.parametrize("tail", [-3.0, 0.0, 6.0])
def test_student_t_has_its_degrees_of_freedom_above_two(tail):
    head = StudentT(2, 2, location=[10.0, 0.0], scale=[5.0, 1.0], key=KEY)
    x = np.array([42.0, -0.3])
    expected = stats.t.logpdf(x[0], 2 + 8 * np.exp(tail), 10.0 + 5.0 * 0.3, 5.0 * softplus_from_one(0.4))
    expected += stats.t.logpdf(x[1], 10.0, -0.2, softplus_from_one(-1.0))
    np.testing.assert_allclose(log_prob(head, [0.3, -0.2, 0.4, -1.0, tail, 0.0], x), expected, rtol=1e-11)
    variance = head.distribution(jnp.array([0.3, -0.2, 0.4, -1.0, tail, 0.0])).variance
    df = 2 + 8 * np.exp(tail)
    np.testing.assert_allclose(variance[0], (5 * softplus_from_one(0.4)) ** 2 * df / (df - 2), rtol=1e-11)


COUNTS = np.array([0, 1, 2, 3, 15, 16, 17, 40, 1000])


def test_poisson_multiplies_its_base_rate():
    head = Poisson(2, None, rate=12.0, key=KEY)
    for parameter in (-4.0, 0.3, 4.0):
        expected = stats.poisson.logpmf(COUNTS, 12.0 * np.exp(parameter))
        np.testing.assert_allclose(log_prob(head, [parameter], COUNTS), expected, rtol=1e-11)
    both = Poisson(2, 2, rate=[12.0, 0.5], key=KEY)
    expected = stats.poisson.logpmf([10, 2], [12.0 * np.exp(0.1), 0.5 * np.exp(1.0)]).sum()
    np.testing.assert_allclose(log_prob(both, [0.1, 1.0], [10, 2]), expected, rtol=1e-11)


@pytest.mark.parametrize("log_concentration", [-3.0, 0.0, np.log(16.0), 5.0])
def test_negative_binomial_has_mean_and_concentration(log_concentration):
    head = NegativeBinomial(2, None, rate=12.0, key=KEY)
    r = np.exp(log_concentration)
    for parameter in (-4.0, 0.3, 4.0):
        mean = 12.0 * np.exp(parameter)
        expected = stats.nbinom.logpmf(COUNTS, r, r / (r + mean))
        np.testing.assert_allclose(log_prob(head, [parameter, log_concentration], COUNTS), expected, rtol=1e-9)
        distribution = head.distribution(jnp.array([parameter, log_concentration]))
        np.testing.assert_allclose(distribution.mean, mean, rtol=EXACT)
        np.testing.assert_allclose(distribution.variance, mean + mean**2 / r, rtol=EXACT)
