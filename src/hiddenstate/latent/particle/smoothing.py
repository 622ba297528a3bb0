"""What all observations say of the hidden states: trajectories drawn backwards through the particles."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array
from hiddenstate.core import MissingDataError, Steps, dtype_of, name_of
from hiddenstate.latent.particle.conditionals import next_of, sees_observations, state_count
from hiddenstate.latent.particle.scheme import normalised
from hiddenstate.latent.particle.state import Filtered, Smoothed
from hiddenstate.ops.resampling import choice


def filtered(model: Any, weighed: Any, sizes: Array, steps: Steps) -> Filtered:
    """The particles of all steps with what they say together; behind the end stands the last value."""
    symbols = state_count(model)
    weights = jnp.exp(weighed.log_weights)
    answer = Filtered(
        weighed.particles,
        weighed.log_weights,
        sizes,
        weighed.ancestors,
        weighed.resampled,
        weighed.log_evidence,
        None if symbols is not None else jnp.einsum("tm,tm...->t...", weights, weighed.particles),
        None if symbols is None else jax.vmap(_shares, (0, 0, None))(weighed.particles, weights, symbols),
    )
    return jax.tree.map(lambda a: a[_index(steps)], answer)


def backward_draws(model: Any, known: Filtered, steps: Steps, key: Any, count: int) -> Array:
    """`count` draws of all hidden states given all observations: (trajectory, time, ...).

    From the last step back, each picks a particle by its weight times the density of the move to the state picked
    behind it (Godsill, Doucet and West 2004).
    """
    dtype, time = dtype_of(model), steps.length
    given_at = steps.inputs
    if sees_observations(model):
        if steps.observed is not None:
            raise MissingDataError(
                f"the hidden states of {name_of(model)} see every observation, and some are missing: what came before "
                "cannot be drawn backwards. Use hs.filter, or fill them in."
            )
        given_at = jax.vmap(model.prepare)(steps.values, steps.inputs)
    inside = jnp.ones(time, bool) if steps.valid is None else steps.valid
    moves = jnp.append(inside[1:], False)

    def pick(following, known):
        particles, log_weights, given, moved, key = known

        def one(after, key):
            def density(z):
                return next_of(model, z, given).log_prob(after).astype(dtype)

            both = log_weights + jnp.where(moved, jax.vmap(density)(particles), 0.0)
            _, logits = normalised(both, log_weights)
            return particles[choice(logits, key)]

        drawn = jax.vmap(one)(following, jr.split(key, count))
        return drawn, drawn

    start = jnp.broadcast_to(known.particles[-1, 0], (count, *known.particles.shape[2:]))
    along = known.particles, known.log_weights, given_at, moves, jr.split(key, time)
    drawn = jax.lax.scan(pick, start, along, reverse=True)[1]
    return jnp.moveaxis(drawn[_index(steps)], 0, 1)


def smoothed(model: Any, trajectories: Array) -> Smoothed:
    """Trajectories and what they say of each step."""
    symbols = state_count(model)
    if symbols is None:
        return Smoothed(trajectories, trajectories.mean(0), trajectories.var(0), None)
    equal = jnp.full(trajectories.shape[0], 1 / trajectories.shape[0], dtype_of(model))
    marginals = jax.vmap(_shares, (1, None, None))(trajectories, equal, symbols)
    return Smoothed(trajectories, None, None, marginals)


def _shares(states: Array, weights: Array, symbols: int) -> Array:
    return jnp.zeros(symbols, weights.dtype).at[states].add(weights)


def _index(steps: Steps) -> Array:
    """Each step, and behind the end the last one."""
    index = jnp.arange(steps.length)
    return index if steps.valid is None else jnp.minimum(index, steps.valid.sum() - 1)
