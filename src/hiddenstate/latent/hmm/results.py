"""What recursions over a chain come to: states, posteriors and sums under them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Num
from hiddenstate.core import Steps
from hiddenstate.latent.hmm.recursions import Chain, Forward


class Lagged(NamedTuple):
    """The state where emissions depend on past observations: the belief, and the last observations, oldest first."""

    belief: Float[Array, " state"]
    past: Num[Array, "lag *event"]


class Smoothed(NamedTuple):
    """What all observations say: p(z_t | x_1 .. x_T), and p(z_t, z_{t+1} | x_1 .. x_T) for all steps but the last."""

    marginals: Float[Array, "time state"]
    pairwise: Float[Array, "earlier state state"]


class Statistics(NamedTuple):
    """What the maximisation step needs: sums over all steps, under the posterior."""

    initial: Float[Array, " state"]
    transition: Any
    emission: Any
    occupancy: Float[Array, " state"]
    """The expected number of steps in each state."""


def pasts_of(steps: Steps, past: Any) -> Num[Array, "time lag *event"]:
    """The observations before each step, oldest first; `past` are those before the first."""
    every = jnp.concatenate([past, jnp.asarray(steps.values, past.dtype)])
    return jnp.stack([every[i : i + steps.length] for i in range(len(past))], axis=1)


def last_of(steps: Steps, past: Any) -> Num[Array, "lag *event"]:
    """The observations before the step after the last real one."""
    every = jnp.concatenate([past, jnp.asarray(steps.values, past.dtype)])
    count = steps.length if steps.valid is None else steps.valid.sum()
    return jax.lax.dynamic_slice_in_dim(every, count, len(past))


def pairs_of(chain: Chain, found: Forward, ratios: Array) -> Float[Array, "earlier state state"]:
    """p(z_t, z_{t+1} | x_1 .. x_T) for all steps but the last, from smoothed over predicted beliefs."""
    if not chain.varying:
        return chain.operator.pairs(found.filtered[:-1], ratios)
    moves = jax.tree.map(lambda a: a[:-1], chain.operator)
    each = jax.vmap(lambda operator, belief, ratio: operator.pairs(belief[None], ratio[None])[0])
    return each(moves, found.filtered[:-1], ratios)
