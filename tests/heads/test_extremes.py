"""Large counts, large concentrations and extreme parameters, in float32 and float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from hiddenstate.core import cast
from hiddenstate.distributions.stirling import stirling_remainder
from hiddenstate.heads import NegativeBinomial, Poisson, StudentT

from .examples import HEADS, PLAIN

KEY = jr.key(0)


def in_float32(head, parameters, x):
    return np.asarray(_log_prob(cast(head, jnp.float32), jnp.asarray(parameters, jnp.float32), jnp.asarray(x)))


@eqx.filter_jit
def _log_prob(head, parameters, x):
    return head.distribution(parameters).log_prob(x)


@pytest.mark.parametrize("count", [100, 10_000, 1_000_000])
def test_large_counts_keep_their_digits_in_float32(count):
    head = Poisson(2, None, rate=float(count), key=KEY)
    for off in (-3, 0, 3):
        k = round(count + off * np.sqrt(count))
        # the rate itself, count to 6e-8, is uncertain by that times sqrt(count) standard deviations
        np.testing.assert_allclose(in_float32(head, [0.0], k), stats.poisson.logpmf(k, count), atol=5e-3, rtol=1e-5)
    broad = NegativeBinomial(2, None, rate=float(count), key=KEY)
    r = np.exp(np.float32(2.0), dtype=np.float64)
    for k in (count // 2, count, 2 * count):
        expected = stats.nbinom.logpmf(k, r, r / (r + count))
        np.testing.assert_allclose(in_float32(broad, [0.0, 2.0], k), expected, rtol=1e-5)


@pytest.mark.parametrize("log_concentration", [10.0, 20.0, 25.0])
def test_a_concentrated_negative_binomial_is_poisson_in_float32(log_concentration):
    head = NegativeBinomial(2, None, rate=7.0, key=KEY)
    k = np.array([0, 1, 7, 8, 30])
    expected = stats.poisson.logpmf(k, 7.0)
    # they differ by at most (k - mean)^2 / 2r + k / 2r
    np.testing.assert_allclose(in_float32(head, [0.0, log_concentration], k), expected, rtol=2e-3)
    if log_concentration > 15:
        np.testing.assert_allclose(in_float32(head, [0.0, log_concentration], k), expected, rtol=2e-6)


def test_a_student_t_of_many_degrees_of_freedom_is_normal_in_float32():
    x = np.array([-3.0, 0.0, 2.0], np.float32)
    got = in_float32(StudentT(2, 3, key=KEY), [0.0] * 6 + [25.0] * 3, x)
    np.testing.assert_allclose(got, stats.norm.logpdf(x).sum(), rtol=1e-6)


def test_the_negative_binomial_has_the_right_gradient_where_the_count_is_the_mean():
    head = NegativeBinomial(2, None, rate=4.0, key=KEY)
    gradient = jax.grad(lambda p: head.distribution(p).log_prob(4))(jnp.array([0.0, 0.7]))
    step = 1e-5

    def exact(a, c):
        r = np.exp(c)
        return stats.nbinom.logpmf(4, r, r / (r + 4.0 * np.exp(a)))

    numeric = [
        (exact(step, 0.7) - exact(-step, 0.7)) / (2 * step),
        (exact(0.0, 0.7 + step) - exact(0.0, 0.7 - step)) / (2 * step),
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)


def test_stirling_remainder_joins_smoothly():
    x = np.array([1e-6, 0.5, 1.0, 15.999999, 16.0, 16.000001, 1e3])
    expected = gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(stirling_remainder(jnp.asarray(x)), expected, atol=1e-11)
    slope = jax.vmap(jax.grad(stirling_remainder))(jnp.asarray(x[3:6]))
    np.testing.assert_allclose(slope, slope[1], rtol=1e-6)


VECTORS = [name for name in PLAIN if "scalar" not in name]
MIXED = ["columns", "mixture of columns", "mixture of mixtures", "columns of mixtures"]


@pytest.mark.parametrize(
    ("name", "dtype", "reach"),
    [(name, jnp.float32, 25.0) for name in VECTORS + MIXED] + [(name, jnp.float64, 200.0) for name in VECTORS],
)
def test_gradients_are_finite_within_the_stated_limits(name, dtype, reach):
    head, x = HEADS[name]
    head = cast(head, dtype)
    x = jnp.asarray(x) if np.issubdtype(x.dtype, np.integer) else jnp.asarray(x, dtype)
    n = head.parameter_count
    signs = np.array([np.ones(n), -np.ones(n), np.resize([1, -1], n), np.resize([-1, 1, 1], n), np.zeros(n)])
    if "full" in name or "columns" in name:
        signs = signs / 2  # with a full covariance of size 2 the limit is that of the sum over the diagonal
    points = jnp.asarray(reach * signs, dtype)
    value_and_grad = jax.jit(jax.vmap(jax.value_and_grad(lambda p: head.distribution(p).log_prob(x))))
    values, gradients = value_and_grad(points)
    assert values.dtype == dtype and gradients.dtype == dtype
    assert np.isfinite(values).all()
    assert np.isfinite(gradients).all()


@pytest.mark.parametrize("name", ["categorical", "bernoulli"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_logits_may_be_of_any_size(name, dtype):
    head, x = PLAIN[name]
    n = head.parameter_count
    points = jnp.asarray([[s * 10.0**e * (-1) ** i for i in range(n)] for s in (1, -1) for e in (1.5, 4, 30)], dtype)
    value_and_grad = jax.jit(jax.vmap(jax.value_and_grad(lambda p: head.distribution(p).log_prob(jnp.asarray(x)))))
    values, gradients = value_and_grad(points)
    assert np.isfinite(values).all() and np.isfinite(gradients).all()
    assert values.dtype == dtype
    assert (np.asarray(values) <= 0).all()
