"""How beliefs move from one step to the next, as linear operators that know their structure.

Everything the recursions need of a chain is here: a belief moved forward, an expectation moved back, the best and the
sampled predecessor. A dense matrix costs K² a step; explicit durations D cost K² + K D, not (K D)².
"""

from typing import Any

import equinox as eqx
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


def _counted_down(belief: Float[Array, "state duration"]) -> Float[Array, "state duration"]:
    return jnp.concatenate([belief[:, 1:], jnp.zeros_like(belief[:, :1])], axis=1)
