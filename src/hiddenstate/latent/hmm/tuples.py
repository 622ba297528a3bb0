"""A chain whose state is the tuple of the last few hidden states, for observations that depend on all of these."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.ops.simplex import safe_log


class Tuples(eqx.Module):
    """The last hidden states, the present one and `memory` before it, that move by a matrix of the present one.

    A tuple is one index: the hidden states as digits, the oldest first, so that the present one is the index modulo K.
    A move forgets the oldest and appends a new one. Each of the K ** (memory + 1) tuples has K successors, which differ
    in their last digit alone, so that a move costs as much as there are tuples, never the square of it. Likelihoods and
    beliefs are of tuples; `pairs` and `counts` are of hidden states.
    """

    matrix: Float[Array, "state state"]
    memory: int = eqx.field(static=True)

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return self.matrix.shape[-1]

    def move(self, belief: Float[Array, " tuple"]) -> Float[Array, " tuple"]:
        """p(next tuple) from p(tuple)."""
        if self.memory == 0:
            return belief @ self.matrix
        return (self._without_oldest(belief).reshape(-1, self.states, 1) * self.matrix).ravel()

    def back(self, values: Float[Array, " tuple"]) -> Float[Array, " tuple"]:
        """The expectation, given each tuple, of a value of the next."""
        if self.memory == 0:
            return self.matrix @ values
        expected = (values.reshape(-1, self.states, self.states) * self.matrix).sum(-1).ravel()
        return jnp.broadcast_to(expected, (self.states, expected.size)).ravel()

    def expand(self, values: Float[Array, " tuple"]) -> Float[Array, " tuple"]:
        """A number for each tuple, in the form that beliefs are multiplied by."""
        return values

    def collapse(self, belief: Float[Array, " tuple"]) -> Float[Array, " tuple"]:
        """The belief over what likelihoods are given for, which is tuples."""
        return belief

    def best(self, scores: Float[Array, " tuple"]) -> Float[Array, " tuple"]:
        """The best score with which each next tuple is reached; of an operator of logarithms."""
        if self.memory == 0:
            return (scores[:, None] + self.matrix).max(0)
        kept = scores.reshape(self.states, -1).max(0)
        return (kept.reshape(-1, self.states, 1) + self.matrix).ravel()

    def previous(self, scores: Float[Array, " tuple"], following: Any) -> Any:
        """The tuple from which that score is reached; of an operator of logarithms."""
        before = self._before(following)
        reached = scores[before] + self.matrix[before % self.states, following % self.states]
        return before[jnp.argmax(reached)].astype(jnp.int32)

    def draw(self, belief: Float[Array, " tuple"], following: Any, noise: Float[Array, " candidate"]) -> Any:
        """A tuple from p(tuple | next tuple): the best of the log-probabilities with Gumbel noise."""
        before = self._before(following)
        joint = belief[before] * self.matrix[before % self.states, following % self.states]
        return before[jnp.argmax(safe_log(joint) + noise[: self.states])].astype(jnp.int32)

    def log_move(self, state: Any, following: Any) -> Float[Array, ""]:
        """The log-probability of a move that is possible; of an operator of logarithms."""
        return self.matrix[state % self.states, following % self.states]

    def hidden(self, state: Any) -> Any:
        """What likelihoods are given for, which is the tuple itself."""
        return state

    def pairs(
        self, belief: Float[Array, "time tuple"], ratio: Float[Array, "time tuple"]
    ) -> Float[Array, "time state state"]:
        """p(z_t, z_{t+1}) of the hidden states at every step."""
        if self.memory == 0:
            return belief[:, :, None] * self.matrix * ratio[:, None, :]
        kept = belief.reshape(len(belief), self.states, self._between, self.states).sum(1)
        later = ratio.reshape(len(ratio), self._between, self.states, self.states)
        return jnp.einsum("tri,trij->tij", kept, later, precision="highest") * self.matrix

    def counts(self, belief: Float[Array, "time tuple"], ratio: Float[Array, "time tuple"]) -> "Tuples":
        """The expected numbers of moves between hidden states."""
        return Tuples(self.gradient(belief, ratio).matrix * self.matrix, self.memory)

    def gradient(self, belief: Float[Array, "time tuple"], adjoint: Float[Array, "time tuple"]) -> "Tuples":
        """The gradient with respect to the matrix, given the adjoints of all moved beliefs."""
        if self.memory == 0:
            return Tuples(jnp.matmul(belief.T, adjoint, precision="highest"), 0)
        kept = belief.reshape(len(belief), self.states, self._between, self.states).sum(1)
        later = adjoint.reshape(len(adjoint), self._between, self.states, self.states)
        return Tuples(jnp.einsum("tri,trij->ij", kept, later, precision="highest"), self.memory)

    @property
    def _between(self) -> int:
        """How many ways there are between the oldest and the present hidden state."""
        return self.states ** (self.memory - 1)

    def _without_oldest(self, belief: Float[Array, " tuple"]) -> Float[Array, " shorter"]:
        return belief.reshape(self.states, -1).sum(0)

    def _before(self, following: Any) -> Any:
        """The K tuples that a tuple can follow: any oldest state, and then all but the last of its own."""
        return jnp.arange(self.states) * self.states**self.memory + following // self.states
