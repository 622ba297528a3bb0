"""Distributions that came out of a `vmap`, told about their batch axes."""

import jax
from numpyro.distributions import Distribution, Independent, MixtureSameFamily
from numpyro.distributions.batch_util import promote_batch_shape


def rebatch(distribution: Distribution, batch_shape: tuple[int, ...]) -> Distribution:
    """The same distribution with the batch shape that `vmap` gave its arrays but not its records."""
    if isinstance(distribution, MixtureSameFamily):
        return MixtureSameFamily(
            rebatch(distribution.mixing_distribution, batch_shape),
            rebatch(distribution.component_distribution, (*batch_shape, distribution.mixture_size)),
        )
    if isinstance(distribution, Independent):
        inner = distribution.event_shape[: distribution.reinterpreted_batch_ndims]
        return Independent(
            rebatch(distribution.base_dist, (*batch_shape, *inner)), distribution.reinterpreted_batch_ndims
        )
    own = getattr(distribution, "rebatch", None)
    if own is not None:
        return own(batch_shape)
    promoted = promote_batch_shape(distribution)
    shape = tuple(int(n) for n in promoted.batch_shape)
    if shape != batch_shape:
        raise AssertionError(f"batch shape {shape} where {batch_shape} is due: {jax.tree.map(lambda a: a.shape, distribution)}")
    promoted._batch_shape = shape
    return promoted
