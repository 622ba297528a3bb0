"""Particles drawn with the observation in view."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Distribution

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, dtype_of, has, register
from hiddenstate.latent.particle.conditionals import (
    draw_first,
    draw_with_score,
    emission_log_probs,
    first_log_probs,
    next_log_probs,
)
from hiddenstate.latent.particle.optimal import local_of
from hiddenstate.latent.particle.scheme import (
    Resample,
    Scheme,
    drawn_ahead,
    normalised,
    prior_mixture,
    recentred,
    refuse_observations,
)
from hiddenstate.latent.particle.state import Observation, ParticleState, Weighed


@register("guided")
class Guided(Scheme):
    r"""Particles drawn from a proposal q that knows the observation, weighed by what it gets wrong.

    .. math::

        w = \frac{p(x_t \mid z_t)\, p(z_t \mid z_{t-1})}{q(z_t \mid z_{t-1}, x_t)}

    Without a `proposal` it is the locally optimal one, p(z_t | z_{t-1}, x_t), and the weight is p(x_t | z_{t-1}).
    """

    proposal: Any = None

    def check(self, model: Any) -> None:
        """A proposal is needed, or a model whose optimal one is known."""
        refuse_observations(model, "guided" if self.proposal is None else type(self.proposal).__name__)
        if self.proposal is None and local_of(model) is None and not has(model, "latent_posterior"):
            raise HiddenStateError(
                f"proposal is 'guided', but the locally optimal proposal of {type(model).__name__} is not known: it "
                "is for hidden states that are symbols, for hs.LinearGaussian, for hs.StateSpace(..., "
                "linear_emission=True) and for models with a latent_posterior. Take 'bootstrap', 'auxiliary', or an "
                "object with sample(z_before, x, u, key) and log_prob(z, z_before, x, u)."
            )

    def weigh(self, model: Any, state: ParticleState, seen: Observation, key: Any, resample: Resample) -> Weighed:
        """New particles, with the weights of those they came from times w."""
        del resample
        particles, scores, each = self._propose(model, state, seen, key)
        evidence, weights = normalised(state.log_weights + each, state.log_weights)
        weights = recentred(weights, scores)
        return Weighed(particles, weights, evidence, state.information.ancestors, state.information.resampled)

    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """The mixture of p(x_t | z_{t-1}) where it is known, otherwise of emissions of draws of z_t."""
        local = None if self.proposal is not None or has(model, "latent_posterior") else local_of(model)
        return (prior_mixture if local is None else local.readout)(model, state, u, key)

    def _propose(self, model: Any, state: ParticleState, seen: Observation, key: Any) -> tuple[Array, Array, Array]:
        """Particles, their scores (see `draw_with_score`) and the logarithm of w."""
        if self.proposal is not None:
            return _where_complete(_from_proposal(self.proposal, model, state, seen, key), model, state, seen, key)
        if has(model, "latent_posterior"):
            return _where_complete(_from_posterior(model, state, seen, key), model, state, seen, key)
        local: Any = local_of(model)
        return *local.draw(model, state, seen, key), local.evidence(model, state, seen)


def _inputs(state: ParticleState, seen: Observation) -> Any:
    return None if seen.u is None else (state.before, seen.u)


def _from_proposal(
    proposal: Any, model: Any, state: ParticleState, seen: Observation, key: Any
) -> tuple[Array, Array, Array]:
    dtype, count = dtype_of(model), state.particles.shape[0]
    x, u, both = seen.x, seen.u, _inputs(state, seen)
    whole = seen._replace(observed=None)

    def logarithm(each):
        each = each.astype(dtype)
        smooth = jnp.issubdtype(state.particles.dtype, jnp.inexact)
        return each if smooth else jax.lax.stop_gradient(each)

    def first(key):
        if not has(proposal, "sample_first"):
            return draw_first(model, key, count)[0], jnp.zeros(count, dtype)
        z = jax.vmap(lambda key: proposal.sample_first(x, u, key))(jr.split(key, count))
        z = z.astype(state.particles.dtype)
        return z, first_log_probs(model, z) - logarithm(jax.vmap(lambda z: proposal.log_prob_first(z, x, u))(z))

    def following(key):
        before, keys = state.particles, jr.split(key, count)
        z = jax.vmap(lambda z, key: proposal.sample(z, x, both, key))(before, keys).astype(before.dtype)
        density = jax.vmap(lambda z, before: proposal.log_prob(z, before, x, both))(z, before)
        return z, next_log_probs(model, before, state.before, z) - logarithm(density)

    particles, ratios = jax.lax.cond(state.begun, following, first, key)
    return particles, jnp.zeros(count, dtype), ratios + emission_log_probs(model, particles, whole)


def _from_posterior(model: Any, state: ParticleState, seen: Observation, key: Any) -> tuple[Array, Array, Array]:
    """By the model's own `latent_posterior` and `latent_first_posterior`."""
    dtype, both = dtype_of(model), _inputs(state, seen)

    def drawn(answer, key):
        distribution, each = answer
        return *draw_with_score(distribution, key, dtype), jnp.asarray(each, dtype)

    keys = jr.split(key, state.particles.shape[0])
    return jax.lax.cond(
        state.begun,
        lambda: jax.vmap(lambda key, z: drawn(model.latent_posterior(z, seen.x, both), key))(keys, state.particles),
        lambda: jax.vmap(lambda key: drawn(model.latent_first_posterior(seen.x, seen.u), key))(keys),
    )


def _where_complete(proposed: Any, model: Any, state: ParticleState, seen: Observation, key: Any) -> Any:
    """What was proposed; at a step with missing entries, draws as the model has them, weighed by what was seen."""
    if seen.observed is None:
        return proposed
    particles, scores = drawn_ahead(model, state, key)
    each = emission_log_probs(model, particles, seen)
    complete = seen.observed.all()
    return tuple(jnp.where(complete, a, b) for a, b in zip(proposed, (particles, scores, each), strict=True))
