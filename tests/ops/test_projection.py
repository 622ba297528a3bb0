"""The projection is weight @ x, whatever it is mapped over and however often it is differentiated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hiddenstate.ops.projection import project


def over_steps(product, weight, xs):
    return jnp.tanh(jax.vmap(jax.vmap(lambda x: product(weight, x)))(xs)).sum()


def of_one(product, weight, x):
    return jnp.tanh(product(weight, x)).sum()


WAYS = {
    "value": lambda product: lambda weight, xs: over_steps(product, weight, xs),
    "gradient": lambda product: jax.grad(lambda *x: over_steps(product, *x), (0, 1)),
    "hessian": lambda product: jax.hessian(lambda *x: over_steps(product, *x)),
    "gradient of each": lambda product: (
        lambda weight, xs: jax.vmap(jax.grad(lambda *x: of_one(product, *x), (0, 1)), (None, 0))(weight, xs[0])
    ),
    "several weights": lambda product: (
        lambda weight, xs: jax.vmap(jax.grad(lambda *x: over_steps(product, *x), (0, 1)), (0, None))(
            jnp.stack([weight, 2 * weight]), xs
        )
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_is_the_product_of_matrix_and_vector(way):
    random = np.random.default_rng(0)
    given = jnp.asarray(random.normal(size=(4, 3))), jnp.asarray(random.normal(size=(5, 6, 3)))
    found, expected = jax.jit(WAYS[way](project))(*given), jax.jit(WAYS[way](jnp.matmul))(*given)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, expected)


def test_mixed_precisions_are_those_of_the_product():
    out = project(jnp.ones((2, 3), jnp.float64), jnp.ones(3, jnp.float32))
    assert out.dtype == jnp.float64
