"""One update of the learned arrays, compiled: loss, gradient, clipping, optimiser, whether all was finite."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hiddenstate._types import Array, Float, State
from hiddenstate.core import Arrays, SequenceModel, partition
from hiddenstate.inference import masked_log_probs
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Strategy

FAULTS = ("", "loss", "gradient", "update")
"""What was not finite, by its code; nothing at 0."""

Leaves = list[Array]
"""The arrays of a tree in their order, which is what is passed between updates and kept in checkpoints."""


class Outcome(NamedTuple):
    """What one update gives: new arrays (the old ones if something was not finite) and what was measured."""

    learned: Leaves
    optimiser: Leaves
    measured: Float[Array, "3"]
    """The loss in nats per step, the norm of the gradient before clipping, and the code of a fault."""
    carried: Leaves
    """The states of the sequences after the last step."""


class Learner:
    """A model taken apart into learned arrays and all the rest, and the compiled update of the former."""

    def __init__(
        self,
        model: SequenceModel,
        optimiser: optax.GradientTransformation,
        *,
        strategy: Strategy,
        clip: float | None,
    ):
        learned: Any
        learned, self._rest = partition(model)
        self.initial, self._tree = _strong_leaves(learned)
        self.optimiser_initial, self._optimiser_tree = _strong_leaves(optimiser.init(learned))
        self.state, self._state_tree = _strong_leaves(model.initial())
        self._optimiser, self._strategy, self._clip = optimiser, strategy, clip
        self._rest_arrays, static = eqx.partition(self._rest, eqx.is_array)
        self._gradient = jax.jit(lambda *given: self._differentiate(static, *given))
        self._apply = jax.jit(self._move)
        self._total = jax.jit(lambda *given: self._sum(static, *given))

    def model(self, learned: Leaves) -> Any:
        """The whole model with these learned arrays."""
        return eqx.combine(jax.tree.unflatten(self._tree, learned), self._rest)

    def update(self, learned: Leaves, optimiser: Leaves, arrays: Arrays, carried: Leaves | None) -> Outcome:
        """Learned arrays and optimiser state after one minibatch, from carried states or the initial one.

        The gradient is compiled for every shape of minibatches, the rest only once.
        """
        loss, gradient, final = self._gradient(self._rest_arrays, learned, arrays, carried)
        new, state, measured = self._apply(learned, optimiser, loss, gradient)
        return Outcome(new, state, measured, final)

    def probe(self) -> Leaves:
        """What the optimiser makes of two made-up gradients: its mark, equal in any process."""

        @jax.jit
        def first_updates(learned, state):
            out = []
            for size in (1e-2, 1.0):
                gradient = [jnp.full_like(p, size) for p in learned]
                trees = (jax.tree.unflatten(self._tree, leaves) for leaves in (gradient, learned))
                updates, state = self._optimiser.update(next(trees), state, next(trees))
                out += jax.tree.leaves(updates)
            return out

        return first_updates(self.initial, jax.tree.unflatten(self._optimiser_tree, self.optimiser_initial))

    def total(
        self, learned: Leaves, arrays: Arrays, carried: Leaves | None
    ) -> tuple[Float[Array, ""], Leaves]:
        """The log-probability of a minibatch, and the states after it."""
        return self._total(self._rest_arrays, learned, arrays, carried)

    def _sum(self, static, rest_arrays, learned, arrays, carried):
        model = eqx.combine(jax.tree.unflatten(self._tree, learned), rest_arrays, static)
        log_probs, final = self._log_probs(model, arrays, carried)
        return sum_over_time(sum_over_time(log_probs)), final

    def _log_probs(self, model, arrays, carried) -> tuple[Any, Leaves]:
        state: State = None if carried is None else jax.tree.unflatten(self._state_tree, carried)
        log_probs, final = masked_log_probs(model, arrays, self._strategy, state)
        return log_probs, [_strong(leaf) for leaf in jax.tree.leaves(final)]

    def _differentiate(self, static, rest_arrays, learned, arrays, carried):
        def loss_of(learned):
            total, final = self._sum(static, rest_arrays, learned, arrays, carried)
            return -total / scored_steps(arrays).astype(total.dtype), final

        (loss, final), gradient = jax.value_and_grad(loss_of, has_aux=True)(learned)
        return (
            loss,
            [g.conj() for g in gradient],
            final,
        )  # conj: the direction of ascent, where numbers are complex

    def _move(self, learned, optimiser_state, loss, gradient):
        norm = global_norm(gradient)
        if self._clip is not None:
            scale = jnp.where(norm > self._clip, self._clip / norm, 1.0).astype(norm.dtype)
            gradient = [g * scale.astype(jnp.finfo(g.dtype).dtype) for g in gradient]
        updates, new_state = self._optimiser.update(
            jax.tree.unflatten(self._tree, gradient),
            jax.tree.unflatten(self._optimiser_tree, optimiser_state),
            jax.tree.unflatten(self._tree, learned),
        )
        new = [p + jnp.asarray(u, p.dtype) for p, u in zip(learned, jax.tree.leaves(updates), strict=True)]
        new_leaves = [
            _strong(a, b.dtype) for a, b in zip(jax.tree.leaves(new_state), optimiser_state, strict=True)
        ]
        finite = jnp.stack([jnp.isfinite(loss), jnp.isfinite(norm), _all_finite(new)])
        good = finite.all()
        fault = jnp.where(good, 0, 1 + jnp.argmin(finite))
        return (
            [jnp.where(good, a, b) for a, b in zip(new, learned, strict=True)],
            [jnp.where(good, a, b) for a, b in zip(new_leaves, optimiser_state, strict=True)],
            jnp.stack([loss, norm.astype(loss.dtype), fault.astype(loss.dtype)]),
        )


def scored_steps(arrays: Arrays) -> Array:
    """How many steps of the arrays count: all but padding and context."""
    count, time = arrays.values.shape[:2]
    ends = jnp.full(count, time) if arrays.lengths is None else jnp.asarray(arrays.lengths)
    return ends.sum() if arrays.context is None else jnp.maximum(ends - arrays.context, 0).sum()


def global_norm(leaves: Leaves) -> Float[Array, ""]:
    """The Euclidean norm of all numbers together, computed so that squares do not overflow."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a), initial=0.0) for a in leaves]))
    scale = jnp.where(largest > 0, largest, 1.0)
    return scale * jnp.sqrt(sum(jnp.sum(jnp.square(jnp.abs(a / scale))) for a in leaves))


def _all_finite(leaves: Leaves) -> Any:
    return jnp.stack([jnp.isfinite(a).all() for a in leaves]).all()


def _strong_leaves(tree: Any) -> tuple[Leaves, Any]:
    leaves, structure = jax.tree.flatten(tree)
    return [_strong(jnp.asarray(leaf)) for leaf in leaves], structure


def _strong(array: Any, dtype: Any = None) -> Any:
    """The array with a type that does not give way to others, as one from a checkpoint has."""
    dtype = array.dtype if dtype is None else dtype
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return array
    return jax.lax.convert_element_type(array, np.dtype(dtype))
