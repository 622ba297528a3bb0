"""The hidden semi-Markov model: hidden states that last for a time with a distribution of its own."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num
from hiddenstate.core import HiddenStateError, Prior, Schema, Steps, register
from hiddenstate.latent.emissions import Emission
from hiddenstate.latent.hmm.durations import CategoricalDurations, NegativeBinomialDurations
from hiddenstate.latent.hmm.model import HMM, PARTS
from hiddenstate.latent.hmm.operators import Renewal
from hiddenstate.latent.hmm.results import Statistics
from hiddenstate.latent.hmm.transitions import InputDriven
from hiddenstate.ops.simplex import safe_log
from hiddenstate.strategies import Strategy


class MoveStatistics(NamedTuple):
    """Expected numbers of moves between states, and of durations begun."""

    matrix: Float[Array, "state state"]
    durations: Float[Array, "state duration"]


@register("hsmm")
class HSMM(HMM):
    r"""A hidden semi-Markov model: each time a state is entered, how long it lasts is drawn from its own distribution.

    `durations` is an array of probabilities (state, duration), entry d - 1 for d steps, or one of
    `hs.CategoricalDurations` and `hs.NegativeBinomialDurations`. `transition` says where a state goes when it ends: its
    diagonal is zero, since staying is what the duration says. The first state begins at the first step; the last may
    be cut off by the end. The belief has the axes (state, steps that remain): a step costs K² + K D.
    """

    durations: CategoricalDurations | NegativeBinomialDurations

    def __init__(
        self, initial: Any, transition: Any, durations: Any, emission: Emission, *, schema: Schema | None = None
    ):
        super().__init__(initial, transition, emission, schema=schema)
        if isinstance(initial, str):
            raise HiddenStateError("initial is 'stationary'; a hidden semi-Markov model takes probabilities.")
        if isinstance(self.transition, InputDriven):
            raise HiddenStateError("a hidden semi-Markov model takes a matrix of transitions, not ones inputs drive.")
        if not isinstance(durations, CategoricalDurations | NegativeBinomialDurations):
            durations = CategoricalDurations(durations)
        if durations.states != self.states:
            raise HiddenStateError(f"durations has {durations.states} states, but emission has {self.states}.")
        if self.states > 1 and bool(jnp.diagonal(self.transition.rows.allowed).any()):
            raise HiddenStateError(
                "transition has a diagonal that is not zero; how long a state lasts is what durations say."
            )
        if emission.history:
            raise HiddenStateError("a hidden semi-Markov model takes emissions that do not depend on the past.")
        self.durations = durations

    @property
    def combine(self) -> Any:
        """None: a stretch of steps would need a matrix over states and what remains of them."""
        raise AttributeError("a hidden semi-Markov model runs step by step")

    @property
    def widen(self) -> Any:
        """None, as there is no `combine`."""
        raise AttributeError("a hidden semi-Markov model runs step by step")

    def permuted(self, order: Any) -> "HSMM":
        """The same model with its states numbered in another order."""
        model = super().permuted(order)
        return eqx.tree_at(lambda m: m.durations, model, self.durations.permuted(order))  # pyright: ignore[reportReturnType]

    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        return super().free_parameters() + self.durations.free_parameters

    def latent_initial(self) -> Distribution:
        """The distribution of the first state and what remains of it, as one index."""
        return dist.CategoricalLogits(safe_log(self._first_belief().ravel()), validate_args=False)

    def latent_next(self, z: Any, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of the next index."""
        del u
        longest = self.durations.longest
        at = jnp.zeros((self.states, longest), self.transition.probs.dtype).at[z // longest, z % longest].set(1.0)
        return dist.CategoricalLogits(safe_log(self._operator(None).move(at).ravel()), validate_args=False)

    def latent_emission(self, z: Any, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of the observation given the index of a state and what remains of it."""
        return super().latent_emission(z // self.durations.longest, u)

    @property
    def _parts(self) -> tuple[str, ...]:
        return (*PARTS, "durations")

    def _operator(self, matrix: Float[Array, "state state"] | None) -> Renewal:
        del matrix
        return Renewal(self.transition.probs, self.durations.probs)

    def _first_belief(self) -> Float[Array, "state duration"]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.initial_probs[:, None] * self.durations.probs

    def _move_statistics(self, counts: Any) -> Any:
        return MoveStatistics(counts.matrix, counts.durations)

    def expected_statistics(
        self, steps: Steps, strategy: Strategy, how: str = "backward"
    ) -> tuple[Statistics, Float[Array, ""]]:
        """As for an HMM; what is begun at the first step counts among the durations."""
        found, total = super().expected_statistics(steps, strategy, how)
        first, moves = found.initial, found.transition
        moves = moves._replace(durations=moves.durations + first)
        return found._replace(initial=first.sum(1), transition=moves), total

    def maximise(
        self, statistics: Statistics, *, prior: Prior | None = None, only: tuple[str, ...] | None = None
    ) -> "HSMM":
        """The model with the most probable parameters given expected statistics."""
        chosen = self._parts if only is None else only
        moves = statistics.transition
        model = super().maximise(statistics._replace(transition=moves.matrix), prior=prior, only=only)
        if "durations" not in chosen:
            return model  # pyright: ignore[reportReturnType]
        pseudocount = 0.0 if prior is None else prior.pseudocount
        durations = self.durations.maximise(moves.durations, pseudocount)
        return eqx.tree_at(lambda m: m.durations, model, durations)  # pyright: ignore[reportReturnType]
