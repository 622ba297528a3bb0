"""Rao-Blackwellised particles: regimes are drawn, and the states of each path of regimes are known as a Gaussian."""

import math
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import CategoricalLogits, Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, Shaped
from hiddenstate.core import HiddenStateError, SequenceModel, Steps, dtype_of, register
from hiddenstate.distributions import MixtureDistribution, MultivariateNormalDistribution, NormalDistribution
from hiddenstate.latent.particle.conditionals import only_derivative
from hiddenstate.latent.particle.keys import key_of, words_of
from hiddenstate.latent.particle.scheme import recentred
from hiddenstate.latent.particle.state import Information
from hiddenstate.latent.switching.belief import Observation, log_sum, shares
from hiddenstate.latent.switching.collapse import Switch
from hiddenstate.latent.switching.model import SwitchingLinearGaussian
from hiddenstate.latent.switching.regimes import Regimes
from hiddenstate.latent.switching.smoothing import held_at_the_end
from hiddenstate.ops.gaussian import Conditioned, condition, symmetric
from hiddenstate.ops.inverse_cdf import symbol_at
from hiddenstate.ops.resampling import SCHEMES, effective_sample_size
from hiddenstate.strategies import Strategy, over_time

PROPOSALS = ("optimal", "bootstrap")


class RegimeParticles(NamedTuple):
    """The state before x_t: for each particle one or more regimes z_t that it may be in, each with a Gaussian of s_t.

    With the optimal proposal these are all regimes; with the bootstrap one that was drawn. `log_weights` sum to one
    over everything. `key` holds the random key of the next step as its raw numbers.
    """

    regimes: Shaped[Array, "particle successor"]
    log_weights: Float[Array, "particle successor"]
    mean: Float[Array, "particle successor state"]
    covariance: Float[Array, "particle successor state state"]
    key: Shaped[Array, " words"]
    information: Information


class FilteredParticles(NamedTuple):
    """p(z_t, s_t | x_1 .. x_t): `marginals` of regimes, mean and covariance of the state, and how even weights are."""

    marginals: Float[Array, "time regime"]
    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]
    effective_sample_size: Float[Array, " time"]


@register("rao-blackwellised")
class RaoBlackwellised(SequenceModel):
    r"""A switching linear Gaussian model, its belief held by particles: paths of regimes, each with a Kalman filter.

    Given the regimes everything is Gaussian, so only they are drawn (Murphy 1998; Doucet, de Freitas, Murphy and
    Russell 2000). `hs.log_prob` is the logarithm of an estimate of the switching model's likelihood that is unbiased
    whatever the number of particles, where the collapsed filter of the model itself is biased.

    `proposal` says where the next regime is drawn from: ``"optimal"`` weighs all K successors of a particle by the
    observation and draws one of them, at the cost of K Kalman updates a particle; ``"bootstrap"`` draws one before
    the observation is known. Where the switch looks at the state, each particle also draws its state once the
    observation is known, so that the probability of every move is exact; its Gaussian then begins from a point.

    `resampling` and `threshold` are those of `hs.ParticleFilter`, and so is what is said there of random numbers, of
    the read-out, which `hs.log_prob` always agrees with here, and of gradients.
    """

    model: SwitchingLinearGaussian
    seed: Shaped[Array, " words"]
    particles: int = eqx.field(static=True)
    proposal: str = eqx.field(static=True)
    resampling: str = eqx.field(static=True)
    threshold: float = eqx.field(static=True)

    def __init__(
        self,
        model: SwitchingLinearGaussian,
        particles: int,
        proposal: Literal["optimal", "bootstrap"] = "optimal",
        resampling: str = "systematic",
        threshold: float = 0.5,
        *,
        key: PRNGKeyArray,
    ):
        if not isinstance(model, SwitchingLinearGaussian):
            raise HiddenStateError(
                f"model is {type(model).__name__}; it must be an hs.SwitchingLinearGaussian. hs.ParticleFilter takes "
                "other latent models."
            )
        if isinstance(particles, bool) or not isinstance(particles, int | np.integer) or particles < 1:
            raise HiddenStateError(f"particles is {particles!r}; it must be a whole number of at least 1.")
        if proposal not in PROPOSALS:
            raise HiddenStateError(f"proposal is {proposal!r}; it must be 'optimal' or 'bootstrap'.")
        if resampling not in SCHEMES:
            raise HiddenStateError(f"resampling is {resampling!r}; it must be one of {', '.join(SCHEMES)}.")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise HiddenStateError(
                f"threshold is {threshold!r}; it must be a number from 0 (never resample) to 1 (at every step)."
            )
        self.model, self.seed = model, words_of(key)
        self.particles, self.proposal = int(particles), proposal
        self.resampling, self.threshold = resampling, float(threshold)
        self.schema, self.inputs = model.schema, 0

    def reseed(self, key: PRNGKeyArray) -> "RaoBlackwellised":
        """The same filter with other random numbers."""
        return eqx.tree_at(lambda self: self.seed, self, words_of(key))

    def with_key(self, key: PRNGKeyArray) -> "RaoBlackwellised":
        """`reseed`, by the name under which learning asks a part that draws for other random numbers."""
        return self.reseed(key)

    # -- the contract ----------------------------------------------------------------------------------------------

    def initial(self) -> RegimeParticles:
        """All particles alike before the first regime; with the bootstrap one is drawn for each."""
        key, first_key = jr.split(key_of(self.seed))
        regimes, switch, dtype = self.model.arrays(), self.model.switch(), dtype_of(self)
        count = self.model.regimes
        information = Information(
            jnp.asarray(self.particles, dtype),
            jnp.asarray(False),
            jnp.arange(self.particles, dtype=jnp.int32),
            jnp.zeros((), dtype),
        )
        equal = jnp.full(self.particles, -math.log(self.particles), dtype)
        moves = jnp.broadcast_to(switch.log_initial, (self.particles, count))
        chosen, weights = self._successors(equal, moves, first_key)
        mean, covariance = regimes.initial_mean[chosen], regimes.initial_covariance[chosen]
        return RegimeParticles(chosen, weights, mean, covariance, jr.key_data(key), information)

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Observation:
        """The observation itself: what it says depends on the particles."""
        return self.model.prepare(x, u)

    def prepare_partial(
        self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None, observed: Shaped[Array, "..."]
    ) -> Observation:
        """The observation and which entries of it were seen."""
        return self.model.prepare_partial(x, u, observed)

    def step(self, state: RegimeParticles, element: Observation) -> RegimeParticles:
        """Weigh all successors, resample particles if their weights are too uneven, draw one successor each, move."""
        key, resample_key, pick_key, state_key, move_key = jr.split(key_of(state.key), 5)
        regimes, switch = self.model.arrays(), self.model.switch()
        found = conditioned(regimes, state, element)
        joint = state.log_weights + found.log_prob
        evidence = log_sum(joint)
        joint = joint - evidence
        weights = log_sum(joint, 1)
        ancestors, resampled, kept = self._resampled(weights, resample_key)
        information = Information(effective_sample_size(weights), resampled, ancestors, evidence)
        picked, scores = drawn(joint[ancestors], pick_key)

        def at(part):
            return part[ancestors, picked]

        regime, mean, covariance = at(state.regimes), at(found.mean), at(found.covariance)
        if switch.recurrence is not None:
            mean, covariance = _point(mean, covariance, state_key)
        moves = _moves(switch, regime, mean)
        chosen, ahead = self._successors(recentred(kept, scores), moves, move_key)
        return RegimeParticles(
            chosen, ahead, *_arrived(regimes, chosen, mean, covariance), jr.key_data(key), information
        )

    def evidence(self, state: RegimeParticles, element: Observation) -> Float[Array, ""]:
        """log p(x_t | x_<t) as the particles estimate it."""
        return log_sum(state.log_weights + conditioned(self.model.arrays(), state, element).log_prob)

    def readout(self, state: RegimeParticles, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The mixture of the Gaussians that the particles predict."""
        del u
        regimes = self.model.arrays()
        seen, root = regimes.observation[state.regimes], regimes.observation_root[state.regimes]
        mean = jnp.einsum("pkmn,pkn->pkm", seen, state.mean) + regimes.observation_offset[state.regimes]
        spread = jnp.einsum("pkmn,pkno,pklo->pkml", seen, state.covariance, seen)
        spread = symmetric(spread + jnp.einsum("pkmn,pkln->pkml", root, root))
        mean, spread = mean.reshape(-1, mean.shape[-1]), spread.reshape(-1, *spread.shape[-2:])
        weights = CategoricalLogits(state.log_weights.reshape(-1), validate_args=False)
        if self.model.scalar:
            each = NormalDistribution(mean[:, 0], jnp.sqrt(spread[:, 0, 0]), validate_args=False)
            return MixtureDistribution(weights, each)
        roots = jnp.linalg.cholesky(spread)
        return MixtureDistribution(weights, MultivariateNormalDistribution(mean, scale_tril=roots, validate_args=False))

    def score_sequence(
        self, state: RegimeParticles, steps: Steps, strategy: Strategy
    ) -> tuple[Float[Array, " time"], RegimeParticles]:
        """The log-probabilities of all steps, each taken from the state behind it, and the last state."""
        behind, final = over_time(self, strategy, state, steps, lambda state, *_: state.information.log_evidence)
        return jnp.append(behind[1:], final.information.log_evidence), final

    def filter(self, steps: Steps, strategy: Strategy) -> FilteredParticles:
        """p(z_t, s_t | x_1 .. x_t) at every step, all successors of all particles weighed."""
        regimes, count = self.model.arrays(), self.model.regimes

        def one(state, element, *_):
            found = conditioned(regimes, state, element)
            joint = state.log_weights + found.log_prob
            weights = jnp.exp(joint - log_sum(joint))
            mean = jnp.einsum("pk,pkn->n", weights, found.mean)
            apart = found.mean - mean
            spread = jnp.einsum("pk,pkno->no", weights, found.covariance)
            spread = spread + jnp.einsum("pk,pkn,pko->no", weights, apart, apart)
            marginals = jnp.zeros(count, weights.dtype).at[state.regimes].add(weights)
            return FilteredParticles(marginals, mean, spread, effective_sample_size(jnp.log(weights.sum(1))))

        return held_at_the_end(over_time(self, strategy, self.initial(), steps, one)[0], steps)

    # -- particles -------------------------------------------------------------------------------------------------

    def _successors(self, log_weights: Array, moves: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        """The regimes that each particle may be in next, (particle, successor), and the log-weights of all."""
        if self.proposal == "optimal":
            every = jnp.broadcast_to(jnp.arange(moves.shape[1], dtype=jnp.int32), moves.shape)
            return every, log_weights[:, None] + moves
        chosen, scores = drawn(moves, key)
        return chosen[:, None], recentred(log_weights, scores)[:, None]

    def _resampled(self, log_weights: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        """Ancestors, whether they were chosen anew, and the log-weights of their descendants."""
        index = jnp.arange(self.particles, dtype=jnp.int32)
        if self.threshold == 0:
            return index, jnp.asarray(False), log_weights
        fixed = jax.lax.stop_gradient(log_weights)
        few = effective_sample_size(fixed) < self.threshold * self.particles
        chosen = jnp.asarray(True) if self.threshold == 1 else few
        ancestors = jax.lax.cond(chosen, lambda: SCHEMES[self.resampling](fixed, key), lambda: index)
        equal = jnp.full(self.particles, -math.log(self.particles), log_weights.dtype)
        scores = only_derivative(jnp.where(chosen, log_weights[ancestors], 0.0))
        return ancestors, chosen, jnp.where(chosen, recentred(equal, scores), log_weights)


def conditioned(regimes: Regimes, state: RegimeParticles, seen: Observation) -> Conditioned:
    """Kalman's update of every Gaussian, with the log-probability of the observation under each."""
    noise = regimes.observation_noise

    def one(regime, mean, covariance):
        x = seen.x - regimes.observation_offset[regime]
        return condition(mean, covariance, regimes.observation[regime], noise[regime], x, seen.observed)

    return jax.vmap(jax.vmap(one))(state.regimes, state.mean, state.covariance)


def drawn(log_weights: Float[Array, "particle choice"], key: PRNGKeyArray) -> tuple[Array, Array]:
    """One choice for each particle, and zeros with the derivative of its log-probability."""
    probs = shares(log_weights, 1)
    uniform = jr.uniform(key, log_weights.shape[:1])
    precise = jax.lax.stop_gradient(probs).astype(uniform.dtype)
    chosen = jax.vmap(symbol_at)(precise, uniform)
    taken = jnp.take_along_axis(log_weights, chosen[:, None], 1)[:, 0]
    return chosen, only_derivative(taken - log_sum(log_weights, 1))


def _point(mean: Array, covariance: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
    """Draws of the states, as Gaussians without spread."""
    noise = jr.normal(key, mean.shape).astype(mean.dtype)
    return mean + jnp.einsum("pab,pb->pa", jnp.linalg.cholesky(covariance), noise), jnp.zeros_like(covariance)


def _moves(switch: Switch, regime: Array, states: Array) -> Float[Array, "particle next"]:
    """The log-probabilities of every particle's next regime."""
    if switch.recurrence is None:
        return switch.log_transition[regime]
    return jax.vmap(lambda regime, state: switch.log_probs_at(state)[regime])(regime, states)


def _arrived(regimes: Regimes, chosen: Array, mean: Array, covariance: Array) -> tuple[Any, Any]:
    """The Gaussians of the next states of all successors."""
    dynamics = regimes.dynamics[chosen]
    ahead = jnp.einsum("pkab,pb->pka", dynamics, mean) + regimes.dynamics_offset[chosen]
    spread = jnp.einsum("pkab,pbc,pkdc->pkad", dynamics, covariance, dynamics)
    return ahead, symmetric(spread + regimes.dynamics_noise[chosen])
