"""Where a chain begins: probabilities of its own, or the long-run shares of its transitions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.csgraph import connected_components

from hiddenstate._types import Array, Float
from hiddenstate.core import HiddenStateError, register
from hiddenstate.latent import checks
from hiddenstate.latent.hmm.rows import Rows

_STEPS = 10


@register("initial-probabilities")
class InitialProbs(eqx.Module):
    """The probability of each state at the first step, learned, or held fixed where given inside `Frozen`."""

    rows: Rows

    def __init__(self, probs: Any, states: int):
        rows = Rows.of("initial", probs, 1)
        checks.shaped("initial", np.asarray(rows.allowed), (states,), "one probability for each state")
        self.rows = rows

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


def check_one_stationary(allowed: Any) -> None:
    """Raise HiddenStateError where moves that are possible leave several sets of states that are never left."""
    moves = np.asarray(allowed)
    count, group = connected_components(moves, connection="strong")
    left = {int(group[i]) for i, j in np.argwhere(moves) if group[i] != group[j]}
    if count - len(left) > 1:
        raise HiddenStateError(
            f"initial is 'stationary', but transition has {count - len(left)} sets of states that are never left, so "
            "that the long run depends on the start; give initial as probabilities."
        )


def stationary(matrix: Float[Array, "state state"]) -> Float[Array, " state"]:
    """The distribution that the matrix leaves as it is; unique where every state can reach every other.

    Solved from pi (I - P + 1) = 1, with 1 the matrix of ones: not singular for any chain with one recurrent class.
    """
    ones = jnp.ones(len(matrix), matrix.dtype)
    found = jnp.linalg.solve((jnp.eye(len(matrix), dtype=matrix.dtype) - matrix + 1).T, ones)
    return jnp.maximum(found, 0.0) / jnp.maximum(found, 0.0).sum()


def climbed(
    old: Rows, found: Rows, moves: Float[Array, "state state"], first: Float[Array, " state"], extra: Any
) -> Rows:
    """Transitions under which expected moves and a stationary start are more probable together than under the old ones.

    From the better of the old matrix and the one that fits the moves alone, gradient steps in the logits, scaled by the
    number of moves out of each state, each of the best of several lengths; one that gains nothing is not taken.
    """
    allowed = old.allowed

    def gain(logits):
        log_probs = jax.nn.log_softmax(jnp.where(allowed, logits, -jnp.inf))
        used = jnp.where(allowed, (moves + extra) * jnp.where(allowed, log_probs, 0.0), 0.0).sum()
        start = stationary(jnp.exp(log_probs))
        return used + jnp.where(first > 0, first * jnp.log(jnp.where(start > 0, start, 1.0)), 0.0).sum()

    def better(candidates):
        values = jax.vmap(gain)(candidates)
        return candidates[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]

    lengths = jnp.append(2.0 ** jnp.arange(2, -14, -1), 0.0).astype(moves.dtype)[:, None, None]
    weight = moves.sum(1, keepdims=True) + 1

    def step(logits, _):
        slope = jnp.where(allowed, jax.grad(gain)(logits), 0.0) / weight
        return better(logits + lengths * slope), None

    start = better(jnp.stack([jnp.where(allowed, rows.log_probs, 0.0) for rows in (old, found)]))
    logits = jax.lax.scan(step, start, None, length=_STEPS)[0]
    return eqx.tree_at(lambda rows: rows.logits, old, logits)
