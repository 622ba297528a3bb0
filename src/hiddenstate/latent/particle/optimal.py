r"""The locally optimal proposal :math:`p(z_t \mid z_{t-1}, x_t)`, where a model allows it.

With it a particle's weight is multiplied by :math:`p(x_t \mid z_{t-1})`, which does not depend on the draw
(Doucet, Godsill and Andrieu 2000). It is known for

- hidden states that are symbols, as those of an HMM, by a finite sum;
- normal transitions and emissions of which the emission is affine in z: `hs.LinearGaussian`, and models
  with a true attribute ``linear_emission``.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Distribution

from hiddenstate._types import Array
from hiddenstate.core import dtype_of
from hiddenstate.distributions import (
    MultivariateNormalDistribution,
    NormalDistribution,
    mixture,
    partial_log_prob,
)
from hiddenstate.inference.batches import rebatch
from hiddenstate.latent.linear_gaussian import LinearGaussian
from hiddenstate.latent.particle.conditionals import (
    draw,
    emission_log_probs,
    emissions,
    only_derivative,
    state_count,
)
from hiddenstate.latent.particle.scheme import drawn_ahead, weighted_mixture
from hiddenstate.latent.particle.state import Observation, ParticleState


class Local(eqx.Module):
    """What one observation says of z_t, given z_{t-1}; the state's particles are draws of z_{t-1}."""

    @abstractmethod
    def evidence(self, model: Any, state: ParticleState, seen: Observation) -> Array:
        """log p(x_t | z_{t-1}) for each particle."""

    @abstractmethod
    def draw(self, model: Any, state: ParticleState, seen: Observation, key: Any) -> tuple[Array, Array]:
        """Draws from p(z_t | z_{t-1}, x_t), one for each particle, with scores (see `draw_with_score`)."""

    @abstractmethod
    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """The mixture of p(x_t | z_{t-1}) over the particles."""


def local_of(model: Any) -> Local | None:
    """The way to the locally optimal proposal for this model, or None."""
    if state_count(model) is not None:
        return Symbols()
    linear = isinstance(model, LinearGaussian) or getattr(model, "linear_emission", False)
    return LinearNormal() if linear else None


class Symbols(Local):
    """Hidden states that are symbols: sums over all of them."""

    def evidence(self, model: Any, state: ParticleState, seen: Observation) -> Array:
        """The sum over z_t of p(z_t | z_{t-1}) p(x_t | z_t)."""
        return _log_sum(self._joint(model, state, seen))

    def draw(self, model: Any, state: ParticleState, seen: Observation, key: Any) -> tuple[Array, Array]:
        """Draws by p(z_t | z_{t-1}) p(x_t | z_t); where no state can be, by nothing."""
        joint = self._joint(model, state, seen)
        possible = jnp.any(joint > -jnp.inf, axis=-1)
        logits = jnp.where(possible[:, None], joint, 0.0)
        z = jr.categorical(key, jax.lax.stop_gradient(logits).astype(jnp.result_type(float)), axis=-1)
        chosen = jnp.take_along_axis(logits, z[:, None], 1)[:, 0] - _log_sum(logits)
        return z.astype(jnp.int32), only_derivative(chosen)

    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """A mixture over hidden states: all particles in one."""
        del key
        belief = jnp.exp(state.log_weights) @ jnp.exp(self._prior(model, state))
        return mixture(belief, emissions(model, jnp.arange(belief.shape[0]), u))

    def _joint(self, model: Any, state: ParticleState, seen: Observation) -> Array:
        prior = self._prior(model, state)
        return prior + emission_log_probs(model, jnp.arange(prior.shape[1]), seen)

    def _prior(self, model: Any, state: ParticleState) -> Array:
        """log p(z_t | z_{t-1}) of every state, for each particle."""
        symbols = jnp.arange(state_count(model))
        first: Any = model.latent_initial().log_prob(symbols)

        def one(z):
            following: Any = model.latent_next(z, state.before).log_prob(symbols)
            return jnp.where(state.begun, following, first).astype(dtype_of(model))

        return jax.vmap(one)(state.particles)


class LinearNormal(Local):
    """Normal transitions, and normal emissions that are affine in z: the product of two normal densities."""

    def evidence(self, model: Any, state: ParticleState, seen: Observation) -> Array:
        """The density of x_t around the emission of the expected z_t."""

        def one(z):
            distribution = self._predictive(model, state, z, seen.u)
            if seen.observed is None:
                return jnp.asarray(distribution.log_prob(seen.x), dtype_of(model))
            return partial_log_prob(distribution, seen.x, seen.observed).astype(dtype_of(model))

        return jax.vmap(one)(state.particles)

    def draw(self, model: Any, state: ParticleState, seen: Observation, key: Any) -> tuple[Array, Array]:
        """Draws of z_t and x_t together, z_t then corrected by how far x_t is from what was observed.

        Matheron's rule: z + K (x - x') with the gain K has the posterior's mean and covariance.
        """
        move_key, emit_key = jr.split(key)
        particles, scores = drawn_ahead(model, state, move_key)
        keys, dtype = jr.split(emit_key, particles.shape[0]), dtype_of(model)

        def one(z, before, key):
            _, spread = self._prior(model, state, before)
            matrix, _, noise = self._emission(model, seen.u)
            apart = (seen.x - draw(model.latent_emission(z, seen.u), key, dtype)).ravel()
            if seen.observed is not None:
                known = seen.observed.ravel()
                matrix, apart = jnp.where(known[:, None], matrix, 0), jnp.where(known, apart, 0)
                noise = jnp.where(known[:, None] & known, noise, jnp.eye(known.shape[0], dtype=dtype))
            crossed = spread @ matrix.T
            gain = jax.scipy.linalg.solve(matrix @ crossed + noise, crossed.T, assume_a="pos").T
            return z + (gain @ apart).reshape(z.shape)

        return jax.vmap(one)(particles, state.particles, keys), scores

    def readout(self, model: Any, state: ParticleState, u: Any, key: Any) -> Distribution:
        """A mixture of normal distributions, one a particle."""
        del key
        each = jax.vmap(lambda z: self._predictive(model, state, z, u))(state.particles)
        return weighted_mixture(state.log_weights, rebatch(each, state.log_weights.shape))

    def _predictive(self, model: Any, state: ParticleState, z: Array, u: Any) -> Distribution:
        mean, spread = self._prior(model, state, z)
        matrix, offset, noise = self._emission(model, u)
        middle, covariance = matrix @ mean + offset, matrix @ spread @ matrix.T + noise
        if jax.eval_shape(lambda z: model.latent_emission(z, u), z).event_shape == ():
            return NormalDistribution(middle[0], jnp.sqrt(covariance[0, 0]), validate_args=False)
        return MultivariateNormalDistribution(middle, covariance_matrix=covariance, validate_args=False)

    def _prior(self, model: Any, state: ParticleState, z: Array) -> tuple[Array, Array]:
        """Mean and covariance of z_t given z_{t-1} = z."""
        first, following = _moments(model.latent_initial()), _moments(model.latent_next(z, state.before))
        mean, spread = (jnp.where(state.begun, b, a) for a, b in zip(first, following, strict=True))
        return mean.astype(dtype_of(model)), spread.astype(dtype_of(model))

    def _emission(self, model: Any, u: Any) -> tuple[Array, Array, Array]:
        """The emission's matrix, offset and covariance."""
        dtype = dtype_of(model)
        zero = jnp.zeros(jax.eval_shape(lambda: model.latent_initial()).event_shape, dtype)

        def mean(z):
            return _moments(model.latent_emission(z, u))[0].astype(dtype)

        offset, spread = _moments(model.latent_emission(zero, u))
        matrix = jax.jacfwd(mean)(zero).reshape(offset.shape[0], -1)
        return matrix, offset.astype(dtype), spread.astype(dtype)


def _moments(distribution: Distribution) -> tuple[Array, Array]:
    """Mean and covariance of a normal distribution, a single number as a vector of one."""
    mean = jnp.ravel(jnp.asarray(distribution.mean))
    covariance: Any = getattr(distribution, "covariance_matrix", None)
    if covariance is None:
        covariance = jnp.diag(jnp.ravel(jnp.asarray(distribution.variance)))
    return mean, covariance


def _log_sum(joint: Array) -> Array:
    """The logarithm of the sum over the last axis, minus infinity with derivative zero where all are."""
    possible = jnp.any(joint > -jnp.inf, axis=-1)
    total = jax.nn.logsumexp(jnp.where(possible[..., None], joint, 0.0), axis=-1)
    return jnp.where(possible, total, -jnp.inf)
