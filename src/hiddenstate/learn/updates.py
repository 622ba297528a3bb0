"""One update of the learned arrays, compiled: loss, gradient, clipping, optimiser, whether all was finite."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hiddenstate._types import Array, Float, State
from hiddenstate.core import Arrays, ConditionalModel, PairArrays, SequenceModel, is_noisy, partition
from hiddenstate.learn.chance import Moment, chance_at
from hiddenstate.learn.minibatches import counting
from hiddenstate.learn.objectives import Objective, TeacherForcing
from hiddenstate.ops.mixed_precision import with_bfloat16_products
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Strategy

FAULTS = ("", "loss", "gradient", "update")
"""What was not finite, by its code; nothing at 0."""

TEACHER_FORCING = TeacherForcing()

Leaves = Sequence[Array]
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
    """How arrays make up a model, and what is made of it: all that is no array. Equal ones share compiled programs."""

    def __init__(
        self, model: SequenceModel | ConditionalModel, strategy: Strategy, objective: Objective, *, mixed: bool
    ):
        learned, rest = partition(model)
        self.learned = jax.tree.structure(learned)
        self.states = {kind: jax.tree.structure(kind.first_state(model)) for kind in (objective, TEACHER_FORCING)}
        self.rest = eqx.filter(rest, eqx.is_array, inverse=True)
        self.strategy, self.objective, self.mixed = strategy, objective, mixed
        self.noisy = is_noisy(model)
        leaves, tree = jax.tree.flatten(self.rest)
        self._signature = (self.learned, tuple(self.states.items()), tuple(leaves), tree, strategy, objective, mixed)

    def __hash__(self) -> int:
        return hash(self._signature)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anatomy) and self._signature == other._signature

    @property
    def draws(self) -> bool:
        """Whether an update depends on chance."""
        return self.noisy or self.objective.draws

    def total(
        self,
        rest: Any,
        learned: Leaves,
        arrays: Arrays | PairArrays,
        carried: Leaves | None,
        moment: Moment | None,
        *,
        noisy: bool,
    ) -> tuple[Array, Leaves]:
        """The objective of a minibatch from carried states (or the initial one), and those after.

        Without a moment it is the log-probability.
        """
        model = eqx.combine(jax.tree.unflatten(self.learned, learned), rest, self.rest)
        objective = TEACHER_FORCING if moment is None else self.objective
        state: State = None if carried is None else jax.tree.unflatten(self.states[objective], carried)
        chance = chance_at(moment, len(counted(arrays).values), noisy=noisy and self.noisy, draws=objective.draws)
        log_probs, final = objective.log_probs(model, arrays, self.strategy, state, chance)
        return sum_over_time(sum_over_time(log_probs)), [_strong(leaf) for leaf in jax.tree.leaves(final)]


class Rule(NamedTuple):
    """How a gradient becomes an update."""

    optimiser: optax.GradientTransformation
    clip: float | None
    clip_value: float | None
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
        clip_value: float | None = None,
        objective: Objective = TEACHER_FORCING,
        mixed: bool = False,
    ):
        learned: Any
        learned, self._rest = partition(model)
        self.initial, tree = _strong_leaves(learned)
        self.optimiser_initial, optimiser_tree = _strong_leaves(optimiser.init(learned))
        self.state, _ = _strong_leaves(objective.first_state(model))
        self.rest_arrays = eqx.filter(self._rest, eqx.is_array)
        self.anatomy = Anatomy(model, strategy, objective, mixed=mixed)
        self.rule = Rule(optimiser, clip, clip_value, tree, optimiser_tree)

    def model(self, learned: Leaves) -> Any:
        """The whole model with these learned arrays."""
        return eqx.combine(jax.tree.unflatten(self.rule.learned, learned), self._rest)

    def update(
        self,
        learned: Leaves,
        optimiser: Leaves,
        arrays: Arrays | PairArrays,
        carried: Leaves | None,
        moment: Moment | None = None,
    ) -> Outcome:
        """Learned arrays and optimiser state after one minibatch, from carried states or the initial one.

        The gradient is compiled for every shape of minibatches, the rest only once.
        """
        loss, gradient, final = _gradient(self.anatomy, self.rest_arrays, learned, arrays, carried, moment)
        new, state, measured = _apply(self.rule, learned, optimiser, loss, gradient)
        return Outcome(new, state, measured, final)

    def total(
        self,
        learned: Leaves,
        arrays: Arrays | PairArrays,
        carried: Leaves | None,
        moment: Moment | None = None,
    ) -> tuple[Array, Leaves]:
        """The log-probability of a minibatch, or with a moment its objective, and the states after; without noise."""
        return _total(self.anatomy, self.rest_arrays, learned, arrays, carried, moment)

    def probe(self) -> Leaves:
        """What the optimiser makes of two made-up gradients: its mark, equal in any process."""
        return _first_updates(self.rule, self.initial, self.optimiser_initial)


class Learners:
    """Several models of one anatomy, their arrays stacked along a first axis, updated together."""

    def __init__(self, learners: Sequence[Learner]):
        first = learners[0]
        self.anatomy, self.rule = first.anatomy, first.rule
        self._rest_arrays = stacked([learner.rest_arrays for learner in learners])
        self.initial = stacked([learner.initial for learner in learners])
        self.optimiser_initial = stacked([learner.optimiser_initial for learner in learners])

    def update(
        self,
        learned: Leaves,
        optimiser: Leaves,
        arrays: Arrays | PairArrays,
        carried: Leaves | None,
        moment: Moment | None,
    ) -> Outcome:
        """As `Learner.update`, of all models on the same minibatch."""
        loss, gradient, final = _gradients(self.anatomy, self._rest_arrays, learned, arrays, carried, moment)
        new, state, measured = _apply_each(self.rule, learned, optimiser, loss, gradient)
        return Outcome(new, state, measured, final)

    def total(
        self, learned: Leaves, arrays: Arrays | PairArrays, carried: Leaves | None, moment: Moment | None = None
    ) -> tuple[Array, Leaves]:
        """As `Learner.total`, of all models."""
        return _totals(self.anatomy, self._rest_arrays, learned, arrays, carried, moment)


def stacked(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one, with a first axis that counts them."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _total_of(anatomy, rest, learned, arrays, carried, moment):
    return anatomy.total(rest, learned, arrays, carried, moment, noisy=False)


def _gradient_of(anatomy, rest, learned, arrays, carried, moment):
    steps = counting(arrays, jnp).sum()

    def loss_of(learned):
        total, final = anatomy.total(rest, learned, arrays, carried, moment, noisy=True)
        return -total / steps.astype(total.dtype), final

    differentiate = jax.value_and_grad(loss_of, has_aux=True)
    if anatomy.mixed:
        differentiate = with_bfloat16_products(differentiate)
    (loss, final), gradient = differentiate(learned)
    # conj: the direction of ascent, where numbers are complex
    return loss, [g.conj() for g in gradient], final


def _apply_of(rule, learned, state, loss, gradient):
    norm = global_norm(gradient)
    if rule.clip_value is not None:
        gradient = [_within(g, rule.clip_value) for g in gradient]
    if rule.clip is not None:
        size = norm if rule.clip_value is None else global_norm(gradient)
        scale = jnp.where(size > rule.clip, rule.clip / size, 1.0)
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
def _total(anatomy, rest, learned, arrays, carried, moment):
    return _total_of(anatomy, rest, learned, arrays, carried, moment)


@partial(jax.jit, static_argnums=0)
def _gradient(anatomy, rest, learned, arrays, carried, moment):
    return _gradient_of(anatomy, rest, learned, arrays, carried, moment)


@partial(jax.jit, static_argnums=0)
def _apply(rule, learned, state, loss, gradient):
    return _apply_of(rule, learned, state, loss, gradient)


@partial(jax.jit, static_argnums=0)
def _totals(anatomy, rest, learned, arrays, carried, moment):
    return jax.vmap(lambda r, p, c: _total_of(anatomy, r, p, arrays, c, moment))(rest, learned, carried)


@partial(jax.jit, static_argnums=0)
def _gradients(anatomy, rest, learned, arrays, carried, moment):
    return jax.vmap(lambda r, p, c: _gradient_of(anatomy, r, p, arrays, c, moment))(rest, learned, carried)


@partial(jax.jit, static_argnums=0)
def _apply_each(rule, learned, state, loss, gradient):
    return jax.vmap(partial(_apply_of, rule))(learned, state, loss, gradient)


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


def counted(arrays: Arrays | PairArrays) -> Arrays:
    """The arrays whose steps are predicted: of pairs, the targets."""
    return arrays.target if isinstance(arrays, PairArrays) else arrays


def global_norm(leaves: Leaves) -> Float[Array, ""]:
    """The Euclidean norm of all numbers together, computed so that squares do not overflow."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a), initial=0.0) for a in leaves]))
    scale = jnp.where(largest > 0, largest, 1.0)
    return scale * jnp.sqrt(sum(jnp.sum(jnp.square(jnp.abs(a / scale))) for a in leaves))


def _within(gradient: Array, most: float) -> Array:
    """Every number within ±`most`; of complex ones, both parts."""
    if jnp.iscomplexobj(gradient):
        return jax.lax.complex(_within(gradient.real, most), _within(gradient.imag, most))
    return jnp.clip(gradient, -most, most)


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
