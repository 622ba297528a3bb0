"""The particle filter written as a recurrent network."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, Shaped
from hiddenstate.core import (
    HiddenStateError,
    SequenceModel,
    Steps,
    cast,
    checked_key,
    dtype_of,
    has,
    kernel_of,
    name_of,
    register,
)
from hiddenstate.latent import ParticleFilter
from hiddenstate.latent.linear_gaussian.singular import SingularNormal
from hiddenstate.latent.particle.conditionals import (
    draw,
    emission_log_probs,
    emissions,
    is_symbol,
    only_derivative,
    single,
)
from hiddenstate.latent.particle.scheme import Bootstrap, normalised, recentred, weighted_mixture
from hiddenstate.latent.particle.state import Information, Observation, ParticleState
from hiddenstate.ops.inverse_cdf import standard_normal_at, symbol_at, uniform_around_zero
from hiddenstate.ops.resampling import SCHEMES, effective_sample_size, enough_for
from hiddenstate.strategies import Strategy, Unrolled, over_time

Readout = Literal["mixture", "simulate"]


class Units(NamedTuple):
    """The hidden state of a `ParticleRNN` before x_t.

    `particles` are the hidden units, draws of z_{t-1} after resampling (before the first step there are none, and
    zeros stand there), `proposed` are the draws of z_t that propagation makes of them, and `log_weights` those of both:
    all equal where they were resampled. `seed` is the random seed as it has been carried on, as raw numbers.
    No later step needs the rest: `ancestors` says which of the particles proposed before each unit is, and
    `log_evidence` is the log-probability of the last observation.
    """

    particles: Num[Array, "particle ..."]
    proposed: Num[Array, "particle ..."]
    log_weights: Float[Array, " particle"]
    seed: Shaped[Array, " words"]
    ancestors: Shaped[Array, " particle"]
    log_evidence: Float[Array, ""]


@register("particle-rnn")
class ParticleRNN(SequenceModel):
    r"""A particle filter as a recurrent network whose random numbers all come from a seed in its first state.

    The construction of Choe, Shin and Spencer (2017, section 3.3). The hidden units are the M particles after
    resampling, and the update has two halves,

    .. math::

        G_t = f^p(h_t), \qquad h_{t+1} = f^r(G_t, h_t, x_t),

    where the propagation :math:`f^p` takes each unit through the inverse cumulative distribution function of the
    transition at a uniform number (`propagate`), and the resampling :math:`f^r` chooses among the proposed
    :math:`G_t` by their weights, its uniform numbers fixed too (`resample`, their equations 1 and 2). Both are
    deterministic functions of the state, because the seed was injected into the first one and is carried on. The
    state here has seen :math:`x_1 \ldots x_{t-1}`; theirs of the same name has seen :math:`x_t`. So that the read-out
    and the next step need not propagate twice, the state holds :math:`G_t` beside the units it follows from.

    The weights are proper ones. Their section 2.3 has :math:`P(H_t \mid x_t, H_{t-1}) / q`, which leaves out the factor
    :math:`p(x_t \mid H_{t-1})` that differs between particles. With the transition as proposal, the only one that
    does not look at :math:`x_t` as their :math:`f^p` demands, :math:`p(x_t \mid z_t)\, p(z_t \mid z_{t-1}) / q` is
    :math:`p(x_t \mid z_t)`.

    `filter` is the `hs.ParticleFilter` to emulate, with ``proposal="bootstrap"`` and a model whose hidden states are
    symbols or normal: `hs.HMM`, `hs.LinearGaussian`, or an `hs.StateSpace` of such. With its seed the network gives
    its numbers: log-probabilities, particles and ancestors. They follow the paper's to the letter where the filter
    has ``resampling="multinomial"`` and ``threshold=1``; any other choice is emulated as well.

    `readout` says how x_t is predicted from the state:

    - ``"mixture"``: the weighted mixture of the emissions of all proposed particles, as in the filter;
    - ``"simulate"``: as in the paper, one of the units is picked by its weight, moved, and the observation simulated
      from it. What the model predicts is then that one particle's emission :math:`p(x_t \mid z_t)`, a distribution
      like every other; over seeds its mean is that of the mixture, but one of them is much further from the truth.
      `simulated` gives the simulated observation itself, a single point. Gradients hold the pick fixed.
    """

    model: Any
    seed: Shaped[Array, " words"]
    particles: int = eqx.field(static=True)
    resampling: str = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    prediction: Readout = eqx.field(static=True)

    def __init__(self, filter: ParticleFilter, *, readout: Readout = "mixture"):
        if not isinstance(filter, ParticleFilter):
            raise HiddenStateError(
                f"filter is {type(filter).__name__}; it must be an hs.ParticleFilter, whose numbers the network gives."
            )
        if not isinstance(filter.scheme, Bootstrap):
            raise HiddenStateError(
                f"the filter's proposal is {type(filter.scheme).__name__.lower()}; it must be 'bootstrap', because the "
                "propagation of a network's particles does not see the observation."
            )
        if not has(filter.model, "latent_next"):
            raise HiddenStateError(
                f"the filter's model is {name_of(filter.model)}, whose hidden state sees the observations; it must be "
                "a latent model such as hs.HMM, hs.LinearGaussian or hs.StateSpace."
            )
        if readout not in get_args(Readout):
            raise HiddenStateError(f"readout is {readout!r}; it must be 'mixture' or 'simulate'.")
        self.model = filter.model
        self.seed = filter.seed
        self.particles = filter.particles
        self.resampling = filter.resampling
        self.threshold = filter.threshold
        self.prediction = readout
        self.inputs = filter.inputs
        self.schema = filter.schema
        jax.eval_shape(self.initial)  # says which hidden states it takes, if not these

    def reseed(self, key: PRNGKeyArray) -> "ParticleRNN":
        """The same network with the seed that a filter of this key has."""
        words = jr.bits(checked_key(key), (2,), jnp.uint32)
        return eqx.tree_at(lambda self: self.seed, self, words)

    # -- the recurrence ----------------------------------------------------------------------------------------

    def initial(self) -> Units:
        """The injected seed, and the first proposals, which follow from it alone."""
        seed, noise = jr.split(_key(self.seed))
        proposed, scores = self.propagate(None, None, noise)
        ancestors = jnp.arange(self.particles, dtype=jnp.int32)
        log_weights = recentred(self._equal(), scores)
        nothing = jnp.zeros((), log_weights.dtype)
        return Units(jnp.zeros_like(proposed), proposed, log_weights, jr.key_data(seed), ancestors, nothing)

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Observation:
        """The observation itself: what it says depends on the particles."""
        return Observation(x, u, None)

    def prepare_partial(
        self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None, observed: Shaped[Array, "..."]
    ) -> Observation:
        """The observation and which entries of it were seen. A missing step leaves the weights as they are."""
        return Observation(x, u, observed)

    def step(self, state: Units, element: Observation) -> Units:
        """Resample what was proposed, and propagate what is left."""
        seed, _, choice, noise = jr.split(_key(state.seed), 4)
        particles, log_weights, ancestors = self.resample(state.proposed, state.log_weights, element, choice)
        proposed, scores = self.propagate(particles, element.u, noise)
        log_weights, log_evidence = recentred(log_weights, scores), self.evidence(state, element)
        return Units(particles, proposed, log_weights, jr.key_data(seed), ancestors, log_evidence)

    def propagate(
        self, particles: Num[Array, "particle ..."] | None, u: Num[Array, " inputs"] | None, key: PRNGKeyArray
    ) -> tuple[Num[Array, "particle ..."], Float[Array, " particle"]]:
        """Where each particle goes: f^p, with a score for each.

        Each goes through the inverse cumulative distribution function of the transition, or where there are no
        particles yet of the initial distribution, at uniform numbers that come from the seed. A score is a zero that
        has the derivative of the move's log-probability where the move itself has none.
        """
        keys, dtype = jr.split(key, self.particles), dtype_of(self.model)
        if particles is None:
            first = self.model.latent_initial()
            return jax.vmap(lambda key: _at(first, key, dtype))(keys)
        return jax.vmap(lambda z, key: _at(self.model.latent_next(z, u), key, dtype))(particles, keys)

    def resample(
        self,
        proposed: Num[Array, "particle ..."],
        log_weights: Float[Array, " particle"],
        seen: Observation,
        key: PRNGKeyArray,
    ) -> tuple[Num[Array, "particle ..."], Float[Array, " particle"], Shaped[Array, " particle"]]:
        """The units in which proposed particles stand as often as they weigh: f^r. Also weights and ancestors.

        Unit i is :math:`G_t^{(a_i)}`, where :math:`a_i` is drawn by the weights (their equations 1 and 2) at uniform
        numbers from the seed. Where the filter would not resample, the particles stay and keep their weights.
        """
        _, weights = self._weigh(proposed, log_weights, seen)
        fixed = jax.lax.stop_gradient(weights)
        due = _anything(seen)
        if self.threshold < 1:
            due = due & (effective_sample_size(fixed) < enough_for(self.threshold, self.particles, fixed.dtype))
        stay = jnp.arange(self.particles, dtype=jnp.int32)
        ancestors = jnp.where(due, SCHEMES[self.resampling](fixed, key), stay)
        equal = recentred(self._equal(), only_derivative(jnp.where(due, weights[ancestors], 0.0)))
        return proposed[ancestors], jnp.where(due, equal, weights), ancestors

    def score_sequence(self, state: Units, steps: Steps, strategy: Strategy) -> tuple[Float[Array, " time"], Units]:
        """The log-probabilities of all steps, each taken from the state behind it, and the last state."""
        behind, final = over_time(self, strategy, state, steps, lambda state, *_: state.log_evidence)
        return jnp.append(behind[1:], final.log_evidence), final

    @property
    def run_natively(self) -> Callable[..., Unrolled]:
        """All states by the filter's compiled kernel, where it has one: what it keeps is what the units are."""
        if self.prediction != "mixture":
            raise AttributeError("the kernel of particle filters predicts by the mixture of all particles.")
        emulated = ParticleFilter(
            self.model, self.particles, resampling=self.resampling, threshold=self.threshold, key=jr.key(0)
        )
        emulated = eqx.tree_at(lambda filter: filter.seed, emulated, self.seed)
        return partial(_run_natively, kernel_of(emulated))

    # -- the read-out ------------------------------------------------------------------------------------------

    def readout(self, state: Units, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The mixture of the proposed particles' emissions, or the emission of the one that was picked."""
        if self.prediction == "mixture":
            return weighted_mixture(state.log_weights, emissions(self.model, state.proposed, u))
        return cast(single(self.model.latent_emission(self._picked(state), u)), dtype_of(self.model))

    def evidence(self, state: Units, element: Observation) -> Float[Array, ""]:
        """The log-probability of what was seen, under the read-out."""
        if self.prediction == "mixture":
            total, _ = self._weigh(state.proposed, state.log_weights, element)
        else:
            total = emission_log_probs(self.model, self._picked(state)[None], element)[0]
        return total if element.observed is None else jnp.where(_anything(element), total, 0.0)

    def simulated(self, state: Units, u: Num[Array, " inputs"] | None = None) -> Num[Array, "..."]:
        """The observation that the seed simulates from the state: a point prediction, the paper's g.

        A unit is picked by its weight and moved, and the observation is the inverse cumulative distribution function
        of its emission at a uniform number; emissions that are neither symbols nor normal are drawn with their
        own sampler from the same seed.
        """
        key = jr.fold_in(self._spare(state), 1)
        return draw(single(self.model.latent_emission(self._picked(state), u)), key, dtype_of(self.model))

    # -- inside ------------------------------------------------------------------------------------------------

    def _weigh(self, proposed: Array, log_weights: Array, seen: Observation) -> tuple[Array, Array]:
        """The log-probability of what was seen, and the normalised log-weights given it."""
        return normalised(log_weights + emission_log_probs(self.model, proposed, seen), log_weights)

    def _picked(self, state: Units) -> Array:
        """One proposed particle, picked by its weight."""
        weights = jnp.exp(jax.lax.stop_gradient(state.log_weights))
        return state.proposed[symbol_at(weights, jr.uniform(self._spare(state)).astype(weights.dtype))]

    def _spare(self, state: Units) -> PRNGKeyArray:
        """The part of this step's seed that neither propagation nor resampling uses."""
        return jr.split(_key(state.seed), 4)[1]

    def _equal(self) -> Array:
        return jnp.full(self.particles, -jnp.log(jnp.asarray(self.particles, dtype_of(self.model))))


def _run_natively(kernel: Callable[..., tuple[Any, Any]], state: Units, elements: Observation, valid: Any) -> Unrolled:
    """States of a network from those that the filter's kernel gives: the units are the ancestors' proposals."""
    known = Information(jnp.zeros_like(state.log_evidence), jnp.asarray(False), state.ancestors, state.log_evidence)
    start = ParticleState(state.proposed, state.log_weights, state.seed, known)
    along, final = kernel(start, elements, valid)

    def units(state, particles):
        known = state.information
        return Units(particles, state.particles, state.log_weights, state.key, known.ancestors, known.log_evidence)

    time = len(along.log_weights)
    kept = jax.vmap(lambda proposed, ancestors: proposed[ancestors])(
        along.particles[:-1], along.information.ancestors[1:]
    )
    every = jnp.concatenate([state.particles[None], kept])
    count = time if valid is None else valid.sum()
    last = jnp.where(
        count > 0, along.particles[jnp.maximum(count - 1, 0)][final.information.ancestors], state.particles
    )
    if valid is not None:
        every = jax.vmap(lambda inside, particles: jnp.where(inside, particles, last))(valid, every)
    return Unrolled(units(along, every), units(final, last))


def _at(distribution: Distribution, key: PRNGKeyArray, dtype: Any) -> tuple[Array, Array]:
    """The inverse cumulative distribution function at the uniform numbers of a key, and a score.

    The score is a zero that has the derivative of the log-probability where the draw itself has none.
    """
    made: Any = cast(distribution, jnp.result_type(float))
    if is_symbol(distribution):
        z = symbol_at(jax.lax.stop_gradient(made.probs), jr.uniform(key))
        return z, only_derivative(jnp.asarray(distribution.log_prob(z)).astype(dtype))
    normal: Any = made.base_dist if isinstance(made, dist.Independent) else made
    middle: Any = getattr(normal, "loc", None)
    if isinstance(normal, dist.Normal):
        spread: Any = normal.scale
        z = middle + standard_normal_at(uniform_around_zero(key, made.event_shape)) * spread
    elif isinstance(normal, dist.MultivariateNormal | SingularNormal):
        root: Any = normal.root if isinstance(normal, SingularNormal) else normal.scale_tril
        noise = standard_normal_at(uniform_around_zero(key, root.shape[-1:]))
        z = middle + jnp.squeeze(jnp.matmul(root, noise[:, None]), -1)
    else:
        raise HiddenStateError(
            f"the hidden state is {type(distribution).__name__}; a ParticleRNN takes symbols and normal numbers, whose "
            "inverse cumulative distribution function it knows."
        )
    return z.astype(dtype), jnp.zeros((), dtype)


def _anything(element: Observation) -> Array:
    """Whether any entry was seen."""
    return jnp.asarray(True) if element.observed is None else jnp.any(element.observed)


def _key(words: Array) -> PRNGKeyArray:
    return jr.wrap_key_data(words, impl="threefry2x32")
