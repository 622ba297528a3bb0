"""Covariance matrices by the logarithms and entries of their Cholesky factors, and floors below their eigenvalues."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float


def factor_of(entries: Float[Array, "*batch entry"], n: int) -> Float[Array, "*batch n n"]:
    """The lower triangle whose rows are the entries, the exponential of them on the diagonal."""
    rows, columns = np.tril_indices(n)
    values = jnp.where(rows == columns, jnp.exp(jnp.where(rows == columns, entries, 0)), entries)
    return jnp.zeros((*entries.shape[:-1], n, n), entries.dtype).at[..., rows, columns].set(values)


def entries_of(factor: Float[Array, "*batch n n"]) -> Float[Array, "*batch entry"]:
    """The rows of a lower triangle, with the logarithm of its diagonal."""
    rows, columns = np.tril_indices(factor.shape[-1])
    values = factor[..., rows, columns]
    return jnp.where(rows == columns, jnp.log(jnp.where(rows == columns, values, 1)), values)


def inverse_factor(entries: Float[Array, "*batch entry"], n: int) -> Float[Array, "*batch n n"]:
    """The inverse of the triangle, which turns deviations into independent standard ones."""
    factor = factor_of(entries, n)
    identity = jnp.broadcast_to(jnp.eye(n, dtype=factor.dtype), factor.shape)
    return jax.scipy.linalg.solve_triangular(factor, identity, lower=True)


def half_log_determinant(entries: Float[Array, "*batch entry"], n: int) -> Float[Array, "*batch"]:
    """The logarithm of the product of the triangle's diagonal."""
    rows, columns = np.tril_indices(n)
    return entries[..., np.flatnonzero(rows == columns)].sum(-1)


def at_least(covariance: Float[Array, "*batch n n"], floor: Any) -> Float[Array, "*batch n n"]:
    """The matrix with eigenvalues below the floor raised to it.

    Where S is the weighted mean of squares of normal observations, this is the covariance of largest likelihood
    among those with no eigenvalue below the floor. A matrix that has none is returned as it is.
    """
    values, vectors = jnp.linalg.eigh(covariance)
    raised = jnp.einsum("...ij,...j,...kj->...ik", vectors, jnp.maximum(values, floor), vectors, precision="highest")
    low = (values < floor).any(-1)[..., None, None]
    return jnp.where(low, (raised + jnp.swapaxes(raised, -2, -1)) / 2, covariance)


def least_share(dtype: Any) -> float:
    """The smallest variance, as a share of the one a family was built around, that its precision can hold."""
    return 16 * float(jnp.finfo(dtype).eps)
