"""Products of Jacobians over many steps, held with the logarithm of their size so that none vanishes or overflows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Num


class Scaled(NamedTuple):
    """A matrix with a greatest entry of 1 (or all zeros), and the logarithm of what it was divided by."""

    matrix: Float[Array, "... later earlier"]
    log_scale: Float[Array, "..."]


def scaled(matrix: Float[Array, "... later earlier"], log_scale: Float[Array, "..."] | float = 0.0) -> Scaled:
    """The matrix times exp(log_scale), with its size apart."""
    size = jnp.abs(matrix).max(axis=(-2, -1))
    return Scaled(matrix / jnp.where(size > 0, size, 1)[..., None, None], jnp.log(size) + log_scale)


@jax.jit
def products_at(
    jacobians: Float[Array, "sequence time next state"], starts: Num[Array, "sequence start"], lags: Num[Array, " lag"]
) -> Scaled:
    """The products of the Jacobians of `lag` steps from each start on, with leading axes (lag, sequence, start).

    `lags` are rising. Only the products of one lag are at work at a time.
    """
    return _over_lags(jacobians, starts, lags, lambda product: product)


@jax.jit
def log_norms_at(
    jacobians: Float[Array, "sequence time next state"], starts: Num[Array, "sequence start"], lags: Num[Array, " lag"]
) -> Float[Array, "lag sequence start"]:
    """The logarithms of the spectral norms of those products."""

    def log_norm(product: Scaled) -> Array:
        return jnp.log(jnp.linalg.norm(product.matrix, ord=2, axis=(-2, -1))) + product.log_scale

    return _over_lags(jacobians, starts, lags, log_norm)


def _over_lags(jacobians, starts, lags, emit):
    rows = jnp.arange(len(starts))[:, None]

    def longer(steps: Array, product: Scaled) -> Scaled:
        return scaled(jacobians[rows, starts + steps] @ product.matrix, product.log_scale)

    def to_lag(carry, lag):
        reached, product = carry
        product = jax.lax.fori_loop(reached, lag, longer, product)
        return (lag, product), emit(product)

    size = jacobians.shape[-1]
    one = jnp.broadcast_to(jnp.eye(size, dtype=jacobians.dtype), (*starts.shape, size, size))
    start = Scaled(one, jnp.zeros(starts.shape, jacobians.dtype))
    return jax.lax.scan(to_lag, (jnp.zeros((), lags.dtype), start), lags)[1]
