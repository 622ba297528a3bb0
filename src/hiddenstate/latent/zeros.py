"""Positive numbers by their logarithms, with zeros that stay zeros.

A number that was given as zero is marked as impossible and its logarithm kept at 0, where no optimiser can do harm:
it counts as minus infinity, its gradient is zero, and learning leaves it. A number that EM would make zero, because
nothing of it was seen, gets the smallest positive value of its precision instead, so that later data can bring it
back.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Shaped


def logs_of(values: np.ndarray, dtype: Any) -> tuple[Float[Array, "*shape"], Shaped[Array, "*shape"]]:
    """The logarithms of numbers, 0 in place of minus infinity, and where the numbers are above zero."""
    above = values > 0
    return jnp.asarray(np.log(np.where(above, values, 1.0)), dtype), jnp.asarray(above)


@jax.jit
def log_distributions(
    logits: Float[Array, "*shape outcome"], possible: Shaped[Array, "*shape outcome"]
) -> Float[Array, "*shape outcome"]:
    """Logarithms of probabilities that sum to one over the possible outcomes; minus infinity at the others."""
    sums = jax.nn.logsumexp(jnp.where(possible, logits, -jnp.inf), axis=-1, keepdims=True)
    return jnp.where(possible, logits - sums, -jnp.inf)


def log_shares(
    counts: Float[Array, "*shape outcome"],
    possible: Shaped[Array, "*shape outcome"],
    kept: Float[Array, "*shape outcome"],
) -> Float[Array, "*shape outcome"]:
    """Logarithms of the shares of counts; `kept` where there are none, 0 where an outcome is impossible."""
    counts = jnp.where(possible, counts, 0)
    sums = counts.sum(-1, keepdims=True)
    some = sums > 0
    shares = floored_log(counts / jnp.where(some, sums, 1))
    return jnp.where(possible, jnp.where(some, shares, kept), 0)


def floored_log(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logarithm of numbers from 0 on, those below the smallest positive one taken for it."""
    return jnp.log(jnp.maximum(values, jnp.finfo(values.dtype).tiny))
