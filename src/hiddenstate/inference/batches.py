"""Sequences to be mapped over, and distributions that came out of that, told about their batch axes."""

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, Independent, MixtureSameFamily
from numpyro.distributions.batch_util import promote_batch_shape

from hiddenstate.core import Arrays, Steps


def steps_of(arrays: Arrays) -> Steps:
    """The steps of all sequences, to be mapped over: each has the form of one sequence's."""
    time = arrays.values.shape[1]
    valid = None if arrays.lengths is None else jnp.arange(time) < jnp.asarray(arrays.lengths)[:, None]
    return Steps(arrays.values, arrays.inputs, arrays.observed, valid)


def rebatch(distribution: Distribution, batch_shape: tuple[int, ...]) -> Distribution:
    """The same distribution with the batch shape that `vmap` gave its arrays but not its records.

    A distribution made of others may have a method `rebatch(batch_shape)` of its own. A plain one is built
    again from its parameters, so that what it derives from them is right as well.
    """
    own = getattr(distribution, "rebatch", None)
    if own is not None:
        return own(batch_shape)
    if isinstance(distribution, MixtureSameFamily):
        return MixtureSameFamily(
            rebatch(distribution.mixing_distribution, batch_shape),
            rebatch(distribution.component_distribution, (*batch_shape, distribution.mixture_size)),
            validate_args=False,
        )
    if isinstance(distribution, Independent):
        inner = distribution.event_shape[: distribution.reinterpreted_batch_ndims]
        return Independent(
            rebatch(distribution.base_dist, (*batch_shape, *inner)), distribution.reinterpreted_batch_ndims
        )
    if distribution.arg_constraints:
        built = type(distribution)(**distribution.get_args(), validate_args=False)
    else:
        built = promote_batch_shape(distribution)
    shape = tuple(int(n) for n in built.batch_shape)
    if shape != batch_shape or built.event_shape != distribution.event_shape:
        raise AssertionError(
            f"batch shape {shape} where {batch_shape} is due: {jax.tree.map(lambda a: a.shape, distribution)}"
        )
    built._batch_shape = shape
    return built
