"""The linear Gaussian state space model."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, Shaped
from hiddenstate.core import Prior, Schema, SequenceModel, Sequences, Steps, dtype_of, register
from hiddenstate.distributions import NormalDistribution
from hiddenstate.inference import Decoded
from hiddenstate.latent.linear_gaussian.compiled import (
    LARGEST,
    filter_natively,
    forward_natively,
    score_natively,
    smooth_natively,
)
from hiddenstate.latent.linear_gaussian.continuous import over_intervals
from hiddenstate.latent.linear_gaussian.decoding import joint_log_prob
from hiddenstate.latent.linear_gaussian.em import Statistics, maximised, statistics
from hiddenstate.latent.linear_gaussian.filtering import RootBelief, Sequence, filtered, forward, log_probs_of, rooted
from hiddenstate.latent.linear_gaussian.parameters import (
    Parameters,
    check_names,
    horizon_of,
    input_count,
    parameters_of,
)
from hiddenstate.latent.linear_gaussian.particles import linear_moves
from hiddenstate.latent.linear_gaussian.parts import plain
from hiddenstate.latent.linear_gaussian.reading import predicted
from hiddenstate.latent.linear_gaussian.restart import restarted
from hiddenstate.latent.linear_gaussian.singular import normal_with_root
from hiddenstate.latent.linear_gaussian.smoothing import (
    Backward,
    Filtered,
    Smoothed,
    backward,
    covariances,
    drawn,
    lagged,
    smoothed,
    smoothed_in_parallel,
)
from hiddenstate.latent.linear_gaussian.system import Belief, Observation, conditioned, propagated
from hiddenstate.latent.linear_gaussian.systems import system_at, systems_of
from hiddenstate.native import streaming
from hiddenstate.native.particle import Linear
from hiddenstate.ops import gaussian
from hiddenstate.ops.derivatives import differentiated_as
from hiddenstate.ops.gaussian import Conditional, outer
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Associative, Native, Strategy, over_time, prepared


@register("linear-gaussian")
class LinearGaussian(SequenceModel):
    r"""A hidden state that moves linearly, seen through a linear map, both with Gaussian noise.

    .. math::

        z_1 \sim N(m, P), \qquad z_{t+1} = A z_t + a + B u_t + N(0, Q), \qquad x_t = C z_t + c + D u_t + N(0, R)

    With `n` hidden numbers and `k` inputs:

    - `transition` A is (n, n), `transition_offset` a is (n,), `transition_input` B is (n, k);
    - `emission` C is (m, n) where an observation is a vector of m numbers, `emission_offset` c is (m,) and
      `emission_input` D is (m, k). Where an observation is a single number, C is (n,), c a number and D (k,);
    - `transition_noise` Q, `emission_noise` R and `initial_covariance` P are covariance matrices, or vectors of
      variances, which stand for diagonal matrices and stay diagonal in learning; R is a number where an observation
      is one. They may be singular: directions without noise stay without;
    - `initial_mean` m is zero and `initial_covariance` the identity unless given. With ``diffuse=True`` nothing is
      known of z_1, exactly (Durbin and Koopman 2012, chapter 5); a list of n booleans says of which entries.

    Any matrix may have one more axis in front, time: entry t serves x_t and the move from t to t + 1. Such parts are
    known beforehand and not learned. Where an observation is a single number, give ``scalar=True`` with a C of shape
    (time, n), which could otherwise be an (m, n). `fixed` names the parts that are not learned.

    The state is a `Belief`: mean and covariance of z_t given x_1 .. x_{t-1}. `hs.log_prob` runs in square-root form
    step by step, or as a parallel scan (Särkkä and García-Fernández 2021).
    """

    parameters: Parameters
    scalar: bool = eqx.field(static=True)
    """Whether an observation is a single number."""
    diffuse: tuple[bool, ...] | None = eqx.field(static=True)
    """Of which entries of z_1 nothing is known."""

    def __init__(
        self,
        *,
        transition: Any,
        transition_offset: Any = None,
        transition_noise: Any,
        emission: Any,
        emission_offset: Any = None,
        emission_noise: Any,
        initial_mean: Any = None,
        initial_covariance: Any = None,
        diffuse: bool | list[bool] | tuple[bool, ...] = False,
        transition_input: Any = None,
        emission_input: Any = None,
        scalar: bool | None = None,
        fixed: tuple[str, ...] | list[str] = (),
        inputs: int | None = None,
        schema: Schema | None = None,
    ):
        given = {
            "transition": transition,
            "transition_offset": transition_offset,
            "transition_input": transition_input,
            "transition_noise": transition_noise,
            "emission": emission,
            "emission_offset": emission_offset,
            "emission_input": emission_input,
            "emission_noise": emission_noise,
            "initial_mean": initial_mean,
            "initial_covariance": initial_covariance,
        }
        self.scalar = np.ndim(emission) == 1 if scalar is None else bool(scalar)
        self.inputs = input_count(transition_input, emission_input, inputs)
        self.parameters, self.diffuse = parameters_of(
            given, scalar=self.scalar, diffuse=diffuse, inputs=self.inputs, fixed=fixed
        )
        self.schema = schema

    @classmethod
    def from_continuous(
        cls, A: Any, B: Any, C: Any, D: Any, dt: Any, *, noise: Any, emission_noise: Any, **rest: Any
    ) -> "LinearGaussian":
        r"""The system :math:`\dot z = A z + B u`, :math:`x = C z + D u`, observed every `dt`, by exact discretisation.

        `noise` is the intensity of white noise that drives z, `emission_noise` the variance of each observation; B
        and D may be None. `u` stays the same over each step. With one `dt` per step, (time,), observations are
        unevenly spaced: entry t is the time from x_t to x_{t+1}. The rest is as in the constructor.
        """
        step = over_intervals(A, B, noise, dt)
        return cls(
            transition=step.transition,
            transition_input=step.transition_input,
            transition_noise=step.transition_noise,
            emission=C,
            emission_input=D,
            emission_noise=emission_noise,
            **rest,
        )

    # -- what a person would write down ----------------------------------------------------------------------------

    @property
    def transition(self) -> Float[Array, "*time state state"]:
        """A."""
        return plain(self.parameters.transition)

    @property
    def transition_offset(self) -> Float[Array, "*time state"] | None:
        """a, or None."""
        return plain(self.parameters.transition_offset)

    @property
    def transition_input(self) -> Float[Array, "*time state inputs"] | None:
        """B, or None."""
        return plain(self.parameters.transition_input)

    @property
    def transition_noise(self) -> Float[Array, "*time state state"]:
        """Q, a covariance."""
        return outer(self.parameters.transition_noise.root)

    @property
    def emission(self) -> Float[Array, "..."]:
        """C: (m, n), or (n,) where an observation is a single number."""
        found = plain(self.parameters.emission)
        return found[..., 0, :] if self.scalar else found

    @property
    def emission_offset(self) -> Float[Array, "..."] | None:
        """c, or None."""
        found = plain(self.parameters.emission_offset)
        return found[..., 0] if self.scalar and found is not None else found

    @property
    def emission_input(self) -> Float[Array, "..."] | None:
        """D, or None."""
        found = plain(self.parameters.emission_input)
        return found[..., 0, :] if self.scalar and found is not None else found

    @property
    def emission_noise(self) -> Float[Array, "..."]:
        """R, a covariance, or a variance where an observation is a single number."""
        found = outer(self.parameters.emission_noise.root)
        return found[..., 0, 0] if self.scalar else found

    @property
    def initial_mean(self) -> Float[Array, " state"]:
        """m."""
        return plain(self.parameters.initial_mean)

    @property
    def initial_covariance(self) -> Float[Array, "state state"]:
        """P, without what is diffuse."""
        return outer(self.parameters.initial_covariance.root)

    @property
    def state_size(self) -> int:
        """n, how many hidden numbers there are."""
        return plain(self.parameters.transition).shape[-1]

    @property
    def event_size(self) -> int:
        """m, how many numbers one observation has."""
        return plain(self.parameters.emission).shape[-2]

    @property
    def horizon(self) -> int | None:
        """How many steps the matrices are given for; None where they do not vary."""
        return horizon_of(self.parameters)

    # -- the contract ----------------------------------------------------------------------------------------------

    def initial(self) -> Belief:
        """The first mean and covariance."""
        mean = self.initial_mean
        spread = None
        if self.diffuse is not None:
            spread = jnp.diag(jnp.asarray(self.diffuse, mean.dtype))
        return Belief(mean, self.initial_covariance, spread, None if self.horizon is None else jnp.zeros((), jnp.int32))

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Observation:
        """The observation itself: the rest depends on the belief."""
        return Observation(self._event(x), u)

    def prepare_partial(
        self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None, observed: Shaped[Array, "..."]
    ) -> Observation:
        """The same, with only the entries known where `observed` is True."""
        return Observation(self._event(x), u, jnp.reshape(observed, (self.event_size,)))

    def step(self, state: Belief, element: Observation | Conditional) -> Belief:
        """The belief over the next z: conditioned on the observation, then moved."""
        if isinstance(element, Conditional):
            return Belief(*gaussian.apply_conditional(state.mean, state.covariance, element))
        system = system_at(self.parameters, state.time, element.u)
        known = conditioned(system, state, element.x, element.observed, diagonal=self.diagonal)
        return propagated(system, known, state.time)

    def evidence(self, state: Belief, element: Observation) -> Float[Array, ""]:
        """The log-probability of the observation (of the entries that are known)."""
        system = system_at(self.parameters, state.time, element.u)
        return conditioned(system, state, element.x, element.observed, diagonal=self.diagonal).log_prob

    def readout(self, state: Belief, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The Gaussian of the next observation; a diffuse direction gives it an infinite variance."""
        return predicted(system_at(self.parameters, state.time, u), state, scalar=self.scalar)

    @property
    def combine(self) -> Callable[[Any, Any], Conditional]:
        """Two steps as one; only where nothing is diffuse, nothing varies and the emission noise has an inverse."""
        return self._only_if_associative(lambda a, b: gaussian.join(self._widened(a), self._widened(b)))

    @property
    def widen(self) -> Callable[[Any], Conditional]:
        """An observation as the element that `combine` keeps."""
        return self._only_if_associative(self._widened)

    def _only_if_associative(self, function: Callable) -> Callable:
        singular = self.parameters.emission_noise.rank < self.event_size
        if self.diffuse is not None or self.horizon is not None or singular:
            raise AttributeError("a model with diffuse, varying or noiselessly observed parts has no combine.")
        return function

    def _widened(self, element: Observation | Conditional) -> Conditional:
        if isinstance(element, Conditional):
            return element
        system = system_at(self.parameters, None, element.u)
        return gaussian.conditional(
            system.transition,
            system.shift,
            outer(system.noise),
            system.emission,
            outer(system.emission_noise),
            element.x - system.offset,
            element.observed,
        )

    def score_sequence(self, state: Belief, steps: Steps, strategy: Strategy) -> tuple[Float[Array, " time"], Belief]:
        """Every step's log-probability and the last belief: in square-root form, or by the parallel scan."""
        if isinstance(strategy, Associative):
            return over_time(self, strategy, state, steps, lambda state, element, *_: self.evidence(state, element))
        sequence = self.sequence(steps, state.time)
        if isinstance(strategy, Native):
            return score_natively(sequence, state)
        log_probs, last = log_probs_of(sequence, state._replace(time=None), diagonal=self.diagonal)
        if state.time is not None:
            count = steps.length if steps.valid is None else steps.valid.sum()
            last = last._replace(time=(state.time + count).astype(state.time.dtype))
        return log_probs, last

    @property
    def run_natively(self) -> Callable[..., tuple[Belief, Belief]]:
        """All beliefs of one sequence by a compiled kernel; only where nothing is diffuse, varies or is large."""
        if self.diffuse is not None or self.horizon is not None or max(self.state_size, self.event_size) > LARGEST:
            raise AttributeError("a model with diffuse, varying or large parts has no kernel.")

        def beliefs(run):
            def found(sequence, state):
                _, each, last = run(sequence, rooted(state))
                return Belief(each.mean, outer(each.root)), Belief(last.mean, outer(last.root))

            return found

        plain, native = partial(forward, diagonal=self.diagonal), partial(forward_natively, keep=True)
        run = differentiated_as(beliefs(plain), beliefs(native))
        return lambda state, elements, valid: run(
            self.sequence(Steps(elements.x, elements.u, elements.observed, valid)), state
        )

    @property
    def streamer(self) -> streaming.Streamer:
        """Compiled streams; only where nothing is diffuse, varies or is large."""
        if self.diffuse is not None or self.horizon is not None:
            raise AttributeError("a model with diffuse or varying parts has no compiled streams.")
        parts, zeros = self.parameters, jnp.zeros(self.inputs, dtype_of(self))
        driven = plain(parts.transition_input), plain(parts.emission_input)
        system = streaming.StreamedSystem(*system_at(parts, u=zeros), *driven)
        return streaming.kalman(system, inputs=self.inputs, is_vector=not self.scalar, dtype=dtype_of(self))

    def sequence(self, steps: Steps, start: Any = None) -> Sequence:
        """All steps of one sequence as arrays."""
        fixed, varying = systems_of(self.parameters, steps, start)
        xs = jnp.reshape(jnp.asarray(steps.values, dtype_of(self)), (steps.length, self.event_size))
        observed = None if steps.observed is None else jnp.reshape(steps.observed, xs.shape)
        return Sequence(fixed, varying, xs, observed, steps.valid)

    # -- what observations say of the states -----------------------------------------------------------------------

    def filter(self, steps: Steps, strategy: Strategy) -> Filtered:
        """p(z_t | x_1 .. x_t); the variance of what is still diffuse is infinite."""
        return self.filter_with_evidence(steps, strategy)[0]

    def filter_with_evidence(self, steps: Steps, strategy: Strategy) -> tuple[Filtered, Float[Array, " time"]]:
        """The same, and the log-probability of every step."""

        def plain(sequence, first):
            known, log_probs = self._known(sequence, first, steps, strategy)
            return Filtered(known.mean, covariances(known)), log_probs

        run = differentiated_as(plain, filter_natively) if isinstance(strategy, Native) else plain
        return run(self.sequence(steps), self._first())

    def smooth(self, steps: Steps, strategy: Strategy) -> Smoothed:
        """p(z_t | x_1 .. x_T)."""
        return self.smooth_with_evidence(steps, strategy)[0]

    def smooth_with_evidence(self, steps: Steps, strategy: Strategy) -> tuple[Smoothed, Float[Array, " time"]]:
        """The same, and the log-probability of every step."""
        return self._smoothed(steps, strategy, copied=True)

    def _smoothed(self, steps: Steps, strategy: Strategy, *, copied: bool) -> tuple[Smoothed, Float[Array, " time"]]:
        def plain(sequence, first):
            functions, log_probs = self._backward(sequence, first, steps, strategy)
            parallel = isinstance(strategy, Associative)
            return smoothed_in_parallel(functions) if parallel else smoothed(functions), log_probs

        native = isinstance(strategy, Native) and self._invertible
        run = differentiated_as(plain, partial(smooth_natively, copied=copied)) if native else plain
        return run(self.sequence(steps), self._first())

    def fixed_lag(self, steps: Steps, strategy: Strategy, lag: int) -> Filtered:
        """p(z_t | x_1 .. x_{t+lag})."""
        return lagged(self._backward(self.sequence(steps), self._first(), steps, strategy)[0], lag)

    def sample_states(self, steps: Steps, strategy: Strategy, key: PRNGKeyArray) -> Float[Array, "time state"]:
        """One draw of all states from p(z | x): forward filtering, backward sampling."""
        functions, _ = self._backward(self.sequence(steps), self._first(), steps, strategy)
        return drawn(functions, key, parallel=isinstance(strategy, Associative))

    def most_likely_states(self, steps: Steps, strategy: Strategy) -> Decoded:
        """The smoothed means, which are jointly most probable, and the log-density of them and the observations.

        Directions without noise, and diffuse ones, count nothing in it.
        """
        means = self._smoothed(steps, strategy, copied=False)[0].mean
        return Decoded(means, joint_log_prob(self.parameters, means, self.sequence(steps)))

    def _first(self) -> Belief:
        return self.initial()._replace(time=None)

    def _known(self, sequence: Sequence, first: Belief, steps: Steps, strategy: Strategy) -> tuple[RootBelief, Array]:
        """The filter's beliefs, and the log-probability of every step."""
        if isinstance(strategy, Associative):
            elements = prepared(self, steps)
            states = strategy.run(self, first, elements, steps.valid).states
            beliefs, log_probs = jax.vmap(rooted)(states), jax.vmap(self.evidence)(states, elements)
            log_probs = log_probs if steps.valid is None else jnp.where(steps.valid, log_probs, 0.0)
        else:
            log_probs, beliefs, _ = forward(sequence, rooted(first), diagonal=self.diagonal)
        return filtered(sequence, beliefs, diagonal=self.diagonal), log_probs

    @property
    def _invertible(self) -> bool:
        return self.parameters.transition_noise.rank == self.state_size

    def _backward(self, sequence: Sequence, first: Belief, steps: Steps, strategy: Strategy) -> tuple[Backward, Array]:
        known, log_probs = self._known(sequence, first, steps, strategy)
        return backward(sequence, known, invertible=self._invertible), log_probs

    # -- learning --------------------------------------------------------------------------------------------------

    def expected_statistics(self, steps: Steps, strategy: Strategy) -> tuple[Statistics, Float[Array, ""]]:
        """Sums of expected second moments, which is what `maximise` needs, and the log-probability."""
        found, log_probs = self._smoothed(steps, strategy, copied=False)
        inputs = steps.inputs if self.inputs else None
        start = plain(self.parameters.initial_mean)
        counted = statistics(self.sequence(steps), inputs, found, start, varies=self.horizon is not None)
        return counted, sum_over_time(log_probs)

    def maximise(
        self, statistics: Statistics, *, prior: Prior | None = None, only: tuple[str, ...] | None = None
    ) -> "LinearGaussian":
        """The model of greatest expected likelihood; parts that are fixed, or not among `only`, stay.

        Coefficients in directions without noise stay as well, and where matrices vary, all coefficients do.
        """
        if only is not None:
            check_names("only", only)
        parameters = maximised(self.parameters, statistics, Prior() if prior is None else prior, only)
        return eqx.tree_at(lambda model: model.parameters, self, parameters)

    def restart(self, data: Sequences, *, key: PRNGKeyArray, how: str = "random") -> "LinearGaussian":
        """Other starting parameters in the units of the data; what is fixed stays.

        With ``how="kmeans"`` the emission starts from the data's principal directions, otherwise anywhere.
        """
        return eqx.tree_at(lambda model: model.parameters, self, restarted(self.parameters, data, key=key, how=how))

    # -- the three conditionals, for particle filters ---------------------------------------------------------------

    def _only_if_proper(self, function: Callable) -> Callable:
        if self.diffuse is not None or self.horizon is not None:
            raise AttributeError("a model with diffuse or varying parts has no plain conditionals.")
        return function

    @property
    def latent_initial(self) -> Callable[[], Distribution]:
        """``latent_initial()``: the distribution of z_1."""
        return self._only_if_proper(
            lambda: normal_with_root(self.initial_mean, self.parameters.initial_covariance.root)
        )

    @property
    def latent_next(self) -> Callable[..., Distribution]:
        """``latent_next(z, u=None)``: the distribution of z_{t+1} given z_t."""

        def moved(z, u=None):
            system = system_at(self.parameters, None, u)
            return normal_with_root(system.transition @ z + system.shift, system.noise)

        return self._only_if_proper(moved)

    @property
    def latent_emission(self) -> Callable[..., Distribution]:
        """``latent_emission(z, u=None)``: the distribution of x_t given z_t."""

        def seen(z, u=None):
            system = system_at(self.parameters, None, u)
            mean, root = system.emission @ z + system.offset, system.emission_noise
            if self.scalar:
                return NormalDistribution(mean[0], jnp.sqrt(outer(root)[0, 0]), validate_args=False)
            return normal_with_root(mean, root)

        return self._only_if_proper(seen)

    @property
    def particle_moves(self) -> Callable[[Steps], Linear | None]:
        """What a kernel for particles needs of all steps; None where single entries of observations are missing."""
        if self.parameters.emission_noise.rank < self.event_size:
            raise AttributeError("emissions without noise in some direction have no kernel.")
        return self._only_if_proper(partial(linear_moves, self.parameters))

    # -- one step, or all ------------------------------------------------------------------------------------------

    @property
    def diagonal(self) -> bool:
        """Whether the entries of an observation have independent noise, whatever is learned."""
        return self.parameters.emission_noise.diagonal

    def _event(self, x: Any) -> Array:
        return jnp.reshape(jnp.asarray(x, dtype_of(self)), (self.event_size,))
