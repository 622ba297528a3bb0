"""Particles drawn from the model's own prediction of the next hidden state, corrected by the observation."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Delta, Distribution

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, dtype_of, register
from hiddenstate.distributions.perturbed import PerturbedDistribution
from hiddenstate.latent.particle.conditionals import (
    draw_with_score,
    emission_log_probs,
    next_of,
    over_particles,
    single,
)
from hiddenstate.latent.particle.scheme import Resample, Scheme, drawn_ahead, normalised, prior_mixture, recentred
from hiddenstate.latent.particle.state import Observation, ParticleState, Weighed


class Inference(eqx.Module):
    r"""An inference model :math:`q(z_t \mid z_{t-1}, x_{t-1}, x_t)`, written for one hidden state.

    It is given the model's own distribution of z_t before x_t was seen, which holds all that z_{t-1} and x_{t-1} have
    to say, and returns the one to draw from. Where the model is certain of z_t it is not asked.
    """

    @abstractmethod
    def posterior(self, prior: Any, x: Array, u: Any) -> Distribution:
        """The distribution of z_t when x_t (and the input at its step) was seen too."""


@register("correction")
class Correction(Inference):
    r"""A small network that shifts and widens the noise of an `hs.cells.Noisy` by what the observation says.

    .. math::

        z_t \sim m + \sigma \odot (a + e^{b} \odot \epsilon), \qquad
        (a, b) = V \tanh(W [m, \mathrm{encode}(x_t), u_t] + w) + v

    with :math:`m = f(z_{t-1}, x_{t-1})`, the scale :math:`\sigma` and the family of the noise as the model has them.
    V and v start at zero, where it is the model itself.
    """

    reader: Any
    inner_weight: Array
    inner_bias: Array
    outer_weight: Array
    outer_bias: Array

    def __init__(self, model: Any, hidden: int = 16, *, key: Any):
        """For an `hs.RNN` of a noisy cell, with `hidden` units between."""
        state = jax.eval_shape(lambda: model.latent_initial())
        if not callable(getattr(model, "cell_input", None)):
            raise HiddenStateError(f"model is {type(model).__name__}; a Correction is for an hs.RNN of a noisy cell.")
        if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
            raise HiddenStateError(f"hidden is {hidden!r}; it must be a whole number of at least 1.")
        size, read = state.event_shape[0], model.cell.input_size
        dtype = dtype_of(model)
        self.reader = model.head if model.encoder is None else model.encoder
        self.inner_weight = (jr.normal(key, (hidden, size + read)) / jnp.sqrt(size + read)).astype(dtype)
        self.inner_bias = jnp.zeros(hidden, dtype)
        self.outer_weight = jnp.zeros((2 * size, hidden), dtype)
        self.outer_bias = jnp.zeros(2 * size, dtype)

    def posterior(self, prior: Any, x: Array, u: Any) -> PerturbedDistribution:
        """The noise of the prior, shifted and scaled."""
        if not isinstance(prior, PerturbedDistribution):
            raise HiddenStateError(
                f"the hidden state moves by a {type(prior).__name__}; a Correction is for the noise of hs.cells.Noisy."
            )
        size = self.outer_bias.size // 2
        if prior.loc.size != size:
            raise HiddenStateError(
                f"the hidden state has {prior.loc.size} numbers, but this Correction is for {size}; make one of the "
                "model that it is used with."
            )
        read = [prior.loc, self.reader.encode(x), *([] if u is None else [u])]
        inner = jnp.tanh(self.inner_weight @ jnp.concatenate(read) + self.inner_bias)
        shift, log_factor = jnp.split(self.outer_weight @ inner + self.outer_bias, 2)
        loc, scale = prior.loc + prior.scale * shift, prior.scale * jnp.exp(log_factor)
        return PerturbedDistribution(loc, scale, prior.family, prior.degrees)


@register("corrected")
class Corrected(Scheme):
    r"""Particles drawn from an `Inference`, weighed by p(x_t | z_t) p(z_t | z_{t-1}) / q(z_t)."""

    inference: Any

    def check(self, model: Any) -> None:
        """The three conditionals are enough."""

    def weigh(self, model: Any, state: ParticleState, seen: Observation, key: Any, resample: Resample) -> Weighed:
        """New particles, with the weights of those they came from times their own."""
        del resample
        particles, scores, ratios = self._propose(model, state, seen, key)
        each = ratios + emission_log_probs(model, particles, seen)
        evidence, weights = normalised(recentred(state.log_weights, scores) + each, state.log_weights)
        return Weighed(particles, weights, evidence, state.information.ancestors, state.information.resampled)

    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """The mixture of emissions of draws of z_t that have not seen x_t."""
        return prior_mixture(model, state, u, key)

    def _propose(self, model: Any, state: ParticleState, seen: Observation, key: Any) -> tuple[Array, Array, Array]:
        """Particles, their scores (see `draw_with_score`), and the logarithm of p(z_t | z_{t-1}) / q(z_t)."""
        keys = jr.split(key, state.particles.shape[0])
        following = over_particles(model, lambda z, given, key: self._one(next_of(model, z, given), seen, key, model))
        proposed = jax.lax.cond(
            state.begun,
            lambda: following(state.particles, state.before, keys),
            lambda: jax.vmap(lambda key: self._one(model.latent_initial(), seen, key, model))(keys),
        )
        if seen.observed is None:
            return proposed
        particles, scores = drawn_ahead(model, state, key)
        complete = seen.observed.all()
        otherwise = particles, scores, jnp.zeros_like(scores)
        return tuple(jnp.where(complete, a, b) for a, b in zip(proposed, otherwise, strict=True))  # pyright: ignore[reportReturnType]

    def _one(self, prior: Any, seen: Observation, key: Any, model: Any) -> tuple[Array, Array, Array]:
        dtype = dtype_of(model)
        if isinstance(prior, Delta):
            return *draw_with_score(prior, key, dtype), jnp.zeros((), dtype)
        chosen: Any = single(self.inference.posterior(prior, seen.x, seen.u))
        z, score = draw_with_score(chosen, key, dtype)
        return z, score, (prior.log_prob(z) - chosen.log_prob(z)).astype(dtype)
