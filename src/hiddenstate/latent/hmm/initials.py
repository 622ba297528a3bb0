"""Where a chain begins: probabilities of its own, or the long-run shares of its transitions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import register
from hiddenstate.latent.hmm.rows import Rows


@register("initial-probabilities")
class InitialProbs(eqx.Module):
    """The probability of each state at the first step, learned, or held fixed where given inside `Frozen`."""

    rows: Rows

    def __init__(self, probs: Any, states: int):
        self.rows = Rows.of(probs, "initial", (states,))

    def probs(self, matrix: Float[Array, "state state"]) -> Float[Array, " state"]:
        """The probabilities, whatever the transitions."""
        del matrix
        return self.rows.probs

    @property
    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        return self.rows.free_parameters

    def maximise(self, counts: Float[Array, " state"], pseudocount: Any) -> "InitialProbs":
        """In proportion to expected counts."""
        return eqx.tree_at(lambda i: i.rows, self, self.rows.with_counts(counts, pseudocount))

    def permuted(self, order: Any) -> "InitialProbs":
        """The same with states numbered in another order."""
        return jax.tree.map(lambda a: a[np.asarray(order)], self)


@register("stationary-initial")
class Stationary(eqx.Module):
    """The share of time that the chain spends in each state in the long run: it has been running for ever."""

    def probs(self, matrix: Float[Array, "state state"]) -> Float[Array, " state"]:
        """The stationary distribution of the matrix."""
        return stationary(matrix)

    @property
    def free_parameters(self) -> int:
        """None: it follows from the transitions."""
        return 0

    def maximise(self, counts: Float[Array, " state"], pseudocount: Any) -> "Stationary":
        """Nothing of its own to choose."""
        del counts, pseudocount
        return self

    def permuted(self, order: Any) -> "Stationary":
        """The same."""
        del order
        return self


def stationary(matrix: Float[Array, "state state"]) -> Float[Array, " state"]:
    """The distribution that the matrix leaves as it is; unique where every state can reach every other.

    Solved from pi (I - P + 1) = 1, with 1 the matrix of ones: not singular for any chain with one recurrent class.
    """
    ones = jnp.ones(len(matrix), matrix.dtype)
    found = jnp.linalg.solve((jnp.eye(len(matrix), dtype=matrix.dtype) - matrix + 1).T, ones)
    return jnp.maximum(found, 0.0) / jnp.maximum(found, 0.0).sum()
