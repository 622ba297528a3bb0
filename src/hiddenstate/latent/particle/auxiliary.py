"""Particles chosen by what the next observation says of them, then moved."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array
from hiddenstate.core import dtype_of, register
from hiddenstate.latent.particle.conditionals import emission_log_probs
from hiddenstate.latent.particle.optimal import local_of
from hiddenstate.latent.particle.scheme import (
    Resample,
    Scheme,
    centred,
    drawn_ahead,
    normalised,
    prior_mixture,
    recentred,
    refuse_observations,
    uniform_log_weights,
)
from hiddenstate.latent.particle.state import Observation, ParticleState, Weighed


@register("auxiliary")
class Auxiliary(Scheme):
    r"""Particles are resampled by a guess of p(x_t | z_{t-1}) before they move (Pitt and Shephard 1999).

    The guess :math:`\lambda` is the emission's density at the mean of z_t given z_{t-1}. Whoever descends from a
    particle of guess :math:`\lambda` weighs :math:`p(x_t \mid z_t) / \lambda`. Where the locally optimal proposal is
    known, the guess is exact, particles move by that proposal, and weigh the same: the filter is fully adapted.
    """

    looks_ahead: ClassVar[bool] = True

    def check(self, model: Any) -> None:
        """The three conditionals are enough, if hidden states do not see observations."""
        refuse_observations(model, "auxiliary")

    def weigh(self, model: Any, state: ParticleState, seen: Observation, key: Any, resample: Resample) -> Weighed:
        """Choose by the guesses, move, weigh."""
        anything = jnp.asarray(True) if seen.observed is None else seen.observed.any()
        local = local_of(model)
        guesses = _guesses(model, state, seen) if local is None else local.evidence(model, state, seen)
        total, first = normalised(state.log_weights + guesses, state.log_weights)
        ancestors, chosen, weights = resample(first, anything)
        parents = state._replace(particles=state.particles[ancestors])
        if local is not None:
            particles, scores = local.draw(model, parents, seen, key)
            return Weighed(particles, recentred(weights, scores), total, ancestors, chosen)
        particles, scores = drawn_ahead(model, parents, key)
        equal = uniform_log_weights(model, ancestors.shape[0])
        kept, guess = state.log_weights[ancestors], guesses[ancestors]
        second = kept - jax.lax.stop_gradient(kept + guess - total) + equal
        before = jnp.where(chosen, second, state.log_weights)
        before = before + centred(scores, jnp.where(chosen, equal, state.log_weights))
        evidence, weights = normalised(before + emission_log_probs(model, particles, seen), state.log_weights)
        return Weighed(particles, weights, evidence, ancestors, chosen)

    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """The mixture of p(x_t | z_{t-1}) where it is known, otherwise of emissions of draws of z_t."""
        local = local_of(model)
        return (prior_mixture if local is None else local.readout)(model, state, u, key)


def _guesses(model: Any, state: ParticleState, seen: Observation) -> Array:
    """The log-density of the observation at each particle's expected next state; all equal where it is zero at all."""
    first = jnp.asarray(model.latent_initial().mean, dtype_of(model))

    def expected(z):
        mean = jnp.where(state.begun, jnp.asarray(model.latent_next(z, state.before).mean), first)
        return (mean if jnp.issubdtype(z.dtype, jnp.inexact) else jnp.round(mean)).astype(z.dtype)

    each = emission_log_probs(model, jax.vmap(expected)(state.particles), seen)
    return jnp.where(jnp.all(each == -jnp.inf), 0.0, each)
