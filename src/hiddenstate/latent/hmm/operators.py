"""How beliefs move from one step to the next, as linear operators that know their structure.

Everything the recursions need of a chain is here: a belief moved forward, an expectation moved back, the best and the
sampled predecessor. A dense matrix costs K² a step; explicit durations D cost K² + K D, not (K D)²; a state that is
kept or drawn afresh costs K.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Num
from hiddenstate.ops.simplex import safe_log


class Dense(eqx.Module):
    """A matrix of transition probabilities: entry (i, j) is that of moving from i to j."""

    matrix: Float[Array, "state state"]

    def move(self, belief: Float[Array, " state"]) -> Float[Array, " state"]:
        """p(next state) from p(state)."""
        return belief @ self.matrix

    def back(self, values: Float[Array, " state"]) -> Float[Array, " state"]:
        """The expectation, given each state, of a value of the next."""
        return self.matrix @ values

    def expand(self, values: Float[Array, " state"]) -> Float[Array, " state"]:
        """A number for each hidden state, in the form that beliefs are multiplied by."""
        return values

    def collapse(self, belief: Float[Array, " state"]) -> Float[Array, " state"]:
        """The belief over hidden states alone."""
        return belief

    def best(self, scores: Float[Array, " state"]) -> Float[Array, " state"]:
        """The best score with which each next state is reached; of an operator of logarithms."""
        return (scores[:, None] + self.matrix).max(0)

    def previous(self, scores: Float[Array, " state"], following: Any) -> Any:
        """The state from which that score is reached; of an operator of logarithms."""
        return jnp.argmax(scores + self.matrix[:, following]).astype(jnp.int32)

    def draw(self, belief: Float[Array, " state"], following: Any, noise: Float[Array, " state"]) -> Any:
        """A state from p(state | next state): the best of the log-probabilities with Gumbel noise."""
        return jnp.argmax(safe_log(belief * self.matrix[:, following]) + noise).astype(jnp.int32)

    def log_move(self, state: Any, following: Any) -> Float[Array, ""]:
        """The log-probability of a move; of an operator of logarithms."""
        return self.matrix[state, following]

    def hidden(self, state: Any) -> Any:
        """The hidden state that an index of the chain stands for."""
        return state

    def pairs(
        self, belief: Float[Array, "time state"], ratio: Float[Array, "time state"]
    ) -> Float[Array, "time state state"]:
        """p(z_t, z_{t+1}) at every step, from beliefs at t and the ratio of what is known later to what was at t+1."""
        return belief[:, :, None] * self.matrix * ratio[:, None, :]

    def counts(self, belief: Float[Array, "time state"], ratio: Float[Array, "time state"]) -> "Dense":
        """The sum of `pairs` over time, without holding them all."""
        return Dense((belief.T @ ratio) * self.matrix)

    def gradient(self, belief: Float[Array, "time state"], adjoint: Float[Array, "time state"]) -> "Dense":
        """The gradient with respect to the matrix, given the adjoints of all moved beliefs."""
        return Dense(belief.T @ adjoint)


class Renewal(eqx.Module):
    """Explicit durations: the chain's state is a hidden state and how many steps it still lasts.

    While steps remain they are counted down; after the last one a next state is drawn from `matrix`, and from
    ``durations[state]`` how many steps it will last (entry d - 1 is the probability of d steps). Beliefs have the axes
    (state, steps that remain after this one).
    """

    matrix: Float[Array, "state state"]
    durations: Float[Array, "state duration"]

    def move(self, belief: Float[Array, "state duration"]) -> Float[Array, "state duration"]:
        """Count down, and begin anew where nothing remains."""
        entering = belief[:, 0] @ self.matrix
        return _counted_down(belief) + entering[:, None] * self.durations

    def back(self, values: Float[Array, "state duration"]) -> Float[Array, "state duration"]:
        """The expectation, given each state, of a value of the next."""
        anew = self.matrix @ (self.durations * values).sum(1)
        return jnp.concatenate([anew[:, None], values[:, :-1]], axis=1)

    def expand(self, values: Num[Array, " state"]) -> Num[Array, "state 1"]:
        """A number for each hidden state, whatever remains of it."""
        return values[:, None]

    def collapse(self, belief: Float[Array, "state duration"]) -> Float[Array, " state"]:
        """The belief over hidden states alone."""
        return belief.sum(-1)

    def best(self, scores: Float[Array, "state duration"]) -> Float[Array, "state duration"]:
        """The best score with which each next state is reached; of an operator of logarithms."""
        anew = (scores[:, :1] + self.matrix).max(0)[:, None] + self.durations
        on = jnp.concatenate([scores[:, 1:], jnp.full_like(scores[:, :1], -jnp.inf)], axis=1)
        return jnp.maximum(on, anew)

    def previous(self, scores: Float[Array, "state duration"], following: Any) -> Any:
        """The state from which that score is reached; of an operator of logarithms."""
        hidden, remaining = self._parts(following)
        longest = self.durations.shape[1] - 1
        on = jnp.where(remaining < longest, scores[hidden, jnp.minimum(remaining + 1, longest)], -jnp.inf)
        anew = scores[:, 0] + self.matrix[:, hidden] + self.durations[hidden, remaining]
        return jnp.where(anew.max() > on, self._index(anew.argmax().astype(jnp.int32), 0), following + 1)

    def draw(self, belief: Float[Array, "state duration"], following: Any, noise: Float[Array, " candidate"]) -> Any:
        """A state from p(state | next state): counted down, or any of the states that ended."""
        hidden, remaining = self._parts(following)
        longest = self.durations.shape[1] - 1
        on = jnp.where(remaining < longest, belief[hidden, jnp.minimum(remaining + 1, longest)], 0.0)
        anew = belief[:, 0] * self.matrix[:, hidden] * self.durations[hidden, remaining]
        chosen = jnp.argmax(safe_log(jnp.append(anew, on)) + noise[: len(anew) + 1]).astype(jnp.int32)
        return jnp.where(chosen < len(anew), self._index(chosen, 0), following + 1)

    def log_move(self, state: Any, following: Any) -> Float[Array, ""]:
        """The log-probability of a move; of an operator of logarithms."""
        hidden, remaining = self._parts(following)
        before, left = self._parts(state)
        anew = self.matrix[before, hidden] + self.durations[hidden, remaining]
        return jnp.where(left > 0, 0.0, anew)

    def hidden(self, state: Any) -> Any:
        """The hidden state that an index of the chain stands for."""
        return state // self.durations.shape[1]

    def pairs(
        self, belief: Float[Array, "time state duration"], ratio: Float[Array, "time state duration"]
    ) -> Float[Array, "time state state"]:
        """p(z_t, z_{t+1}) of the hidden states at every step: staying while steps remain, or moving after the last."""
        staying = (belief[:, :, 1:] * ratio[:, :, :-1]).sum(-1)
        moving = belief[:, :, 0, None] * self.matrix * (self.durations * ratio).sum(-1)[:, None, :]
        return moving + staying[:, :, None] * jnp.eye(len(self.matrix), dtype=belief.dtype)

    def counts(
        self, belief: Float[Array, "time state duration"], ratio: Float[Array, "time state duration"]
    ) -> "Renewal":
        """Expected numbers of moves between states, and of durations that were begun."""
        gradient = self.gradient(belief, ratio)
        return Renewal(gradient.matrix * self.matrix, gradient.durations * self.durations)

    def gradient(
        self, belief: Float[Array, "time state duration"], adjoint: Float[Array, "time state duration"]
    ) -> "Renewal":
        """The gradient with respect to both, given the adjoints of all moved beliefs."""
        ended = belief[:, :, 0]
        arriving = (self.durations * adjoint).sum(-1)
        entering = ended @ self.matrix
        return Renewal(ended.T @ arriving, jnp.einsum("tk,tkd->kd", entering, adjoint))

    def _parts(self, state: Any) -> tuple[Any, Any]:
        return state // self.durations.shape[1], state % self.durations.shape[1]

    def _index(self, hidden: Any, remaining: Any) -> Any:
        return hidden * self.durations.shape[1] + remaining


class Copy(eqx.Module):
    """A state that is kept or drawn afresh: a multiple of the identity plus a matrix of rank one, neither of them made.

    `stay` is the probability that the state is kept, ``fresh[state]`` that of a reset into each state; together they
    sum to one. With `between`, a state that is not reset moves by this matrix in place of being kept, which costs K².
    """

    stay: Float[Array, ""]
    fresh: Float[Array, " state"]
    between: Float[Array, "state state"] | None = None

    def move(self, belief: Float[Array, " state"]) -> Float[Array, " state"]:
        """p(next state) from p(state)."""
        return self.stay * self._onward(belief) + belief.sum() * self.fresh

    def back(self, values: Float[Array, " state"]) -> Float[Array, " state"]:
        """The expectation, given each state, of a value of the next."""
        return self.stay * self._expected(values) + (self.fresh * values).sum()

    def expand(self, values: Float[Array, " state"]) -> Float[Array, " state"]:
        """A number for each emission, in the form that beliefs are multiplied by."""
        return values

    def collapse(self, belief: Float[Array, " state"]) -> Float[Array, " state"]:
        """The belief over what emissions depend on."""
        return belief

    def marginal(self, belief: Float[Array, "*time state"]) -> Float[Array, "*time state"]:
        """The belief over states alone."""
        return belief

    def best(self, scores: Float[Array, " state"]) -> Float[Array, " state"]:
        """The best score with which each next state is reached; of an operator of logarithms."""
        if self.between is None:
            return jnp.maximum(scores + jnp.logaddexp(self.stay, self.fresh), scores.max() + self.fresh)
        return (scores[:, None] + jnp.logaddexp(self.stay + self.between, self.fresh)).max(0)

    def previous(self, scores: Float[Array, " state"], following: Any) -> Any:
        """The state from which that score is reached; of an operator of logarithms."""
        moves = jnp.logaddexp(self.stay + self._log_column(following), self.fresh[following])
        return jnp.argmax(scores + moves).astype(jnp.int32)

    def draw(self, belief: Float[Array, " state"], following: Any, noise: Float[Array, " state"]) -> Any:
        """A state from p(state | next state): the best of the log-probabilities with Gumbel noise."""
        moves = self.stay * self._column(following) + self.fresh[following]
        return jnp.argmax(safe_log(belief * moves) + noise).astype(jnp.int32)

    def log_move(self, state: Any, following: Any) -> Float[Array, ""]:
        """The log-probability of a move; of an operator of logarithms."""
        return jnp.logaddexp(self.stay + self._log_entry(state, following), self.fresh[following])

    def hidden(self, state: Any) -> Any:
        """The emission that belongs to an index of the chain."""
        return state

    def state_of(self, state: Any) -> Any:
        """The state that an index of the chain stands for."""
        return state

    def resets(self, belief: Float[Array, "time state"], ratio: Float[Array, "time state"]) -> Float[Array, " time"]:
        """The probability that each move was a reset, from what `counts` takes."""
        return belief.sum(1) * (ratio @ self.fresh)

    def counts(self, belief: Float[Array, "time ..."], ratio: Float[Array, "time ..."]) -> "Copy":
        """Expected numbers: of states kept, of resets into each state, and of moves between resets."""
        return jax.tree.map(jnp.multiply, self.gradient(belief, ratio), self)

    def gradient(self, belief: Float[Array, "time state"], adjoint: Float[Array, "time state"]) -> "Copy":
        """The gradient with respect to all fields, given the adjoints of all moved beliefs."""
        return self._slopes(belief, adjoint, adjoint)

    def _slopes(self, belief: Array, kept: Array, drawn: Array) -> "Copy":
        """The gradient from adjoints of states that were kept and of states that were drawn."""
        expected = kept if self.between is None else kept @ self.between.T
        between = None if self.between is None else self.stay * (belief.T @ kept)
        return type(self)((belief * expected).sum(), belief.sum(1) @ drawn, between)

    def _onward(self, belief: Float[Array, " state"]) -> Float[Array, " state"]:
        return belief if self.between is None else belief @ self.between

    def _expected(self, values: Float[Array, " state"]) -> Float[Array, " state"]:
        return values if self.between is None else self.between @ values

    def _column(self, following: Any) -> Float[Array, " state"]:
        """The probability of `following` from each state, without a reset."""
        if self.between is not None:
            return self.between[:, following]
        return (jnp.arange(len(self.fresh)) == following).astype(self.fresh.dtype)

    def _log_column(self, following: Any) -> Float[Array, " state"]:
        return safe_log(self._column(following)) if self.between is None else self.between[:, following]

    def _log_entry(self, state: Any, following: Any) -> Float[Array, ""]:
        if self.between is not None:
            return self.between[state, following]
        return jnp.where(state == following, 0.0, -jnp.inf).astype(self.fresh.dtype)


class SeenCopy(Copy):
    """The same where observations depend on whether the state was reset: beliefs have the axes (reset, state).

    Row 0 is for states that were kept, row 1 for those drawn afresh. Index i of the chain, and emission i, stand for
    the state i modulo K, kept for i < K.
    """

    def move(self, belief: Float[Array, "2 state"]) -> Float[Array, "2 state"]:
        """p(next reset, next state) from p(reset, state)."""
        states = belief.sum(0)
        return jnp.stack([self.stay * self._onward(states), states.sum() * self.fresh])

    def back(self, values: Float[Array, "2 state"]) -> Float[Array, "2 state"]:
        """The expectation, given each state, of a value of the next: the same whether the state was reset."""
        expected = self.stay * self._expected(values[0]) + (self.fresh * values[1]).sum()
        return jnp.broadcast_to(expected, values.shape)

    def expand(self, values: Float[Array, " emission"]) -> Float[Array, "2 state"]:
        """A number for each emission, in the form that beliefs are multiplied by."""
        return values.reshape(2, -1)

    def collapse(self, belief: Float[Array, "2 state"]) -> Float[Array, " emission"]:
        """The belief over what emissions depend on."""
        return belief.reshape(-1)

    def marginal(self, belief: Float[Array, "*time 2 state"]) -> Float[Array, "*time state"]:
        """The belief over states alone."""
        return belief.sum(-2)

    def best(self, scores: Float[Array, "2 state"]) -> Float[Array, "2 state"]:
        """The best score with which each next state is reached; of an operator of logarithms."""
        states = scores.max(0)
        onward = states if self.between is None else (states[:, None] + self.between).max(0)
        return jnp.stack([self.stay + onward, states.max() + self.fresh])

    def previous(self, scores: Float[Array, "2 state"], following: Any) -> Any:
        """The index from which that score is reached; of an operator of logarithms."""
        reset, state = self._parts(following)
        moves = jnp.where(reset == 1, 0.0, self._log_column(state))
        return jnp.argmax(scores + moves).astype(jnp.int32)

    def draw(self, belief: Float[Array, "2 state"], following: Any, noise: Float[Array, " index"]) -> Any:
        """An index from p(reset, state | next ones): the best of the log-probabilities with Gumbel noise."""
        reset, state = self._parts(following)
        moves = jnp.where(reset == 1, 1.0, self._column(state))
        return jnp.argmax(safe_log(belief * moves).reshape(-1) + noise).astype(jnp.int32)

    def log_move(self, state: Any, following: Any) -> Float[Array, ""]:
        """The log-probability of a move; of an operator of logarithms."""
        reset, arrived = self._parts(following)
        kept = self.stay + self._log_entry(self.state_of(state), arrived)
        return jnp.where(reset == 1, self.fresh[arrived], kept)

    def state_of(self, state: Any) -> Any:
        """The state that an index of the chain stands for."""
        return self._parts(state)[1]

    def resets(
        self, belief: Float[Array, "time 2 state"], ratio: Float[Array, "time 2 state"]
    ) -> Float[Array, " time"]:
        """The probability that each move was a reset, from what `counts` takes."""
        return belief.sum((1, 2)) * (ratio[:, 1] @ self.fresh)

    def gradient(self, belief: Float[Array, "time 2 state"], adjoint: Float[Array, "time 2 state"]) -> "Copy":
        """The gradient with respect to all fields, given the adjoints of all moved beliefs."""
        return self._slopes(belief.sum(1), adjoint[:, 0], adjoint[:, 1])

    def _parts(self, index: Any) -> tuple[Any, Any]:
        return index // len(self.fresh), index % len(self.fresh)


def _counted_down(belief: Float[Array, "state duration"]) -> Float[Array, "state duration"]:
    return jnp.concatenate([belief[:, 1:], jnp.zeros_like(belief[:, :1])], axis=1)
