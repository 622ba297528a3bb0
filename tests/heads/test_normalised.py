"""Probabilities sum to one: over all values of small supports, by quadrature on the line."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.heads import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Mixture,
    NegativeBinomial,
    Poisson,
    StudentT,
)

KEY = jr.key(3)
BITS = np.array(list(itertools.product([0, 1], repeat=3)))
T = np.linspace(-12, 12, 1201)
LINE, WEIGHT = np.sinh(T), np.cosh(T) * (T[1] - T[0])


def _plane():
    t = np.linspace(-4, 4, 161)
    x, w = np.sinh(t), np.cosh(t) * (t[1] - t[0])
    return np.stack(np.meshgrid(x, x), -1).reshape(-1, 2), np.multiply.outer(w, w).ravel()


def _records():
    """A symbol of three, a real number, a bit."""
    t = np.linspace(-5, 5, 401)
    parts = [np.stack([np.full_like(t, s), np.sinh(t), np.full_like(t, b)], -1) for s in range(3) for b in range(2)]
    return np.concatenate(parts), np.tile(np.cosh(t) * (t[1] - t[0]), 6)


def record():
    heads = Categorical(2, 3, key=KEY), Gaussian(2, None, key=KEY), Bernoulli(2, None, key=KEY)
    return Columns(zip("abc", heads, strict=True))


CASES = {
    "categorical": (Categorical(2, 5, key=KEY), np.arange(5), 1),
    "bernoulli": (Bernoulli(2, 3, key=KEY), BITS, 1),
    "gaussian": (Gaussian(2, None, location=0.2, scale=0.7, key=KEY), LINE, WEIGHT),
    "gaussian full": (Gaussian(2, 2, "full", key=KEY), *_plane()),
    "student-t": (StudentT(2, None, key=KEY), LINE, WEIGHT),
    "poisson": (Poisson(2, None, rate=3.0, key=KEY), np.arange(200), 1),
    "negative-binomial": (NegativeBinomial(2, None, rate=3.0, key=KEY), np.arange(3000), 1),
    "mixture of categorical": (Mixture(Categorical(2, 5, key=KEY), 3, key=KEY), np.arange(5), 1),
    "mixture of bernoulli": (Mixture(Bernoulli(2, 3, key=KEY), 4, key=KEY), BITS, 1),
    "mixture of gaussian full": (Mixture(Gaussian(2, 2, "full", key=KEY), 2, key=KEY), *_plane()),
    "mixture of mixtures of student-t": (
        Mixture(Mixture(StudentT(2, None, key=KEY), 2, key=KEY), 2, key=KEY),
        LINE,
        WEIGHT,
    ),
    "columns": (record(), *_records()),
    "mixture of columns": (Mixture(record(), 3, key=KEY), *_records()),
}


@pytest.mark.parametrize("name", CASES)
def test_probabilities_sum_to_one(name):
    head, values, weights = CASES[name]
    h = jnp.array([0.5, -1.0])
    log_probs = jax.jit(lambda h, xs: jax.vmap(lambda x: head(h).log_prob(x))(xs))(h, jnp.asarray(values))
    # the grids leave out less than 1e-6 of the tails
    np.testing.assert_allclose(np.sum(np.exp(log_probs) * weights), 1.0, atol=2e-6)
