import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.ops.initialisers import (
    INITIALISERS,
    fan_in_uniform,
    glorot,
    initialiser,
    kaiming,
    orthogonal,
    scaled_identity,
    stacked,
)

KEY = jr.key(0)


@pytest.mark.parametrize("shape", [(6, 6), (4, 7), (7, 4)])
def test_orthogonal_is_orthonormal_on_its_shorter_side(shape):
    weight = np.asarray(orthogonal(KEY, shape))
    gram = weight @ weight.T if shape[0] <= shape[1] else weight.T @ weight
    np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-12)


@pytest.mark.parametrize(
    ("function", "variance"),
    [
        (glorot, 2 / (200 + 300)),
        (kaiming, 2 / 300),
        (fan_in_uniform, 1 / (3 * 300)),
    ],
)
def test_variances_are_the_published_ones(function, variance):
    """60,000 draws: the estimate of a variance is good to sqrt(2 / 60,000), 0.6 per cent."""
    weight = np.asarray(function(KEY, (200, 300)))
    assert abs(weight.mean()) < 4 * math.sqrt(variance / weight.size)
    np.testing.assert_allclose(weight.var(), variance, rtol=0.025)


def test_scaled_identity_is_the_identity_times_its_scale():
    np.testing.assert_array_equal(scaled_identity(KEY, (3, 3), 0.5), 0.5 * np.eye(3))
    np.testing.assert_array_equal(scaled_identity(KEY, (2, 4)), np.eye(2, 4))


def test_stacked_matrices_are_drawn_one_by_one():
    blocks = np.split(np.asarray(stacked(orthogonal, KEY, 3, (4, 4))), 3)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(4), atol=1e-12)
    assert not np.allclose(blocks[0], blocks[1])


@pytest.mark.parametrize("name", INITIALISERS)
def test_every_name_gives_an_array_of_the_shape_asked_for(name):
    weight = initialiser(name)(KEY, (3, 5))
    assert weight.shape == (3, 5)
    assert weight.dtype == jnp.result_type(float)


def test_a_function_is_taken_as_it_is():
    assert initialiser(glorot) is glorot


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"recurrent_init is 'magic'; it must be one of orthogonal, .* or a function"):
        initialiser("magic", "recurrent_init")
