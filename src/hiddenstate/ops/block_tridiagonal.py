r"""Gaussians over a whole sequence whose precision is block tridiagonal: neighbours in time are all that meets.

With the precision :math:`J` and the vector :math:`h` the density of :math:`s_1 \ldots s_T` is proportional to
:math:`\exp(h^\top s - s^\top J s / 2)`. Elimination forward and substitution backward give the mean, the covariances of
every step and of neighbours, and the determinant, at a cost that is linear in time.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from hiddenstate._types import Array, Float
from hiddenstate.ops.gaussian import symmetric

_SMALL = 6
"""Up to so many rows an inverse is written out, pivot by pivot, which inside a loop is faster than a call to LAPACK."""


class ChainMoments(NamedTuple):
    """The moments of a Gaussian over a sequence; `log_determinants` sum to that of the precision."""

    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]
    cross_covariance: Float[Array, "earlier state state"]
    """Of each step with the next one."""
    log_determinants: Float[Array, " time"]


def chain_moments(
    diagonal: Float[Array, "time state state"],
    following: Float[Array, "earlier state state"],
    vector: Float[Array, "time state"],
) -> ChainMoments:
    """The moments from the precision's blocks; block t of `following` stands right of the t-th on the diagonal."""

    def eliminate(carry, inputs):
        block, above, h = inputs
        taken, moved = carry
        inverse, log_determinant = inverse_and_log_determinant(block - taken)
        centre = inverse @ (h - moved)
        gain = inverse @ above
        return (symmetric(above.T @ gain), above.T @ centre), (inverse, centre, gain, log_determinant)

    above = jnp.concatenate([following, jnp.zeros_like(diagonal[:1])])
    start = jnp.zeros_like(diagonal[0]), jnp.zeros_like(vector[0])
    _, (inverses, centres, gains, log_determinants) = jax.lax.scan(eliminate, start, (diagonal, above, vector))

    def substitute(later, inputs):
        mean, covariance = later
        inverse, centre, gain = inputs
        crossed = -gain @ covariance
        now = centre - gain @ mean, symmetric(inverse - crossed @ gain.T)
        return now, (*now, crossed)

    last = jnp.zeros_like(vector[0]), jnp.zeros_like(diagonal[0])
    _, (mean, covariance, crossed) = jax.lax.scan(substitute, last, (inverses, centres, gains), reverse=True)
    return ChainMoments(mean, covariance, crossed[:-1], log_determinants)


def inverse_and_log_determinant(matrix: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """Of a symmetric positive definite matrix."""
    n = matrix.shape[0]
    if n > _SMALL:
        root = jnp.linalg.cholesky(matrix)
        inverse = cho_solve((root, True), jnp.eye(n, dtype=matrix.dtype))
        return symmetric(inverse), 2 * jnp.log(jnp.diagonal(root)).sum()
    log_determinant = jnp.zeros((), matrix.dtype)
    for k in range(n):  # one sweep (Goodnight 1979) exchanges a row and its column
        pivot, column = matrix[k, k], matrix[:, k].at[k].set(-1.0)
        log_determinant += jnp.log(pivot)
        others = jnp.where(jnp.arange(n) == k, 0.0, 1.0).astype(matrix.dtype)
        matrix = matrix * jnp.outer(others, others) - jnp.outer(column, column) / pivot
    return -matrix, log_determinant
