"""Moments of a Gaussian over a sequence, against the inverse of its whole precision."""

import jax.numpy as jnp
import numpy as np
import pytest

from hiddenstate.ops.block_tridiagonal import chain_moments, inverse_and_log_determinant


@pytest.mark.parametrize("size", [1, 3, 8])
def test_moments_are_those_of_the_whole_precision(size):
    random, time = np.random.default_rng(size), 4
    rows = random.normal(size=(time * size, 3 * time * size))
    precision = rows @ rows.T
    for t in range(time):
        precision[t * size : (t + 1) * size, : max(0, t - 1) * size] = 0
        precision[: max(0, t - 1) * size, t * size : (t + 1) * size] = 0
    precision += 2 * np.abs(np.linalg.eigvalsh(precision).min()) * np.eye(time * size)
    vector = random.normal(size=time * size)
    blocks = precision.reshape(time, size, time, size)
    diagonal = np.stack([blocks[t, :, t] for t in range(time)])
    following = np.stack([blocks[t, :, t + 1] for t in range(time - 1)])
    found = chain_moments(jnp.asarray(diagonal), jnp.asarray(following), jnp.asarray(vector.reshape(time, size)))
    whole = np.linalg.inv(precision)
    spread = whole.reshape(time, size, time, size)
    np.testing.assert_allclose(found.mean.ravel(), whole @ vector, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.covariance, [spread[t, :, t] for t in range(time)], rtol=1e-9, atol=1e-12)
    crossed = [spread[t, :, t + 1] for t in range(time - 1)]
    np.testing.assert_allclose(found.cross_covariance, crossed, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.log_determinants.sum(), np.linalg.slogdet(precision)[1], rtol=1e-12)


@pytest.mark.parametrize("size", [2, 7])
def test_inverse_and_log_determinant(size):
    rows = np.random.default_rng(0).normal(size=(size, size + 2))
    matrix = rows @ rows.T
    inverse, log_determinant = inverse_and_log_determinant(jnp.asarray(matrix))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-10)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(matrix)[1], rtol=1e-12)
