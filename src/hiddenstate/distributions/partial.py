"""The probability of the entries of an observation that were seen, with those that are missing summed out."""

from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, Independent, MixtureSameFamily, MultivariateNormal

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError
from hiddenstate.distributions.columns import ColumnsDistribution, pieces_of


def partial_log_prob(distribution: Distribution, x: Any, observed: Any) -> Array:
    """log p(the entries of `x` where `observed` is True), exact for every family of the library.

    `x` and `observed` have the shape of one observation; the answer has the batch shape of the distribution. What
    stands at the missing entries of `x` has no effect, but must be a number. An observation that is missing as a
    whole has log-probability 0.
    """
    observed = jnp.asarray(observed)
    if isinstance(distribution, ColumnsDistribution):
        widths = tuple(part.event_shape[0] if part.event_shape else None for part in distribution.columns.values())
        pieces, masks = pieces_of(jnp.asarray(x), widths), pieces_of(observed, widths)
        total: Any = 0.0
        for part, piece, mask in zip(distribution.columns.values(), pieces, masks, strict=True):
            total = total + partial_log_prob(part, piece.astype(jnp.int32) if part.is_discrete else piece, mask)
        return total
    if isinstance(distribution, MixtureSameFamily):
        each = partial_log_prob(distribution.component_distribution, x, observed)
        logits: Any = distribution.mixing_distribution.logits
        return jax.nn.logsumexp(jax.nn.log_softmax(logits) + each, axis=-1)
    if not distribution.event_shape:
        return jnp.where(observed, distribution.log_prob(x), 0.0)
    if isinstance(distribution, Independent) and not distribution.base_dist.event_shape:
        return jnp.where(observed, distribution.base_dist.log_prob(x), 0.0).sum(-1)
    if isinstance(distribution, MultivariateNormal):
        return _normal(distribution, x, observed)
    raise HiddenStateError(
        f"an observation has a missing entry, and {type(distribution).__name__} cannot sum single entries out."
    )


def _normal(distribution: MultivariateNormal, x: Any, observed: Array) -> Array:
    """Missing entries get variance one and no covariance, and their density at zero is taken off again."""
    covariance: Any = distribution.covariance_matrix
    both = observed[:, None] & observed
    seen = jnp.where(both, covariance, jnp.eye(len(observed), dtype=covariance.dtype))
    factor = jnp.linalg.cholesky(seen)
    apart = jnp.where(observed, x - distribution.loc, 0.0)
    white = jax.scipy.linalg.solve_triangular(factor, apart[..., None], lower=True)[..., 0]
    half_log_det = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * (white**2).sum(-1) - half_log_det - 0.5 * jnp.log(2 * jnp.pi) * observed.sum()
