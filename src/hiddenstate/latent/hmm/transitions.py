"""Where a chain moves: a matrix of probabilities, or one that inputs drive."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Num
from hiddenstate.core import Frozen, HiddenStateError, Prior, register
from hiddenstate.latent import checks
from hiddenstate.latent.hmm.rows import Rows


@register("transition-matrix")
class TransitionMatrix(eqx.Module):
    """Transition probabilities: entry (i, j) is the probability of moving from state i to state j.

    Entries given as exactly zero stay zero in learning, so that left-right, banded and any other structure is kept.
    ``np.asarray(transition)`` and `probs` are the matrix; wrapped in `Frozen` it is not learned.
    """

    rows: Rows

    def __init__(self, probs: Any):
        rows = Rows.of("transition", probs, 2)
        if rows.allowed.shape[0] != rows.allowed.shape[1]:
            raise HiddenStateError(f"transition has shape {rows.allowed.shape}; it must be square.")
        self.rows = rows

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.probs, dtype=dtype)

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.rows.allowed.shape[0]

    @property
    def inputs(self) -> int:
        """It takes no inputs."""
        return 0

    @property
    def probs(self) -> Float[Array, "state state"]:
        """The matrix."""
        return self.rows.probs

    @property
    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        return self.rows.free_parameters

    def matrix(self, u: Num[Array, " inputs"] | None = None) -> Float[Array, "state state"]:
        """The matrix, whatever the inputs."""
        del u
        return self.rows.probs

    def maximise(self, counts: Float[Array, "state state"], prior: Prior) -> "TransitionMatrix":
        """The most probable matrix given expected numbers of moves."""
        return eqx.tree_at(lambda t: t.rows, self, self.rows.with_counts(counts, prior.pseudocount))

    def permuted(self, order: Any) -> "TransitionMatrix":
        """The same moves between states that are numbered in another order."""
        square = np.ix_(order, order)
        return jax.tree.map(lambda a: a[square], self)


class DrivenStatistics(NamedTuple):
    """The gradient of the expected log-probability of all moves, and a bound of its curvature."""

    gradient: Float[Array, "state state feature"]
    curvature: Float[Array, "state feature feature"]


@register("input-driven-transition")
class InputDriven(eqx.Module):
    r"""Transition probabilities that follow inputs: a softmax regression for each state,
    :math:`p(z_{t+1} = j \mid z_t = i, u_t) \propto \exp(b_{ij} + w_{ij} \cdot u_t)`.

    `probs` are the probabilities at :math:`u = 0` (exact zeros stay zeros at any input) and `weights`, (state, state,
    inputs), how the log-odds follow the inputs. The input at t drives the move from t to t + 1. The maximisation step
    of EM takes one step on Böhning's quadratic bound (1992), which never lets the likelihood fall.
    """

    rows: Rows
    weights: Float[Array, "state state inputs"] | Frozen

    def __init__(self, probs: Any, weights: Any):
        self.rows = TransitionMatrix(probs).rows
        states = self.rows.allowed.shape[0]
        given = weights.value if isinstance(weights, Frozen) else weights
        array = checks.numbers("weights", given, 3)
        checks.shaped("weights", array, (states, states, array.shape[2]), "one row of inputs for each move")
        slopes = jnp.asarray(array, self.rows.values.dtype)
        self.weights = Frozen(slopes) if isinstance(weights, Frozen) else slopes

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.rows.allowed.shape[0]

    @property
    def inputs(self) -> int:
        """How many inputs it takes at every step."""
        return self._weights.shape[-1]

    @property
    def _weights(self) -> Float[Array, "state state inputs"]:
        return self.weights.value if isinstance(self.weights, Frozen) else self.weights

    @property
    def probs(self) -> Float[Array, "state state"]:
        """The matrix where all inputs are zero."""
        return self.rows.probs

    @property
    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        slopes = 0 if isinstance(self.weights, Frozen) else self.inputs
        per_row = np.maximum(np.asarray(self.rows.allowed).sum(-1) - 1, 0).sum()
        return self.rows.free_parameters + int(per_row) * slopes

    def matrix(self, u: Num[Array, " inputs"] | None = None) -> Float[Array, "state state"]:
        """The matrix at these inputs."""
        if u is None:
            raise HiddenStateError(f"the transition takes {self.inputs} inputs at every step; none were given.")
        logits = self.rows.log_probs + self._weights @ u
        return jax.nn.softmax(jnp.where(self.rows.allowed, logits, -jnp.inf))

    def statistics(
        self,
        pairs: Float[Array, "move state state"],
        us: Num[Array, "move inputs"],
    ) -> DrivenStatistics:
        """Sums over all moves, from the probability of each and the inputs there."""
        features = jnp.concatenate([jnp.ones_like(us[:, :1]), us], axis=1)
        at = pairs.sum(-1)
        surprise = pairs - at[..., None] * jax.vmap(self.matrix)(us)
        return DrivenStatistics(
            jnp.einsum("tij,tf->ijf", surprise, features), jnp.einsum("ti,tf,tg->ifg", at, features, features)
        )

    def maximise(self, statistics: DrivenStatistics, prior: Prior) -> "InputDriven":
        """One step up: the curvature of a softmax is at most half, in every direction of the logits.

        With a pseudocount the slopes are drawn to zero, as by a Gaussian prior of that precision.
        """
        fixed = jnp.array([self.rows.fixed] + [isinstance(self.weights, Frozen)] * self.inputs)
        small = jnp.finfo(self._weights.dtype).eps
        trace = jnp.trace(statistics.curvature, axis1=-2, axis2=-1)[:, None, None]
        eye = jnp.eye(1 + self.inputs, dtype=self._weights.dtype)
        held = fixed[:, None] | fixed
        bound = 0.5 * statistics.curvature + (small * trace + jnp.finfo(eye.dtype).tiny + prior.pseudocount) * eye
        bound = jnp.where(held, eye, bound)
        slope = statistics.gradient.at[..., 1:].add(-prior.pseudocount * self._weights)
        slope = jnp.where(fixed, 0.0, slope)
        change = jnp.einsum("ifg,ijg->ijf", jnp.linalg.inv(bound), slope)
        change = jnp.where(self.rows.allowed[..., None] & (trace > 0), change, 0.0)
        logits, weights = self.rows.values + change[..., 0], self._weights + change[..., 1:]
        rows = self.rows if self.rows.fixed else Rows(jnp.where(self.rows.allowed, logits, 0.0), self.rows.allowed)
        kept = self.weights if isinstance(self.weights, Frozen) else weights
        return eqx.tree_at(lambda t: (t.rows, t.weights), self, (rows, kept))

    def permuted(self, order: Any) -> "InputDriven":
        """The same moves between states that are numbered in another order."""
        square = np.ix_(order, order)
        return jax.tree.map(lambda a: a[square], self)
