"""The particle filter as a sequence model."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, Shaped
from hiddenstate.core import HiddenStateError, SequenceModel, Steps, dtype_of, register
from hiddenstate.latent.particle import compiled
from hiddenstate.latent.particle.auxiliary import Auxiliary
from hiddenstate.latent.particle.conditionals import (
    check_conditionals,
    draw_first,
    given_by,
    no_given,
    only_derivative,
    sees_observations,
)
from hiddenstate.latent.particle.corrected import Corrected
from hiddenstate.latent.particle.guided import Guided
from hiddenstate.latent.particle.keys import key_of, words_of
from hiddenstate.latent.particle.scheme import Bootstrap, Resampled, Scheme, recentred, uniform_log_weights
from hiddenstate.latent.particle.smoothing import backward_draws, filtered, smoothed
from hiddenstate.latent.particle.state import Filtered, Information, Observation, ParticleState, Smoothed, Weighed
from hiddenstate.native.manual import carried
from hiddenstate.ops.resampling import SCHEMES, effective_sample_size, enough_for
from hiddenstate.strategies import Native, Strategy, Unrolled, over_time

_SCHEMES: dict[str, type[Scheme]] = {"bootstrap": Bootstrap, "guided": Guided, "auxiliary": Auxiliary}


@register("particle-filter")
class ParticleFilter(SequenceModel):
    r"""Any latent model as a sequence model, its belief held by weighted particles (sequential Monte Carlo).

    `model` names its conditionals as distributions: an `hs.HMM`, an `hs.LinearGaussian`, an `hs.StateSpace` of
    functions, or an `hs.RNN`, whose hidden state is then a vector that sees the observations. At each step the
    particles are weighed by the observation, resampled if the weights have become too uneven, and moved.
    `hs.log_prob` is the logarithm of an estimate of the likelihood that is unbiased whatever the number of particles;
    its error falls like one over the square root of that number.

    `proposal` says where particles are drawn from:

    - ``"bootstrap"``: from the transition, with weights p(x_t | z_t) (Gordon, Salmond and Smith 1993);
    - ``"guided"``: from the locally optimal p(z_t | z_{t-1}, x_t), with weights p(x_t | z_{t-1}); for hidden states
      that are symbols, and for normal transitions with linear normal emissions;
    - ``"auxiliary"``: from the transition, after resampling by a guess of p(x_t | z_{t-1}) (Pitt and Shephard 1999);
    - a `Proposal` q of your own, with weights :math:`p(x_t | z_t) p(z_t | z_{t-1}) / q(z_t | z_{t-1}, x_t)`. The notes
      on RNNs as probabilistic models (section 2.3) write :math:`p(z_t | x_t, z_{t-1}) / q`, which leaves out the
      factor :math:`p(x_t | z_{t-1})`; it differs between particles, and without it the estimate is biased;
    - an object with ``posterior(prior, x, u)``, such as `hs.Correction`: a distribution to draw z_t from, made of the
      model's own `prior` p(z_t | z_{t-1}) and of x_t, with the same weights. For an `hs.RNN` it is this or
      ``"bootstrap"``.

    `resampling` is systematic, stratified, multinomial or residual, and happens where the effective sample size falls
    below `threshold` times the particles: 1 is at every step, 0 never.

    The random numbers come from `key`, which is kept in the model and carried in the state: the filter is a
    deterministic recurrence, and the same key gives the same numbers. All sequences of a batch use the same ones.
    `reseed` gives the same filter with others.

    The read-out is the mixture of the particles' predictions. With ``"bootstrap"``, and wherever the locally optimal
    proposal is used, `hs.log_prob` is exactly the log-probability under these read-outs. With a proposal of your own
    or a guess it is not: the estimate then uses draws that know x_t, the read-out draws that do not.

    Gradients of the log-likelihood are those of the estimate with the random numbers held fixed. Where a choice does
    not vary smoothly (resampling, hidden symbols), the derivative of its log-probability takes its place (Ścibior and
    Wood 2021), so that with many particles they approach the gradient of the log-likelihood; with few they are biased
    and noisy, although the likelihood itself is unbiased.

    `trajectories` is the number of draws that `hs.smooth` makes.
    """

    model: Any
    scheme: Scheme
    seed: Shaped[Array, " words"]
    particles: int = eqx.field(static=True)
    resampling: str = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    trajectories: int = eqx.field(static=True)

    def __init__(
        self,
        model: Any,
        particles: int,
        proposal: Any = "bootstrap",
        resampling: str = "systematic",
        threshold: float = 0.5,
        *,
        key: PRNGKeyArray,
        trajectories: int = 100,
    ):
        check_conditionals(model)
        for name, value in (("particles", particles), ("trajectories", trajectories)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise HiddenStateError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        if resampling not in SCHEMES:
            raise HiddenStateError(f"resampling is {resampling!r}; it must be one of {', '.join(SCHEMES)}.")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise HiddenStateError(
                f"threshold is {threshold!r}; it must be a number from 0 (never resample) to 1 (at every step)."
            )
        self.model = model
        self.scheme = _scheme(proposal)
        self.scheme.check(model)
        self.seed = words_of(key)
        self.particles = int(particles)
        self.resampling = resampling
        self.threshold = float(threshold)
        self.trajectories = int(trajectories)
        self.inputs = getattr(model, "inputs", 0)
        self.schema = getattr(model, "schema", None)

    def reseed(self, key: PRNGKeyArray) -> "ParticleFilter":
        """The same filter with other random numbers."""
        return eqx.tree_at(lambda self: self.seed, self, words_of(key))

    def with_key(self, key: PRNGKeyArray) -> "ParticleFilter":
        """`reseed`, by the name under which learning asks a part that draws for other random numbers."""
        return self.reseed(key)

    def initial(self) -> ParticleState:
        """Particles drawn from the first hidden state's distribution, all of the same weight."""
        key, first_key = jr.split(key_of(self.seed))
        particles, scores = draw_first(self.model, first_key, self.particles)
        dtype = dtype_of(self)
        nothing = Information(
            jnp.asarray(self.particles, dtype),
            jnp.asarray(False),
            jnp.arange(self.particles, dtype=jnp.int32),
            jnp.zeros((), dtype),
        )
        weights = uniform_log_weights(self, self.particles)
        if self.scheme.holds_next:
            return ParticleState(particles, recentred(weights, scores), jr.key_data(key), nothing)
        before = no_given(self.model, particles)
        return ParticleState(particles, weights, jr.key_data(key), nothing, before, jnp.asarray(False))

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Observation:
        """The observation itself: what it says depends on the particles. With it, what the model makes of it alone."""
        return Observation(x, u, None, self._element(x, u))

    def prepare_partial(
        self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None, observed: Shaped[Array, "..."]
    ) -> Observation:
        """The observation and which entries of it were seen. A missing step leaves the weights as they are."""
        return Observation(x, u, observed)

    def _element(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None) -> Any:
        return self.model.prepare(x, u) if sees_observations(self.model) else None

    def step(self, state: ParticleState, element: Observation) -> ParticleState:
        """Weigh, normalise, resample if the effective sample size is too small, move."""
        key, _, resample_key, move_key = jr.split(key_of(state.key), 4)
        weighed = self._weigh(state, element)
        weights, seen = weighed.log_weights, _anything(element)
        information = Information(
            effective_sample_size(weights), weighed.resampled, weighed.ancestors, weighed.log_evidence
        )
        particles = weighed.particles
        if not self.scheme.looks_ahead:
            ancestors, chosen, weights = self._resample(weights, seen, resample_key)
            information = information._replace(resampled=chosen, ancestors=ancestors)
            particles = particles[ancestors]
        before, begun = None, None
        if self.scheme.holds_next:
            particles, scores = self.scheme.move(self.model, particles, element, move_key)
        else:
            before, scores = given_by(self.model, particles, element, move_key)
            begun = jnp.asarray(True)
        return ParticleState(particles, recentred(weights, scores), jr.key_data(key), information, before, begun)

    def evidence(self, state: ParticleState, element: Observation) -> Float[Array, ""]:
        """log p(x_t | x_<t) as the particles estimate it."""
        return self._weigh(state, element).log_evidence

    def readout(self, state: ParticleState, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The mixture over particles of the distributions of the next observation."""
        return self.scheme.readout(self.model, state, u, jr.split(key_of(state.key), 4)[1])

    def score_sequence(
        self, state: ParticleState, steps: Steps, strategy: Strategy
    ) -> tuple[Float[Array, " time"], ParticleState]:
        """The log-probabilities of all steps, and the last state."""
        if isinstance(strategy, Native):
            return compiled.score(self, state, steps, strategy, _scored)
        return _scored(self, state, steps, strategy)

    @property
    def run_natively(self) -> Callable[..., Unrolled]:
        """All states by a compiled kernel, for bootstrap filters of chains and of linear Gaussian models."""
        compiled.check(self)
        return partial(compiled.states, self)

    def filter(self, steps: Steps, strategy: Strategy) -> Filtered:
        """The particles of z_t, weighted by x_1 .. x_t, at every step."""
        if isinstance(strategy, Native):
            weighed, sizes = compiled.weighed(self, self.initial(), steps, _weighed)
        else:
            weighed, sizes = _weighed(self, self.initial(), steps, strategy)
        return filtered(self.model, weighed, sizes, steps)

    def smooth(self, steps: Steps, strategy: Strategy) -> Smoothed:
        """As many draws of all hidden states as `trajectories` says, and what they say of each step."""
        key = jr.fold_in(key_of(self.seed), 1)
        known = self.filter(steps, strategy)
        return smoothed(self.model, backward_draws(self.model, known, steps, key, self.trajectories))

    def sample_states(self, steps: Steps, strategy: Strategy, key: PRNGKeyArray) -> Num[Array, "time ..."]:
        """One draw of all hidden states given all observations."""
        return backward_draws(self.model, self.filter(steps, strategy), steps, key, 1)[0]

    def _weigh(self, state: ParticleState, element: Observation) -> Weighed:
        _, weigh_key, resample_key, _ = jr.split(key_of(state.key), 4)

        def resample(log_weights, anything):
            return self._resample(log_weights, anything, resample_key)

        weighed = self.scheme.weigh(self.model, state, element, weigh_key, resample)
        if element.observed is None:
            return weighed
        return weighed._replace(log_evidence=jnp.where(_anything(element), weighed.log_evidence, 0.0))

    def _resample(self, log_weights: Array, anything: Array, key: Any) -> Resampled:
        index = jnp.arange(self.particles, dtype=jnp.int32)
        if self.threshold == 0:
            return Resampled(index, jnp.asarray(False), log_weights)
        fixed = jax.lax.stop_gradient(log_weights)
        enough = effective_sample_size(fixed) >= enough_for(self.threshold, self.particles, fixed.dtype)
        chosen = anything if self.threshold == 1 else anything & ~enough
        ancestors = jax.lax.cond(chosen, lambda: SCHEMES[self.resampling](fixed, key), lambda: carried(index, fixed))
        kept = log_weights[ancestors]
        equal = recentred(uniform_log_weights(self, self.particles), only_derivative(jnp.where(chosen, kept, 0.0)))
        return Resampled(ancestors, chosen, jnp.where(chosen, equal, log_weights))


def _scored(
    filter: ParticleFilter, state: ParticleState, steps: Steps, strategy: Strategy
) -> tuple[Float[Array, " time"], ParticleState]:
    """The log-probabilities of all steps, each taken from the state behind it, and the last state."""
    behind, final = over_time(filter, strategy, state, steps, lambda state, *_: state.information.log_evidence)
    return jnp.append(behind[1:], final.information.log_evidence), final


def _weighed(
    filter: ParticleFilter, state: ParticleState, steps: Steps, strategy: Strategy
) -> tuple[Weighed, Float[Array, " time"]]:
    """The particles of every step, weighted by all observations up to it, and the effective sample size."""
    weighed, _ = over_time(filter, strategy, state, steps, lambda state, element, *_: filter._weigh(state, element))
    return weighed, jax.vmap(effective_sample_size)(weighed.log_weights)


def _scheme(proposal: Any) -> Scheme:
    if isinstance(proposal, str) and proposal in _SCHEMES:
        return _SCHEMES[proposal]()
    if isinstance(proposal, Scheme):
        return proposal
    if callable(getattr(proposal, "sample", None)) and callable(getattr(proposal, "log_prob", None)):
        return Guided(proposal)
    if callable(getattr(proposal, "posterior", None)):
        return Corrected(proposal)
    raise HiddenStateError(
        f"proposal is {proposal!r}; it must be one of {', '.join(_SCHEMES)}, or an object with "
        "sample(z_before, x, u, key) and log_prob(z, z_before, x, u), or with posterior(prior, x, u)."
    )


def _anything(element: Observation) -> Array:
    """Whether any entry was seen."""
    return jnp.asarray(True) if element.observed is None else jnp.any(element.observed)
