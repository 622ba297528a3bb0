"""What tells one kind of particle filter from another: how particles move and what they weigh."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import CategoricalLogits, Distribution

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, dtype_of, name_of, register
from hiddenstate.distributions import MixtureDistribution
from hiddenstate.latent.particle.conditionals import (
    draw_first,
    draw_next,
    emission_log_probs,
    emissions,
    given_by,
    sees_observations,
)
from hiddenstate.latent.particle.state import Observation, ParticleState, Weighed


class Resampled(NamedTuple):
    """Which particle each new one descends from, whether they were really chosen anew, and their weights."""

    ancestors: Array
    chosen: Array
    log_weights: Array


Resample: TypeAlias = Callable[[Array, Array], Resampled]
"""From log-weights and whether anything was observed to the filter's choice; its key is bound already."""


class Scheme(eqx.Module):
    """How particles move and what they weigh."""

    looks_ahead: ClassVar[bool] = False
    """Whether it resamples by itself, when it knows the next observation."""

    holds_next: ClassVar[bool] = False
    """Whether the particles in the state are draws of z_t, or still of z_{t-1}."""

    @abstractmethod
    def check(self, model: Any) -> None:
        """Raise HiddenStateError if the model lacks what the scheme needs."""

    @abstractmethod
    def weigh(self, model: Any, state: ParticleState, seen: Observation, key: Any, resample: Resample) -> Weighed:
        """The particles at this step, weighted by all observations up to it."""

    @abstractmethod
    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """The distribution of the next observation."""

    def move(self, model: Any, particles: Array, seen: Observation, key: Any) -> tuple[Array, Array]:
        """What the next state holds of these particles, with scores (see `draw_with_score`)."""
        del seen, key
        return particles, jnp.zeros(particles.shape[0], dtype_of(model))


@register("bootstrap")
class Bootstrap(Scheme):
    """Particles move as the hidden state does and are weighed by the emission (Gordon, Salmond and Smith 1993)."""

    holds_next: ClassVar[bool] = True

    def check(self, model: Any) -> None:
        """The three conditionals are enough."""

    def weigh(self, model: Any, state: ParticleState, seen: Observation, key: Any, resample: Resample) -> Weighed:
        """The particles of the state, which are draws of z_t already."""
        del key, resample
        each = emission_log_probs(model, state.particles, seen)
        evidence, weights = normalised(state.log_weights + each, state.log_weights)
        return Weighed(state.particles, weights, evidence, state.information.ancestors, state.information.resampled)

    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """The mixture of the particles' emissions."""
        del key
        return weighted_mixture(state.log_weights, emissions(model, state.particles, u))

    def move(self, model: Any, particles: Array, seen: Observation, key: Any) -> tuple[Array, Array]:
        """A draw of z_{t+1} for each."""
        given, imagined = given_by(model, particles, seen, jr.fold_in(key, 1))
        particles, scores = draw_next(model, particles, given, key)
        return particles, scores + imagined


def refuse_observations(model: Any, proposal: str) -> None:
    """Raise HiddenStateError if hidden states see observations, which this proposal knows nothing of."""
    if sees_observations(model):
        raise HiddenStateError(
            f"proposal is {proposal!r}, but the hidden state of {name_of(model)} moves by what it observes; take "
            "'bootstrap', or an object with posterior(prior, x, u) such as hs.Correction."
        )


def normalised(log_weights: Array, otherwise: Array) -> tuple[Array, Array]:
    """The logarithm of the sum, and the weights divided by it; where all are zero, the weights `otherwise`."""
    impossible = jnp.all(log_weights == -jnp.inf)
    safe = jnp.where(impossible, otherwise, log_weights)
    total = jax.nn.logsumexp(safe)
    return jnp.where(impossible, -jnp.inf, total), safe - total


def recentred(log_weights: Array, scores: Array) -> Array:
    """Log-weights with scores added, which are zero and change only derivatives, so that these too sum to nothing."""
    return log_weights + centred(scores, log_weights)


def centred(scores: Array, log_weights: Array) -> Array:
    """Scores less their weighted mean: still zero, with derivatives of less variance and the same expectation."""
    return scores - (jnp.exp(jax.lax.stop_gradient(log_weights)) * scores).sum()


def weighted_mixture(log_weights: Array, components: Distribution) -> MixtureDistribution:
    """The mixture of the components with these normalised log-weights."""
    return MixtureDistribution(CategoricalLogits(log_weights, validate_args=False), components)


def drawn_ahead(model: Any, state: ParticleState, key: Any) -> tuple[Array, Array]:
    """Draws of z_t as the model has them, from a state that holds z_{t-1}, or from nothing before the first step."""
    count = state.particles.shape[0]
    return jax.lax.cond(
        state.begun,
        lambda key: draw_next(model, state.particles, state.before, key),
        lambda key: draw_first(model, key, count),
        key,
    )


def prior_mixture(model: Any, state: ParticleState, u: Any, key: Any) -> MixtureDistribution:
    """The mixture of emissions over draws of z_t as the model has them, from a state that holds z_{t-1}."""
    particles, scores = drawn_ahead(model, state, key)
    return weighted_mixture(recentred(state.log_weights, scores), emissions(model, particles, u))


def uniform_log_weights(model: Any, count: int) -> Array:
    """The logarithm of 1 / M, M times."""
    return jnp.full(count, -jnp.log(jnp.asarray(count, dtype_of(model))))
