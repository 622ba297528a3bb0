"""A hidden state that is kept or drawn afresh, as a switch decides: inference at a cost linear in the states."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Element, Float, Num, PRNGKeyArray, Shaped, State
from hiddenstate.core import Frozen, HiddenStateError, Prior, Schema, Sequences, Steps, dtype_of, own, register
from hiddenstate.core.padding import generator
from hiddenstate.inference.batches import steps_of
from hiddenstate.inference.observations import arrays_for, sequences_for
from hiddenstate.inference.posterior import Decoded, refuse_impossible
from hiddenstate.latent import checks
from hiddenstate.latent.emissions import Emission
from hiddenstate.latent.hmm import copied, recursions
from hiddenstate.latent.hmm.initials import InitialProbs
from hiddenstate.latent.hmm.model import HMM
from hiddenstate.latent.hmm.operators import Copy, SeenCopy
from hiddenstate.latent.hmm.recursions import Chain
from hiddenstate.latent.hmm.results import Lagged, Statistics, last_of
from hiddenstate.latent.hmm.rows import Rows
from hiddenstate.latent.hmm.transitions import TransitionMatrix
from hiddenstate.native import streaming
from hiddenstate.ops.simplex import safe_log
from hiddenstate.strategies import Auto, Native, Strategy, in_chunks, resolved
from hiddenstate.strategies.auto import CACHED, CHUNK

_FEW = 10
"""Fewer moves than this are too few to say that a switch is stuck which could have fired."""

_RARE = 0.5
"""Where fewer resets (or fewer copies) than this are expected in all data, the switch is said to be stuck."""


@register("reset-switch")
class Switch(eqx.Module):
    """How often the state is reset, and how it moves in between: `rows` are the probabilities of keeping and resetting.

    `between` is None where a state that is not reset is kept.
    """

    rows: Rows
    between: TransitionMatrix | None

    @property
    def inputs(self) -> int:
        """It takes no inputs."""
        return 0

    @property
    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        return self.rows.free_parameters + (0 if self.between is None else self.between.free_parameters)

    def permuted(self, order: Any) -> "Switch":
        """The same with states numbered in another order."""
        return Switch(self.rows, None if self.between is None else self.between.permuted(order))


class SwitchSmoothed(NamedTuple):
    """What all observations say: p(s_t | x_1 .. x_T), and `resets`, p(z_t = 1 | x_1 .. x_T), 1 at the first step."""

    marginals: Float[Array, "time state"]
    resets: Float[Array, " time"]


class SwitchStatistics(NamedTuple):
    """Expected numbers of steps that kept the state, of resets into each state, and of moves between resets."""

    kept: Float[Array, ""]
    resets: Float[Array, " state"]
    between: Float[Array, "state state"] | None


@register("switch-copy")
class SwitchCopy(HMM):
    r"""A hidden state that is copied from step to step until a switch draws it afresh.

    .. math::

        z_t \sim \mathrm{Bernoulli}(p), \qquad
        s_t = s_{t-1} \text{ if } z_t = 0, \quad s_t \sim \pi \text{ if } z_t = 1, \qquad x_t \sim p(\,\cdot \mid s_t)

    the generative model of the note that reads minGRU as a switching state space model (of Feng et al. 2024). The
    note leaves the first step open; here it is fresh, :math:`z_1 = 1`, since there is nothing to copy.

    `reset` is the probability p, `prior` the distribution :math:`\pi` of fresh states, and `emission` one of
    `hs.emissions` with as many states K. An emission with 2 K states depends on the switch too,
    :math:`p(x_t \mid s_t, z_t)`: the first K are for states that were kept, the others for fresh ones. `between`, a
    matrix (state, next state), lets the state move where it is not reset: :math:`p(s_t \mid s_{t-1}, z_t = 0)`.
    `reset`, `prior` and `between` inside `Frozen` are not learned, and exact zeros stay zeros.

    It is the hidden Markov model with the transitions :math:`(1 - p) I + p\,1 \pi^\top`, a scaled identity plus rank
    one, and all that an `HMM` can do is done here without ever building that matrix: a step costs K, not K² (with
    `between` it costs K²). Viterbi's path is that of the hidden Markov model it stands for: of the states alone, and
    with emissions that depend on the switch, of states and switches together. There is no `combine`: a product of n
    such transitions with observations in between has rank n beside its diagonal, so that stretches of steps have no
    small form, and steps run one after the other.

    >>> hs.SwitchCopy(  # doctest: +SKIP
    ...     reset=0.1,
    ...     prior=[0.5, 0.5],
    ...     emission=hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]),
    ... )
    """

    start: InitialProbs
    transition: Switch

    def __init__(
        self, reset: Any, prior: Any, emission: Emission, *, between: Any = None, schema: Schema | None = None
    ):
        if not isinstance(emission, Emission):
            raise HiddenStateError(f"emission is {emission!r}; it must be one of hs.emissions.")
        dtype = dtype_of(emission)
        states = Rows.of("prior", _typed("prior", prior, dtype, 1), 1)
        count = states.allowed.shape[0]
        if emission.states not in (count, 2 * count):
            raise HiddenStateError(
                f"emission has {emission.states} states, but prior has {count}; it must have as many, or {2 * count} "
                "where observations depend on the switch (first those of states that were kept)."
            )
        if between is not None:
            between = _typed("between", between, dtype, 2)
            found = Rows.of("between", between, 2).allowed
            checks.shaped("between", np.asarray(found), (count, count), "from each state to each")
            between = TransitionMatrix(between)
        start = InitialProbs(_typed("prior", prior, dtype, 1), count)
        self.start = start  # pyright: ignore[reportIncompatibleVariableOverride]
        switch = Switch(_switch_rows(reset, dtype), between)
        self.transition = switch  # pyright: ignore[reportIncompatibleVariableOverride]
        self.emission = emission
        self.inputs = emission.inputs
        self.schema = schema

    # -- what it is made of --------------------------------------------------------------------------------------

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return self.start.rows.allowed.shape[-1]

    @property
    def reset(self) -> Float[Array, ""]:
        """The probability that a state is drawn afresh."""
        return self.transition.rows.probs[..., 1]

    @property
    def prior(self) -> Float[Array, " state"]:
        """The distribution of fresh states."""
        return self.start.rows.probs

    @property
    def between(self) -> Float[Array, "state state"] | None:
        """The transitions between resets; None where states are kept."""
        return None if self.transition.between is None else self.transition.between.probs

    @property
    def sees_resets(self) -> bool:
        """Whether observations depend on the switch."""
        return self.emission.states != self.states

    @property
    def initial_probs(self) -> Float[Array, " state"]:
        """The probability of each state at the first step, which is fresh."""
        return self.prior

    def free_parameters(self) -> int:
        """How many numbers can be chosen; of a single state it makes no difference whether it is kept."""
        switch = self.transition.rows.free_parameters if self.states == 1 else 0
        return super().free_parameters() - switch

    @property
    def combine(self) -> Any:
        """None: products of such transitions grow in rank."""
        raise AttributeError("a switch-copy model runs step by step")

    @property
    def widen(self) -> Any:
        """None, as there is no `combine`."""
        raise AttributeError("a switch-copy model runs step by step")

    def score_sequence(self, state: State, steps: Steps, strategy: Strategy) -> tuple[Float[Array, " time"], State]:
        """The log-probability of every step; where the strategy has chunks, in memory for one chunk of steps."""
        operator = self._operator(None)

        def run(state, steps):
            belief, past = (state.belief, state.past) if self.emission.history else (state, None)
            seen = self._log_likelihoods(steps, past)
            if isinstance(strategy, Native):
                evidence, final = copied.score(Chain(operator), belief, seen, steps.valid)
            else:
                scored: Any = recursions.score(False, operator, belief, seen, steps.valid)
                evidence, final = scored
            return final if past is None else Lagged(final, last_of(steps, past)), evidence

        chunk = strategy.chunk_length(steps.length)
        if isinstance(strategy, Native) and chunk is None and steps.length >= CACHED:
            chunk = CHUNK  # a kernel, too, needs the likelihoods of all steps that it runs over
        return in_chunks(run, state, steps, chunk)

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """All states by a compiled kernel, where states are kept and observations do not see resets."""
        if self.between is not None or self.sees_resets or self.emission.history:
            raise AttributeError("only states that are kept, with emissions of their own, have a kernel.")
        return self._run_natively

    @property
    def streamer(self) -> streaming.Streamer:
        """Compiled streams, where kernels have the emission and it does not see resets; with `between` by a matrix."""
        if self.inputs or self.sees_resets or self.emission.history:
            raise AttributeError("emissions that inputs, resets or the past drive have no compiled stream.")
        operator = self._operator(None)
        moves: Any = streaming.Copied(operator.stay, operator.fresh)
        if operator.between is not None:
            moves = operator.stay * operator.between + operator.fresh
        return streaming.chain(moves, own(self.emission, "streamed"), dtype=dtype_of(self))

    # -- what is hidden ------------------------------------------------------------------------------------------

    def filter(self, steps: Steps, strategy: Strategy) -> Float[Array, "time state"]:
        """p(s_t | x_1 .. x_t)."""
        chain, _, found = self._forward(steps, strategy)
        return recursions.hold(chain.operator.marginal(found.filtered), steps.valid)

    def smooth(self, steps: Steps, strategy: Strategy) -> SwitchSmoothed:  # pyright: ignore[reportIncompatibleMethodOverride]
        """p(s_t | x_1 .. x_T) and p(z_t = 1 | x_1 .. x_T)."""
        chain, _, found = self._forward(steps, strategy)
        marginals = self._recursions(strategy).smooth(chain, found, steps.valid)
        ratios = recursions.ratios(found, marginals, steps.valid)
        resets = _from_the_first(chain.operator.resets(found.filtered[:-1], ratios))
        return recursions.hold(SwitchSmoothed(chain.operator.marginal(marginals), resets), steps.valid)

    def fixed_lag(self, steps: Steps, strategy: Strategy, lag: int) -> Float[Array, "time state"]:
        """p(s_t | x_1 .. x_{t+lag})."""
        chain, seen, found = self._forward(steps, strategy)
        marginals = recursions.fixed_lag(chain, found, seen, lag, steps.valid)
        return recursions.hold(chain.operator.marginal(marginals), steps.valid)

    def filtered_resets(self, data: Any, *, strategy: Strategy = Auto()) -> Float[Array, "sequence time"]:
        """p(z_t = 1 | x_1 .. x_t) for all sequences: how probable a reset is as soon as its step has been seen."""
        data = sequences_for(self, data)
        refuse_impossible(self, data, strategy)
        return _filtered_resets(self, arrays_for(self, data), strategy)

    def most_likely_states(self, steps: Steps, strategy: Strategy) -> Decoded:
        """The path of Viterbi, and its log-probability with the observations."""
        found = super().most_likely_states(steps, strategy)
        return found._replace(states=self._operator(None).state_of(found.states))

    def sample_states(self, steps: Steps, strategy: Strategy, key: PRNGKeyArray) -> Shaped[Array, " time"]:
        """One path of states from the posterior."""
        return self._operator(None).state_of(super().sample_states(steps, strategy, key))

    # -- learning ------------------------------------------------------------------------------------------------

    def expected_statistics(
        self, steps: Steps, strategy: Strategy, how: str = "backward"
    ) -> tuple[Statistics, Float[Array, ""]]:
        """As for an HMM; states that were kept and states that were reset add up to the steps in each state."""
        found, total = super().expected_statistics(steps, strategy, how)
        operator = self._operator(None)
        occupancy = operator.marginal(operator.expand(found.occupancy))
        return found._replace(initial=operator.marginal(found.initial), occupancy=occupancy), total

    def maximise(
        self, statistics: Statistics, *, prior: Prior | None = None, only: tuple[str, ...] | None = None
    ) -> "SwitchCopy":
        """The model with the most probable parameters given expected statistics; only some parts, where named.

        All of it in closed form: `reset` is the share of resets among all moves, `prior` that of each state among the
        resets and first steps.
        """
        prior = Prior() if prior is None else prior
        chosen = self._parts if only is None else only
        for part in chosen:
            if part not in self._parts:
                raise HiddenStateError(f"only names {part!r}; the parts of the model are {', '.join(self._parts)}.")
        moves: SwitchStatistics = statistics.transition
        rows, between, start, emission = self.transition.rows, self.transition.between, self.start, self.emission
        if "reset" in chosen:
            rows = rows.with_counts(jnp.stack([moves.kept, moves.resets.sum()]), prior.pseudocount)
        if "between" in chosen and between is not None:
            between = between.maximise(moves.between, prior)  # pyright: ignore[reportArgumentType]
        if "prior" in chosen:
            start = start.maximise(statistics.initial + moves.resets, prior.pseudocount)
        if "emission" in chosen:
            emission = emission.maximise(statistics.emission, prior)
        return self._with(start, Switch(rows, between), emission)

    def restart(self, data: Sequences, *, key: PRNGKeyArray, how: str) -> "SwitchCopy":
        """The model with new starting parameters, the switch and the distribution of states random but not extreme."""
        emission_key, switch_key, state_key = jax.random.split(key, 3)
        emission = self.emission.restart(data, key=emission_key, how=how)
        random, dtype = generator(switch_key), dtype_of(self.emission)
        chance = random.uniform(0.05, 0.5)
        rows = self.transition.rows.with_counts(jnp.asarray([1 - chance, chance], dtype))
        between = self.transition.between
        if between is not None:
            drawn = random.dirichlet(np.ones(self.states), self.states) + random.uniform(0, 3) * np.eye(self.states)
            counts = jnp.asarray(drawn + 0.05, dtype)
            between = eqx.tree_at(lambda matrix: matrix.rows, between, between.rows.with_counts(counts))
        shares = jnp.asarray(generator(state_key).dirichlet(np.full(self.states, 5.0)) + 0.05, dtype)
        return self._with(self.start.maximise(shares, 0.0), Switch(rows, between), emission)

    def reseed(self, empty: np.ndarray, data: Sequences, *, key: PRNGKeyArray) -> "SwitchCopy":
        """The model with new emissions for the states that nothing is in, and a way into them."""
        empty = np.asarray(empty)
        emission = self.emission.reseed(np.tile(empty, 2) if self.sees_resets else empty, data, key=key)
        share = self.prior + jnp.where(empty, 0.1, 0.0).astype(self.prior.dtype)
        return self._with(self.start.maximise(share, 0.0), self.transition, emission)

    def remarks(self, data: Sequences) -> list[str]:
        """What a person should know of the model as it is after learning: a switch that does nothing in these data."""
        moves = int((np.asarray(data.lengths) - 1).sum())
        chance = float(self.reset)
        said = f"(probability {chance:.3g}, {moves} moves)"
        rare = _RARE / max(moves, _FEW)
        if chance < rare:
            return [f"the switch never fires {said}: every sequence keeps its first state"]
        if 1 - chance < rare:
            return [f"the switch fires at every step {said}: the past is of no use, and steps are independent"]
        return []

    def permuted(self, order: Any) -> "SwitchCopy":
        """The same model with its states numbered in another order: state i of the new is ``order[i]`` of the old."""
        order = np.asarray(order)
        if sorted(order.tolist()) != list(range(self.states)):
            raise HiddenStateError(f"order is {order.tolist()}; it must hold each of 0 to {self.states - 1} once.")
        emitted = np.concatenate([order, order + self.states]) if self.sees_resets else order
        return self._with(self.start.permuted(order), self.transition.permuted(order), self.emission.permuted(emitted))

    # -- as a state space model ----------------------------------------------------------------------------------

    def latent_initial(self) -> Distribution:
        """The distribution of the first hidden state; where observations depend on the switch, of its emission."""
        return dist.CategoricalLogits(safe_log(self._first_belief().reshape(-1)), validate_args=False)

    def latent_next(self, z: Any, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of the next one."""
        del u
        first = self._first_belief()
        here = (jnp.arange(first.size) == z).astype(first.dtype).reshape(first.shape)
        return dist.CategoricalLogits(safe_log(self._operator(None).move(here).reshape(-1)), validate_args=False)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[str, ...]:
        moving = () if self.transition.between is None else ("between",)
        return ("reset", "prior", *moving, "emission")

    def _operator(self, matrix: Any) -> Copy:
        del matrix
        kept, reset = self.transition.rows.probs
        return (SeenCopy if self.sees_resets else Copy)(kept, reset * self.prior, self.between)

    def _recursions(self, strategy: Strategy) -> Any:
        return copied if isinstance(strategy, Native) else recursions

    def _run_natively(self, state: State, elements: Element, valid: Any) -> tuple[State, State]:
        found = copied.forward(Chain(self._operator(None)), state, elements.log_likelihoods, valid)
        return found.predicted, found.final

    def _first_belief(self) -> Float[Array, "..."]:
        return jnp.stack([jnp.zeros_like(self.prior), self.prior]) if self.sees_resets else self.prior

    def _move_statistics(self, counts: Any) -> SwitchStatistics:
        return SwitchStatistics(counts.stay, counts.fresh, counts.between)

    def _with(self, start: InitialProbs, transition: Switch, emission: Emission) -> "SwitchCopy":
        return eqx.tree_at(lambda m: (m.start, m.transition, m.emission), self, (start, transition, emission))


def _typed(argument: str, given: Any, dtype: np.dtype, rank: int) -> Any:
    """Checked numbers in the precision of the emissions, inside `Frozen` where they were."""
    value = given.value if isinstance(given, Frozen) else given
    array = checks.numbers(argument, value, rank).astype(dtype)
    return Frozen(jnp.asarray(array)) if isinstance(given, Frozen) else array


def _switch_rows(reset: Any, dtype: np.dtype) -> Rows:
    value = reset.value if isinstance(reset, Frozen) else reset
    chance = checks.numbers("reset", value)
    if chance.ndim:
        raise HiddenStateError(f"reset has shape {chance.shape}; it must be one probability.")
    if not 0 <= chance <= 1:
        raise HiddenStateError(f"reset is {chance:g}; a probability is from 0 to 1.")
    both = np.asarray([1 - chance, chance], dtype)
    return Rows.of("reset", Frozen(jnp.asarray(both)) if isinstance(reset, Frozen) else both, 1)


def _from_the_first(resets: Float[Array, " move"]) -> Float[Array, " time"]:
    """The first step is a reset; rounding makes no probability more than one."""
    return jnp.minimum(jnp.concatenate([jnp.ones_like(resets, shape=(1,)), resets]), 1.0)


@eqx.filter_jit
def _filtered_resets(model, arrays, strategy):
    def one(steps):
        chain, _, found = model._forward(steps, resolved(strategy, model, steps.length))
        ratios = recursions.ratio(found.filtered[1:], found.predicted[1:])
        return recursions.hold(_from_the_first(chain.operator.resets(found.filtered[:-1], ratios)), steps.valid)

    return jax.vmap(one)(steps_of(arrays))
