"""One update of the learned arrays, compiled: loss, gradient, clipping, optimiser, whether all was finite."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hiddenstate._types import Array, Float, State
from hiddenstate.core import Arrays, ConditionalModel, PairArrays, SequenceModel, has, partition
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


class Anatomy:
    """How arrays make up a model: all of it that is no array. Equal ones share their compiled programs."""

    def __init__(self, model: SequenceModel | ConditionalModel, strategy: Strategy):
        learned, rest = partition(model)
        self.learned = jax.tree.structure(learned)
        self.state = jax.tree.structure(_first_state(model))
        self.rest = eqx.filter(rest, eqx.is_array, inverse=True)
        self.strategy = strategy
        leaves, tree = jax.tree.flatten(self.rest)
        self._signature = (self.learned, self.state, tuple(leaves), tree, strategy)

    def __hash__(self) -> int:
        return hash(self._signature)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anatomy) and self._signature == other._signature

    def total(
        self, rest: Any, learned: Leaves, arrays: Arrays | PairArrays, carried: Leaves | None
    ) -> tuple[Array, Leaves]:
        """The log-probability of a minibatch from carried states (or the initial one), and those after."""
        model = eqx.combine(jax.tree.unflatten(self.learned, learned), rest, self.rest)
        state: State = None if carried is None else jax.tree.unflatten(self.state, carried)
        log_probs, final = masked_log_probs(model, arrays, self.strategy, state)
        return sum_over_time(sum_over_time(log_probs)), [_strong(leaf) for leaf in jax.tree.leaves(final)]


class Rule(NamedTuple):
    """How a gradient becomes an update."""

    optimiser: optax.GradientTransformation
    clip: float | None
    learned: Any
    """The tree of the learned arrays, and that of the optimiser's state."""
    state: Any


class Learner:
    """A model taken apart into learned arrays and all the rest, and the update of the former."""

    def __init__(
        self,
        model: SequenceModel | ConditionalModel,
        optimiser: optax.GradientTransformation,
        *,
        strategy: Strategy,
        clip: float | None,
    ):
        learned: Any
        learned, self._rest = partition(model)
        self.initial, tree = _strong_leaves(learned)
        self.optimiser_initial, optimiser_tree = _strong_leaves(optimiser.init(learned))
        self.state, _ = _strong_leaves(_first_state(model))
        self._rest_arrays = eqx.filter(self._rest, eqx.is_array)
        self._anatomy = Anatomy(model, strategy)
        self._rule = Rule(optimiser, clip, tree, optimiser_tree)

    def model(self, learned: Leaves) -> Any:
        """The whole model with these learned arrays."""
        return eqx.combine(jax.tree.unflatten(self._rule.learned, learned), self._rest)

    def update(
        self, learned: Leaves, optimiser: Leaves, arrays: Arrays | PairArrays, carried: Leaves | None
    ) -> Outcome:
        """Learned arrays and optimiser state after one minibatch, from carried states or the initial one.

        The gradient is compiled for every shape of minibatches, the rest only once.
        """
        loss, gradient, final = _gradient(self._anatomy, self._rest_arrays, learned, arrays, carried)
        new, state, measured = _apply(self._rule, learned, optimiser, loss, gradient)
        return Outcome(new, state, measured, final)

    def total(self, learned: Leaves, arrays: Arrays | PairArrays, carried: Leaves | None) -> tuple[Array, Leaves]:
        """The log-probability of a minibatch, and the states after it."""
        return _total(self._anatomy, self._rest_arrays, learned, arrays, carried)

    def probe(self) -> Leaves:
        """What the optimiser makes of two made-up gradients: its mark, equal in any process."""
        return _first_updates(self._rule, self.initial, self.optimiser_initial)


@partial(jax.jit, static_argnums=0)
def _total(anatomy, rest, learned, arrays, carried):
    return anatomy.total(rest, learned, arrays, carried)


@partial(jax.jit, static_argnums=0)
def _gradient(anatomy, rest, learned, arrays, carried):
    def loss_of(learned):
        total, final = anatomy.total(rest, learned, arrays, carried)
        return -total / scored_steps(arrays).astype(total.dtype), final

    (loss, final), gradient = jax.value_and_grad(loss_of, has_aux=True)(learned)
    return (
        loss,
        [g.conj() for g in gradient],
        final,
    )  # conj: the direction of ascent, where numbers are complex


@partial(jax.jit, static_argnums=0)
def _apply(rule, learned, state, loss, gradient):
    norm = global_norm(gradient)
    if rule.clip is not None:
        scale = jnp.where(norm > rule.clip, rule.clip / norm, 1.0)
        gradient = [g * scale.astype(jnp.finfo(g.dtype).dtype) for g in gradient]
    updates, new_state = _optimise(rule, gradient, state, learned)
    new = [p + jnp.asarray(u, p.dtype) for p, u in zip(learned, updates, strict=True)]
    finite = jnp.stack([jnp.isfinite(loss), jnp.isfinite(norm), _all_finite(new)])
    good = finite.all()
    fault = jnp.where(good, 0, 1 + jnp.argmin(finite))
    return (
        [jnp.where(good, a, b) for a, b in zip(new, learned, strict=True)],
        [jnp.where(good, a, b) for a, b in zip(new_state, state, strict=True)],
        jnp.stack([loss, norm.astype(loss.dtype), fault.astype(loss.dtype)]),
    )


@partial(jax.jit, static_argnums=0)
def _first_updates(rule, learned, state):
    out = []
    for size in (1e-2, 1.0):
        updates, state = _optimise(rule, [jnp.full_like(p, size) for p in learned], state, learned)
        out += updates
    return out


def _optimise(rule: Rule, gradient: Leaves, state: Leaves, learned: Leaves) -> tuple[Leaves, Leaves]:
    gradients, parameters = (jax.tree.unflatten(rule.learned, leaves) for leaves in (gradient, learned))
    updates, new = rule.optimiser.update(gradients, jax.tree.unflatten(rule.state, state), parameters)
    kept = [_strong(a, b.dtype) for a, b in zip(jax.tree.leaves(new), state, strict=True)]
    return jax.tree.leaves(updates), kept


def _first_state(model: Any) -> State:
    """The state that a sequence starts with; nothing for a model that answers."""
    return model.initial() if has(model, "initial") else None


def scored_steps(arrays: Arrays | PairArrays) -> Array:
    """How many steps of the arrays count: all but padding and context; of pairs, all targets that are not missing."""
    if isinstance(arrays, PairArrays):
        return _scored_targets(arrays.target)
    count, time = arrays.values.shape[:2]
    ends = jnp.full(count, time) if arrays.lengths is None else jnp.asarray(arrays.lengths)
    return ends.sum() if arrays.context is None else jnp.maximum(ends - arrays.context, 0).sum()


def _scored_targets(target: Arrays) -> Array:
    count, time = target.values.shape[:2]
    ends = jnp.full(count, time) if target.lengths is None else jnp.asarray(target.lengths)
    counts = jnp.arange(time) < ends[:, None]
    if target.observed is not None:
        counts = counts & jnp.asarray(target.observed).reshape(count, time, -1).any(-1)
    return counts.sum()


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
