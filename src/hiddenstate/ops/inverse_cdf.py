r"""Draws as functions of uniform numbers: the inverse of a cumulative distribution function.

Where :math:`F` is the cumulative distribution function and u is uniform, the smallest z with :math:`F(z) > u` is a
draw.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped


def symbol_at(probs: Float[Array, " symbol"], uniform: Float[Array, ""]) -> Shaped[Array, ""]:
    """The symbol at a number from 0 up to, not including, 1; never one of probability zero, however sums round."""
    possible = probs > 0
    cumulated = jnp.cumsum(probs)
    reached = possible & (cumulated > uniform * cumulated[-1])
    last = probs.shape[-1] - 1 - jnp.argmax(possible[::-1])
    return jnp.where(reached.any(), jnp.argmax(reached), last).astype(jnp.int32)


def standard_normal_at(uniform: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The standard normal's inverse at (1 + u) / 2 for numbers u between -1 and 1: exact on both sides of zero."""
    return jax.lax.erf_inv(uniform) * np.array(np.sqrt(2), uniform.dtype)


def uniform_around_zero(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Uniform numbers between -1 and 1, neither of them included: those behind JAX's own normal draws."""
    dtype = jnp.result_type(float)
    lowest = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    return jr.uniform(key, shape, dtype, lowest, np.array(1, dtype))
