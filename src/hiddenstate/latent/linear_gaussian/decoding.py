"""How probable hidden states and observations are together."""

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.latent.linear_gaussian.filtering import Sequence
from hiddenstate.latent.linear_gaussian.parameters import Parameters
from hiddenstate.latent.linear_gaussian.parts import plain
from hiddenstate.latent.linear_gaussian.system import Belief, conditioned, merged


def joint_log_prob(parameters: Parameters, states: Float[Array, "time state"], sequence: Sequence) -> Float[Array, ""]:
    """The log-density of states and observations; directions without noise, and diffuse ones, count nothing in it."""
    start = parameters.initial_covariance
    total = start.residual_log_prob(states[0] - plain(parameters.initial_mean), start.root)

    def move(varying, z, after):
        system = merged(sequence.fixed, varying)
        apart = after - system.transition @ z - system.shift
        return parameters.transition_noise.residual_log_prob(apart, system.noise)

    def seen(varying, z, x, observed):
        system = merged(sequence.fixed, varying)
        belief = Belief(z, jnp.zeros((z.shape[0], z.shape[0]), z.dtype))
        return conditioned(system, belief, x, observed, diagonal=parameters.emission_noise.diagonal).log_prob

    moves = jax.vmap(move)(jax.tree.map(lambda a: a[:-1], sequence.varying), states[:-1], states[1:])
    emissions = jax.vmap(seen)(sequence.varying, states, sequence.xs, sequence.observed)
    if sequence.valid is not None:
        moves, emissions = jnp.where(sequence.valid[1:], moves, 0.0), jnp.where(sequence.valid, emissions, 0.0)
    return total + moves.sum() + emissions.sum()
