"""Probabilities and their logarithms, with exact zeros."""

import jax.numpy as jnp

from hiddenstate._types import Array, Float


def safe_log(probs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logarithm, minus infinity at zero, where its gradient is zero: nothing is clipped."""
    positive = probs > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, probs, 1.0)), -jnp.inf)
