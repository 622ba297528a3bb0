"""The hidden Markov model: a belief over hidden states, updated by Bayes' rule."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Element, Float, Num, PRNGKeyArray, Shaped, State
from hiddenstate.core import (
    HiddenStateError,
    Prior,
    Schema,
    SequenceModel,
    Sequences,
    Steps,
    cast,
    dtype_of,
    has,
    own,
    register,
)
from hiddenstate.distributions import mixture
from hiddenstate.inference.posterior import Decoded
from hiddenstate.latent.emissions import Emission
from hiddenstate.latent.hmm import compiled, parallel, recursions
from hiddenstate.latent.hmm.initials import InitialProbs, Stationary, check_one_stationary, climbed
from hiddenstate.latent.hmm.operators import Dense
from hiddenstate.latent.hmm.parallel import Stretch
from hiddenstate.latent.hmm.recursions import Chain
from hiddenstate.latent.hmm.restart import moves_into, restarted_moves, restarted_start
from hiddenstate.latent.hmm.results import Lagged, Smoothed, Statistics, last_of, pairs_of, pasts_of
from hiddenstate.latent.hmm.transitions import InputDriven, TransitionMatrix
from hiddenstate.native import streaming
from hiddenstate.native.manual import carried
from hiddenstate.native.particle import Symbols
from hiddenstate.ops.derivatives import differentiated_as
from hiddenstate.ops.simplex import safe_log
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Associative, Native, Strategy

PARTS = ("initial", "transition", "emission")


@register("hmm")
class HMM(SequenceModel):
    r"""A hidden Markov model: a chain of hidden states, each of which emits observations in its own way.

    .. math::

        z_1 \sim \pi, \qquad z_{t+1} \sim P_{z_t, \cdot}, \qquad x_t \sim p(\,\cdot \mid z_t)

    Its state is the belief :math:`h_t = p(z_t \mid x_{<t})`, the normalised forward message of the lecture notes
    on HMMs as RNNs; the update is :math:`h_{t+1} = P^\top (h_t \odot \ell_t) / (h_t \cdot \ell_t)` with the likelihoods
    :math:`\ell_t`, the read-out the mixture of emissions that the belief weighs.

    `initial` are probabilities, ``"stationary"`` (the long-run shares of the transitions), or probabilities inside
    `Frozen`, which are not learned. `transition` is a matrix (state, next state) in which exact zeros stay zeros, the
    same inside `Frozen`, or an `InputDriven`. `emission` is one of `hs.emissions`.

    >>> hs.HMM(  # doctest: +SKIP
    ...     initial=[0.5, 0.5],
    ...     transition=[[0.7, 0.3], [0.3, 0.7]],
    ...     emission=hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]),
    ... )
    """

    start: InitialProbs | Stationary
    transition: TransitionMatrix | InputDriven
    emission: Emission

    def __init__(self, initial: Any, transition: Any, emission: Emission, *, schema: Schema | None = None):
        if not isinstance(emission, Emission):
            raise HiddenStateError(f"emission is {emission!r}; it must be one of hs.emissions.")
        if not isinstance(transition, TransitionMatrix | InputDriven):
            transition = TransitionMatrix(transition)
        if transition.states != emission.states:
            raise HiddenStateError(f"transition has {transition.states} states, but emission has {emission.states}.")
        if isinstance(initial, str) and initial != "stationary":
            raise HiddenStateError(f"initial is {initial!r}; it must be probabilities or 'stationary'.")
        if isinstance(initial, str) and isinstance(transition, InputDriven):
            raise HiddenStateError(
                "initial is 'stationary', but transitions that inputs drive have no stationary distribution."
            )
        if isinstance(initial, str):
            check_one_stationary(transition.rows.allowed)
        counts = {n for n in (transition.inputs, emission.inputs) if n}
        if len(counts) > 1:
            raise HiddenStateError(
                f"transition takes {transition.inputs} inputs and emission {emission.inputs}; both read the same ones."
            )
        self.start = Stationary() if isinstance(initial, str) else InitialProbs(initial, transition.states)
        self.transition = transition
        self.emission = emission
        self.inputs = max(counts, default=0)
        self.schema = schema

    # -- the contract --------------------------------------------------------------------------------------------

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return self.emission.states

    @property
    def initial_probs(self) -> Float[Array, " state"]:
        """The probability of each state at the first step."""
        return self.start.probs(self.transition.probs)

    def initial(self) -> State:
        """The belief before anything was seen."""
        belief = self._first_belief()
        return Lagged(belief, self.emission.start_values) if self.emission.history else belief  # pyright: ignore[reportAttributeAccessIssue]

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Element:
        """The log-likelihoods of the observation under each state; with emissions that look back, what they need."""
        if self.emission.history:
            return x, u, self._own_matrix(u)
        return Stretch(self.emission.log_likelihoods(x, u), self._own_matrix(u))

    @property
    def prepare_partial(self) -> Callable[..., Element]:
        """`prepare` with missing entries summed out, where the emissions can."""
        seen = self.emission.partial_log_likelihoods  # pyright: ignore[reportAttributeAccessIssue]
        return lambda x, u, observed: Stretch(seen(x, u, observed), self._own_matrix(u))

    def step(self, state: State, element: Element) -> State:
        """The belief given the observation, moved on."""
        belief, stretch, after = self._opened(state, element)
        operator = self._operator(stretch.matrix)
        moved = operator.move(recursions.condition(belief, operator.expand(stretch.log_likelihoods))[0])
        return moved if after is None else Lagged(moved, after)

    def evidence(self, state: State, element: Element) -> Float[Array, ""]:
        """The log-probability of the observation."""
        belief, stretch, _ = self._opened(state, element)
        return recursions.condition(belief, self._operator(None).expand(stretch.log_likelihoods))[1]

    @property
    def combine(self) -> Callable[[Element, Element], Element]:
        """Two stretches of steps as one. Emissions that look back need the state first, so they have none."""
        if self.emission.history:
            raise AttributeError("emissions that depend on past observations cannot be combined")
        return lambda earlier, later: parallel.join(self._widened(earlier), self._widened(later))

    @property
    def widen(self) -> Callable[[Element], Element]:
        """An element with its transition matrix."""
        if self.emission.history:
            raise AttributeError("emissions that depend on past observations cannot be combined")
        return self._widened

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """All states by a compiled kernel, which moves beliefs by one matrix for all steps and knows no other way."""
        if type(self)._operator is not HMM._operator or self.transition.inputs:
            raise AttributeError("only chains with one matrix for all steps have a kernel")
        return self._run_natively

    @property
    def streamer(self) -> streaming.Streamer:
        """Compiled streams, where transitions are one matrix and kernels have the emission."""
        if self.inputs or self.emission.history:
            raise AttributeError("emissions and transitions that inputs or the past drive have no compiled stream.")
        return streaming.chain(self.transition.probs, own(self.emission, "streamed"), dtype=dtype_of(self))

    def readout(self, state: State, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The emissions, mixed as the belief says."""
        belief, past = (state.belief, state.past) if self.emission.history else (state, None)
        return mixture(self._operator(None).collapse(belief), self.emission.distribution(u, past))

    def score_sequence(self, state: State, steps: Steps, strategy: Strategy) -> tuple[Float[Array, " time"], State]:
        """The log-probability of every step, with a derivative that costs one backward recursion."""
        belief, past = (state.belief, state.past) if self.emission.history else (state, None)
        seen, chain = self._log_likelihoods(steps, past, strategy), self._chain(steps)
        if isinstance(strategy, Associative):
            found = parallel.forward(chain, belief, seen, steps.valid)
            evidence, final = found.evidence, found.final
        elif isinstance(strategy, Native):
            evidence, final = compiled.score(chain, belief, seen, steps.valid)
        else:
            scored: Any = recursions.score(chain.varying, *carried((chain.operator, belief, seen)), steps.valid)
            evidence, final = scored
        return evidence, final if past is None else Lagged(final, last_of(steps, past))

    # -- what is hidden ------------------------------------------------------------------------------------------

    def filter(self, steps: Steps, strategy: Strategy) -> Float[Array, "time state"]:
        """p(z_t | x_1 .. x_t)."""
        return self.filter_with_evidence(steps, strategy)[0]

    def filter_with_evidence(self, steps: Steps, strategy: Strategy) -> tuple[Array, Float[Array, " time"]]:
        """The same, and the log-probability of every step."""
        chain, _, found = self._forward(steps, strategy)
        return recursions.hold(chain.mapped("collapse", found.filtered), steps.valid), found.evidence

    def smooth(self, steps: Steps, strategy: Strategy) -> Smoothed:
        """p(z_t | x_1 .. x_T) and the pairs of neighbours."""
        return self.smooth_with_evidence(steps, strategy)[0]

    def smooth_with_evidence(self, steps: Steps, strategy: Strategy) -> tuple[Smoothed, Float[Array, " time"]]:
        """The same, and the log-probability of every step."""
        chain, seen = self._chain(steps), self._log_likelihoods(steps, self._first_past(), strategy)

        def smoothed(way, backward):
            def run(operator, belief, seen, valid):
                moves = Chain(operator, chain.varying)
                found = way.forward(moves, belief, seen, valid)
                marginals = way.smooth(moves, found, valid)
                pairs = pairs_of(moves, found, backward.ratios(found, marginals, valid))
                held = recursions.hold(moves.mapped("collapse", marginals), valid)
                return Smoothed(held, pairs), found.evidence

            return run

        way = self._recursions(strategy)
        if way is compiled:
            run = differentiated_as(smoothed(recursions, recursions), smoothed(compiled, compiled))
        else:
            run = smoothed(way, recursions)
        return run(chain.operator, self._first_belief(), seen, steps.valid)

    def fixed_lag(self, steps: Steps, strategy: Strategy, lag: int) -> Float[Array, "time state"]:
        """p(z_t | x_1 .. x_{t+lag})."""
        return self.fixed_lag_with_evidence(steps, strategy, lag)[0]

    def fixed_lag_with_evidence(
        self, steps: Steps, strategy: Strategy, lag: int
    ) -> tuple[Array, Float[Array, " time"]]:
        """The same, and the log-probability of every step."""
        chain, seen, found = self._forward(steps, strategy)
        marginals = recursions.fixed_lag(chain, found, seen, lag, steps.valid)
        return recursions.hold(chain.mapped("collapse", marginals), steps.valid), found.evidence

    def most_likely_states(self, steps: Steps, strategy: Strategy) -> Decoded:
        """The path of Viterbi, and its log-probability with the observations."""
        chain, belief = self._chain(steps), self._first_belief()
        seen = self._log_likelihoods(steps, self._first_past(), strategy)
        way, kernel = self._recursions(strategy), isinstance(strategy, Native)

        def decoded(operator, belief, seen, valid):
            moves = Chain(operator, chain.varying)
            if kernel:  # which has no derivative; nor has the path
                path, _ = way.best_path(*jax.lax.stop_gradient((moves, belief, seen)), valid)
            else:
                path = way.best_path(moves, belief, seen, valid)
            return path, recursions.path_log_prob(moves, belief, seen, path, valid)

        def by_kernel(operator, belief, seen, valid):
            return way.best_path(Chain(operator, chain.varying), belief, seen, valid)

        run = differentiated_as(decoded, by_kernel) if kernel else decoded
        path, each = run(chain.operator, belief, seen, steps.valid)
        return Decoded(self._operator(None).hidden(path), sum_over_time(each))

    def sample_states(self, steps: Steps, strategy: Strategy, key: PRNGKeyArray) -> Shaped[Array, " time"]:
        """One path from the posterior."""
        chain, _, found = self._forward(steps, strategy)
        noise = recursions.gumbel(key, steps.length, found.final)
        path = self._recursions(strategy).sampled_path(chain, found, noise, steps.valid)
        return self._operator(None).hidden(path)

    # -- learning ------------------------------------------------------------------------------------------------

    def expected_statistics(
        self, steps: Steps, strategy: Strategy, how: str = "backward"
    ) -> tuple[Statistics, Float[Array, ""]]:
        """Expected counts and moments under the posterior, and the log-probability of the sequence.

        By the backward recursion, or with ``how="gradient"`` as derivatives of the log-probability with respect to
        the logarithms of initial, transition and emission probabilities: the two are the same numbers.
        """
        if how == "gradient":
            first, counts, marginals, total = self._by_gradient(steps)
        else:
            first, counts, marginals, total = self._by_recursion(steps, strategy)
        weights = marginals if steps.valid is None else jnp.where(steps.valid[:, None], marginals, 0.0)
        pasts = None
        if self.emission.history:
            pasts = pasts_of(steps, self._first_past())
        natively = self._by_kernel("statistics_natively", steps, strategy)
        emitted = natively(weights, steps) if natively else self.emission.statistics(weights, steps, pasts)
        # By kernels, sums of moves are there already: every step but the first is the end of one.
        summed = self._recursions(strategy) is compiled and how != "gradient"
        occupancy = first + counts.sum(0) if summed else weights.sum(0)
        return Statistics(first, counts, emitted, occupancy), total

    def maximise(
        self, statistics: Statistics, *, prior: Prior | None = None, only: tuple[str, ...] | None = None
    ) -> "HMM":
        """The model with the most probable parameters given expected statistics; only some parts, where named."""
        prior = Prior() if prior is None else prior
        chosen = self._parts if only is None else only
        for part in chosen:
            if part not in self._parts:
                raise HiddenStateError(f"only names {part!r}; the parts of the model are {', '.join(self._parts)}.")
        model = self
        if "transition" in chosen:
            model = model._with_transition(statistics, prior)
        if "initial" in chosen:
            start = self.start.maximise(statistics.initial, prior.pseudocount)
            model = eqx.tree_at(lambda m: m.start, model, start)
        if "emission" in chosen:
            emission = self.emission.maximise(statistics.emission, prior)
            model = eqx.tree_at(lambda m: m.emission, model, emission)
        return model

    def restart(self, data: Sequences, *, key: PRNGKeyArray, how: str) -> "HMM":
        """The model with new starting parameters, transitions and initial probabilities random but not extreme."""
        emission_key, transition_key, initial_key = jax.random.split(key, 3)
        emission = self.emission.restart(data, key=emission_key, how=how)
        moves = restarted_moves(self.transition.rows, transition_key)
        start = restarted_start(self.start, initial_key)
        return eqx.tree_at(lambda m: (m.emission, m.transition.rows, m.start), self, (emission, moves, start))

    def reseed(self, empty: np.ndarray, data: Sequences, *, key: PRNGKeyArray) -> "HMM":
        """The model with new emissions for the states that nothing is in, and a way into them."""
        emission = self.emission.reseed(empty, data, key=key)
        moves = moves_into(self.transition.rows, empty)
        return eqx.tree_at(lambda m: (m.emission, m.transition.rows), self, (emission, moves))

    def permuted(self, order: Any) -> "HMM":
        """The same model with its states numbered in another order: state i of the new is ``order[i]`` of the old."""
        order = np.asarray(order)
        if sorted(order.tolist()) != list(range(self.states)):
            raise HiddenStateError(f"order is {order.tolist()}; it must hold each of 0 to {self.states - 1} once.")
        parts = self.start.permuted(order), self.transition.permuted(order), self.emission.permuted(order)
        return eqx.tree_at(lambda m: (m.start, m.transition, m.emission), self, parts)

    def free_parameters(self) -> int:
        """How many numbers can be chosen: a row of K probabilities counts K - 1."""
        return self.start.free_parameters + self.transition.free_parameters + self.emission.free_parameters

    # -- as a state space model ----------------------------------------------------------------------------------

    def latent_initial(self) -> Distribution:
        """The distribution of the first hidden state."""
        return dist.CategoricalLogits(safe_log(self.initial_probs), validate_args=False)

    def latent_next(self, z: Any, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of the next hidden state."""
        return dist.CategoricalLogits(safe_log(self.transition.matrix(u)[z]), validate_args=False)

    def latent_emission(self, z: Any, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of the observation given the hidden state."""
        if self.emission.history:
            raise HiddenStateError(
                "emissions that depend on past observations are no distribution given the state alone."
            )
        return jax.tree.map(lambda a: a[z], self.emission.distribution(u))

    @property
    def particle_moves(self) -> Callable[[Steps], Symbols | None]:
        """What a kernel for particles needs of all steps; None where entries are missing that emissions cannot miss."""
        if self.transition.inputs or self.emission.history:
            raise AttributeError("only chains with one matrix for all steps have a kernel for particles.")
        return self._particle_moves

    def _particle_moves(self, steps: Steps) -> Symbols | None:
        if steps.observed is not None and not has(self.emission, "partial_log_likelihoods"):
            return None
        drawn: Any = cast(self.latent_next(jnp.arange(self.states)), jnp.result_type(float))
        return Symbols(drawn.probs, self._log_likelihoods(steps, None))

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[str, ...]:
        return PARTS

    def _operator(self, matrix: Float[Array, "state state"] | None) -> Any:
        """How beliefs move; by the given matrix, or by the model's own."""
        return Dense(self.transition.probs if matrix is None else matrix)

    def _first_belief(self) -> Float[Array, " state"]:
        return self.initial_probs

    def _first_past(self) -> Any:
        return self.emission.start_values if self.emission.history else None  # pyright: ignore[reportAttributeAccessIssue]

    def _own_matrix(self, u: Any) -> Float[Array, "state state"] | None:
        """The matrix of one step, where it is not the same at all."""
        return self.transition.matrix(u) if self.transition.inputs else None

    def _opened(self, state: State, element: Element) -> tuple[Array, Stretch, Any]:
        """The belief, the element with its likelihoods, and the past after it where emissions look back."""
        if not self.emission.history:
            return state, element, None
        x, u, matrix = element
        seen = Stretch(self.emission.log_likelihoods(x, u, state.past), matrix)
        return state.belief, seen, jnp.concatenate([state.past[1:], jnp.asarray(x, state.past.dtype)[None]])

    def _widened(self, element: Stretch) -> Stretch:
        if element.matrix is not None:
            return element
        return element._replace(matrix=self.transition.probs)

    def _chain(self, steps: Steps) -> Chain:
        if self.transition.inputs:
            return Chain(self._operator(jax.vmap(self.transition.matrix)(steps.inputs)), True)
        return Chain(self._operator(None))

    def _recursions(self, strategy: Strategy) -> Any:
        if isinstance(strategy, Native):
            return compiled
        return parallel if isinstance(strategy, Associative) else recursions

    def _run_natively(self, state: State, elements: Element, valid: Any) -> tuple[State, State]:
        chain = Chain(self._operator(None))
        if not self.emission.history:
            return compiled.predicted(chain, state, elements.log_likelihoods, valid)
        steps = Steps(elements[0], elements[1], None, valid)
        seen = self._log_likelihoods(steps, state.past)
        beliefs, final = compiled.predicted(chain, state.belief, seen, valid)
        last = last_of(steps, state.past)
        inside = jnp.ones(len(beliefs), bool) if valid is None else valid
        shape = (-1, *(1 for _ in last.shape))
        pasts = jnp.where(inside.reshape(shape), pasts_of(steps, state.past), last)
        return Lagged(beliefs, pasts), Lagged(final, last)

    def _forward(self, steps: Steps, strategy: Strategy) -> tuple[Chain, Float[Array, "time state"], Any]:
        chain, seen = self._chain(steps), self._log_likelihoods(steps, self._first_past(), strategy)
        return chain, seen, self._recursions(strategy).forward(chain, self._first_belief(), seen, steps.valid)

    def _by_kernel(self, capability: str, steps: Steps, strategy: Strategy | None) -> Callable[..., Any] | None:
        """What a kernel computes of the emissions of all steps, where there is one and nothing is missing."""
        if not isinstance(strategy, Native) or steps.observed is not None:
            return None
        try:
            return own(self.emission, capability)
        except AttributeError:
            return None

    def _log_likelihoods(self, steps: Steps, past: Any, strategy: Strategy | None = None) -> Float[Array, "time state"]:
        """log p(x_t | z_t) of all steps at once."""
        natively = self._by_kernel("log_likelihoods_natively", steps, strategy)
        if natively:
            return natively(steps)
        if past is not None:
            return jax.vmap(self.emission.log_likelihoods)(steps.values, steps.inputs, pasts_of(steps, past))
        if steps.observed is None:
            return jax.vmap(self.emission.log_likelihoods)(steps.values, steps.inputs)
        partial = self.emission.partial_log_likelihoods  # pyright: ignore[reportAttributeAccessIssue]
        return jax.vmap(partial)(steps.values, steps.inputs, steps.observed)

    def _by_recursion(self, steps: Steps, strategy: Strategy) -> tuple[Array, Any, Array, Array]:
        chain, _, found = self._forward(steps, strategy)
        if self._recursions(strategy) is compiled:
            marginals, counts = compiled.moments(chain, found, steps.valid)
            return self._initial_statistics(marginals, steps), counts, marginals, sum_over_time(found.evidence)
        marginals = self._recursions(strategy).smooth(chain, found, steps.valid)
        ratios = recursions.ratios(found, marginals, steps.valid)
        if chain.varying:
            pairs = pairs_of(chain, found, ratios)
            moves: Any = self._driven_statistics(pairs, steps)
        else:
            moves = self._move_statistics(chain.operator.counts(found.filtered[:-1], ratios))
        hidden = chain.mapped("collapse", marginals)
        return self._initial_statistics(marginals, steps), moves, hidden, sum_over_time(found.evidence)

    def _by_gradient(self, steps: Steps) -> tuple[Array, Any, Array, Array]:
        """Derivatives of the log-probability with respect to the logarithms of all that it is made of."""
        chain, belief = self._chain(steps), self._first_belief()
        seen = self._log_likelihoods(steps, self._first_past())

        def log_prob(log_belief, log_operator, seen):
            powers = jax.tree.map(jnp.exp, log_operator)
            plain = recursions.forward(Chain(powers, chain.varying), jnp.exp(log_belief), seen, steps.valid)
            return sum_over_time(plain.evidence)

        # Exact zeros: their logarithms are put out of the way, and their probabilities are multiplied by zero.
        logs = safe_log(belief), jax.tree.map(safe_log, chain.operator), seen
        total, (first, moves, marginals) = jax.value_and_grad(log_prob, argnums=(0, 1, 2))(*logs)
        moves = self._driven_statistics(moves.matrix[:-1], steps) if chain.varying else self._move_statistics(moves)
        return first, moves, marginals, total

    def _initial_statistics(self, marginals: Array, steps: Steps) -> Array:
        return marginals[0] if steps.valid is None else jnp.where(steps.valid[0], marginals[0], 0.0)

    def _move_statistics(self, counts: Any) -> Any:
        return counts.matrix

    def _driven_statistics(self, pairs: Float[Array, "move state state"], steps: Steps) -> Any:
        assert isinstance(self.transition, InputDriven)
        return self.transition.statistics(pairs, steps.inputs[:-1])

    def _with_transition(self, statistics: Statistics, prior: Prior) -> "HMM":
        """New transitions. A stationary start depends on them too, and there is no closed form."""
        found = self.transition.maximise(statistics.transition, prior)
        if isinstance(self.start, Stationary) and not found.rows.fixed:
            best = climbed(
                self.transition.rows, found.rows, statistics.transition, statistics.initial, prior.pseudocount
            )
            found = eqx.tree_at(lambda t: t.rows, found, best)
        return eqx.tree_at(lambda m: m.transition, self, found)
