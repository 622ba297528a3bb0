r"""The loss along a line through the parameters: its cliffs, and what a step of gradient descent does at one.

A recurrent network applies the same gain many times, so that its loss can be nearly flat on one side of a value of a
parameter and steep right behind it. A step of plain gradient descent that meets such a cliff is thrown far away; with
the gradient clipped to a norm it goes the same way, but not far (Pascanu, Mikolov and Bengio 2013, section 2.3;
Goodfellow, Bengio and Courville 2016, section 10.11; Tripp's lecture slides).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Arrays, HiddenStateError, SequenceModel, partition
from hiddenstate.inference import arrays_for, masked_log_probs, sequences_for
from hiddenstate.inspect.gradients.linearisation import scored
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Auto

_AT_ONCE = 8  # points of a line whose losses are computed together


@dataclass(frozen=True, eq=False)
class Landscape:
    """The loss along a line through the parameters of a model, in nats per step.

    `distances` along the `direction`, which has norm 1, are measured from the model, `losses` and `gradient_norms` (of
    all parameters) are those there, and `slopes` is what the loss gains per unit of distance. Where a model breaks
    down, its loss is NaN or infinite.
    """

    model: Any
    direction: Any
    distances: np.ndarray
    losses: np.ndarray
    gradient_norms: np.ndarray
    slopes: np.ndarray

    @property
    def cliff(self) -> float:
        """The distance at which the loss is steepest along the line."""
        steepness = np.where(np.isfinite(self.slopes), np.abs(self.slopes), -np.inf)
        return float(self.distances[np.argmax(steepness)])

    def model_at(self, distance: float) -> Any:
        """The model with its parameters moved so far along the line."""
        return _moved(self.model, self.direction, distance)


class Landing(NamedTuple):
    """Where a step ends: how far away, and the loss there; along a line, `distance` has a sign."""

    distance: float
    loss: float


@dataclass(frozen=True, eq=False)
class Step:
    """One step of gradient descent from a place with this `loss` and `gradient_norm`: plain, and clipped to a norm."""

    loss: float
    gradient_norm: float
    plain: Landing
    clipped: Landing


def entry(model: SequenceModel, where: Callable[[Any], Any], index: Any = ()) -> Any:
    """The direction in which a single number of the parameters grows: a tree like the model, for `landscape`.

    `where` picks an array of the model, and `index` one of its entries.

    >>> hs.inspect.gradients.entry(model, lambda m: m.cell.recurrent_weight, (0, 0))  # doctest: +SKIP
    """
    learned = partition(model)[0]
    zeros = jax.tree.map(jnp.zeros_like, learned)
    array = where(zeros)
    if not eqx.is_array(array):
        raise HiddenStateError(f"where gives {array!r}; it must pick an array of the model that is learned.")
    one = array.at[index].set(1)
    if float(jnp.abs(one).sum()) != 1:
        raise HiddenStateError(f"index is {index!r}; it must pick one number of an array of shape {array.shape}.")
    return eqx.tree_at(where, zeros, one)


def landscape(
    model: SequenceModel, data: Any, along: Any = None, *, distances: Sequence[float] | np.ndarray | None = None
) -> Landscape:
    """The loss and its gradient along a line through the parameters of `model`.

    `along` is a direction as a tree like the model, such as another model, a gradient or what `entry` gives; it is
    brought to norm 1. By default it is the direction of the gradient, in which the loss rises fastest. `distances` are
    where to look, by default 101 places from -1 to 1.

    >>> line = hs.inspect.gradients.landscape(model, data)  # doctest: +SKIP
    """
    data = sequences_for(model, data)
    arrays = arrays_for(model, data)
    places = np.linspace(-1, 1, 101) if distances is None else np.asarray(distances, float)
    if places.ndim != 1 or not places.size or not np.isfinite(places).all():
        raise HiddenStateError(f"distances has shape {places.shape}; it must be a list of finite numbers.")
    direction = _direction(model, arrays, along)
    found = _along(model, arrays, direction, jnp.asarray(places, jnp.result_type(*jax.tree.leaves(direction))))
    return Landscape(model, direction, places, *(np.asarray(part, np.float64) for part in found))


def step_at(model: SequenceModel, data: Any, *, learning_rate: float, clip: float, along: Any = None) -> Step:
    """What one step of gradient descent from `model` does, with and without its gradient clipped to the norm `clip`.

    With a direction `along`, as for `landscape`, only the part of the gradient in that direction is followed: both ends
    of the step then lie on the line, and the norm is that of this part.
    """
    for name, value in (("learning_rate", learning_rate), ("clip", clip)):
        if not (np.isfinite(value) and value > 0):
            raise HiddenStateError(f"{name} is {value!r}; it must be a positive number.")
    arrays = arrays_for(model, sequences_for(model, data))
    loss, gradient = _loss_and_gradient(partition(model)[0], model, arrays)
    if along is None:
        norm = float(_norm(gradient))
        direction = jax.tree.map(lambda g: g / norm if norm > 0 else g, gradient)
        slope = norm
    else:
        direction = _direction(model, arrays, along)
        slope = float(_inner(gradient, direction))
        norm = abs(slope)

    def land(size: float) -> Landing:
        distance = -learning_rate * np.sign(slope) * size
        after = _loss_and_gradient(partition(_moved(model, direction, distance))[0], model, arrays)[0]
        return Landing(float(distance if along is not None else abs(distance)), float(after))

    return Step(float(loss), norm, land(norm), land(min(norm, clip)))


def _direction(model: SequenceModel, arrays: Arrays, along: Any) -> Any:
    learned = partition(model)[0]
    if along is None:
        along = _loss_and_gradient(learned, model, arrays)[1]
    try:
        same = jax.tree.map(_in_form_of, learned, partition(along)[0])
    except (ValueError, TypeError, AttributeError):
        raise HiddenStateError("along has another form than the model; it must be a tree like it, or None.") from None
    size = float(_norm(same))
    if not (np.isfinite(size) and size > 0):
        raise HiddenStateError(f"along has norm {size}; it must be a direction, with a norm above zero.")
    return jax.tree.map(lambda part: part / size, same)


def _in_form_of(own: Array, other: Array) -> Array:
    return jnp.broadcast_to(other, own.shape).astype(own.dtype)


def _moved(model: SequenceModel, direction: Any, distance: float) -> Any:
    learned, rest = partition(model)
    return eqx.combine(jax.tree.map(lambda a, d: a + jnp.asarray(distance, d.dtype) * d, learned, direction), rest)


@eqx.filter_jit
def _along(model: SequenceModel, arrays: Arrays, direction: Any, distances: Float[Array, " place"]) -> Any:
    def look(distance: Array) -> tuple[Array, Array, Array]:
        learned = jax.tree.map(lambda a, d: a + distance * d, partition(model)[0], direction)
        loss, gradient = _loss_and_gradient(learned, model, arrays)
        return loss, _norm(gradient), _inner(gradient, direction)

    return jax.lax.map(look, distances, batch_size=_AT_ONCE)


@eqx.filter_jit
def _loss_and_gradient(learned: Any, model: SequenceModel, arrays: Arrays) -> tuple[Array, Any]:
    rest = partition(model)[1]

    def loss(learned: Any) -> Array:
        steps, _ = masked_log_probs(eqx.combine(learned, rest), arrays, Auto())
        return -sum_over_time(sum_over_time(steps)) / scored(arrays).sum()

    return jax.value_and_grad(loss)(learned)


def _norm(tree: Any) -> Array:
    """The Euclidean norm of all numbers of a tree, without overflow in the squares."""
    leaves = [jnp.abs(leaf).ravel() for leaf in jax.tree.leaves(tree)]
    numbers = jnp.concatenate(leaves)
    size = numbers.max()
    safe = jnp.where((size > 0) & jnp.isfinite(size), size, 1)
    return safe * jnp.linalg.norm(numbers / safe)


def _inner(one: Any, other: Any) -> Array:
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda a, b: jnp.vdot(a, b).real, one, other))
