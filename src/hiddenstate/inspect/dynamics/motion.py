"""A model as a map of its state onto itself: what it does while nothing new is seen."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, Element, Float, PRNGKeyArray, State
from hiddenstate.core import DataError, HiddenStateError, Sequences, dtype_of, has, name_of
from hiddenstate.inference import arrays_for, prototype, sample, sequences_for, states
from hiddenstate.ops.vectors import as_vector, entries, from_vector

STEPS_SEEN = 16
"""How long the sequences are that a model draws for itself, to see where its states are."""


class Motion(eqx.Module):
    r"""The map :math:`h \mapsto f(h, x)` of a state under a constant observation, on states written as vectors."""

    model: Any
    element: Element
    """What stands for the observation at every step; None where the model reads what it expects itself."""

    def __call__(self, h: Float[Array, " size"]) -> Float[Array, " size"]:
        """The state after one step."""
        return self.moved(h, self.element)

    def moved(self, h: Float[Array, " size"], element: Element) -> Float[Array, " size"]:
        """The state after one step that reads another element."""
        state = self.state(h)
        element = _expected(self.model, state) if element is None else element
        return as_vector(self.model.step(state, element))

    def state(self, h: Float[Array, " size"]) -> State:
        """A vector as the state that it stands for."""
        return from_vector(h, jax.eval_shape(self.model.initial))

    def start(self) -> Float[Array, " size"]:
        """The model's own first state."""
        return as_vector(self.model.initial())

    @property
    def size(self) -> int:
        """How many numbers the state holds."""
        return entries(jax.eval_shape(self.model.initial))


def motion_of(model: Any, x: Any = None, input: Any = None) -> Motion:
    """The map of a model's state under the observation `x`, the cell's `input`, or what stands for nothing.

    Without either, a network's cell reads zeros, and a model that can sum out missing observations sees none. Where
    `x` is ``"own"`` the model reads what it expects: the mean of its read-out, of symbols the most probable.
    """
    _check_state(model)
    if x is not None and input is not None:
        raise HiddenStateError("both x and input were given; one of them says what is read at every step.")
    if isinstance(x, str):
        if x != "own" or not has(model, "readout"):
            raise HiddenStateError(f"x is {x!r}; it must be an observation, or 'own' for a model with a read-out.")
        return Motion(model, None)
    if x is not None:
        return Motion(model, _observed(model, x))
    cell = own_cell(model)
    if cell is not None:
        return Motion(model, cell.prepare(_cell_input(cell, input)))
    if input is not None:
        raise HiddenStateError(
            f"input is given, but {name_of(model)} has no cell that reads it; give x, an observation."
        )
    if has(model, "prepare_partial"):
        return Motion(model, _missing(model))
    raise HiddenStateError(f"{name_of(model)} reads an observation at every step; give x, or x='own'.")


def visited(model: Any, count: int, *, key: PRNGKeyArray, data: Any = None) -> Float[np.ndarray, "count size"]:
    """So many states that a model takes: on data, otherwise on what it draws itself (a cell: on normal input).

    Where the cell begins at zero, so that any vector may be its state, half of those without data are spread evenly
    over a box around zero that holds the others and reaches to one.
    """
    draw_key, pick_key, spread_key = jr.split(key, 3)
    pool = _on_data(model, data) if data is not None else _drawn(model, count, draw_key)
    picked = np.asarray(jr.choice(pick_key, len(pool), (count,), replace=len(pool) < count))
    found = pool[picked]
    cell = own_cell(model)
    if data is None and cell is not None and not np.any(np.asarray(as_vector(cell.initial()))):
        reach = np.maximum(1.0, np.abs(pool).max(axis=0))
        half = np.asarray(jr.uniform(spread_key, (count // 2, pool.shape[1]), minval=-1.0, maxval=1.0))
        found = np.concatenate([found[: count - len(half)], reach * half])
    return found.astype(pool.dtype)


def own_cell(model: Any) -> Any:
    """The cell whose state is the model's, which may be the model itself; None where there is none."""
    cell = getattr(model, "cell", model)
    if not hasattr(cell, "input_size"):
        return None
    shapes = [jax.tree.map(lambda a: a.shape, jax.eval_shape(part.initial)) for part in (model, cell)]
    return cell if shapes[0] == shapes[1] else None


def known_states(model: Any, data: Any) -> Float[np.ndarray, "sequence time size"]:
    """The state before each observation as a vector; NaN behind the end of a sequence."""
    data = sequences_for(model, data)
    flat = np.asarray(jax.vmap(jax.vmap(as_vector))(states(model, data)))
    return np.where(data.valid[..., None], flat, np.nan)


def whole(argument: str, value: Any, least: int = 1) -> int:
    """A whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise HiddenStateError(f"{argument} is {value!r}; it must be a whole number of at least {least}.")
    return int(value)


def positive(argument: str, value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise HiddenStateError(f"{argument} is {value!r}; it must be a positive number.")
    return float(value)


def vector(argument: str, value: Any, size: int) -> Float[np.ndarray, " size"]:
    """So many finite numbers."""
    try:
        given = np.asarray(value, float)
    except (TypeError, ValueError):
        given = np.array(np.nan)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise HiddenStateError(f"{argument} is {value!r}; it must be a vector of {size} finite numbers.")
    return given


def _on_data(model: Any, data: Any) -> np.ndarray:
    flat = known_states(model, data)
    return flat[~np.isnan(flat).all(axis=-1)]


def _drawn(model: Any, count: int, key: PRNGKeyArray) -> np.ndarray:
    if has(model, "readout"):
        inputs = np.zeros((STEPS_SEEN, model.inputs)) if model.inputs else None
        return _on_data(model, sample(model, STEPS_SEEN, key=key, n=-(-count // 4), inputs=inputs))
    inputs = jr.normal(key, (-(-count // 4), STEPS_SEEN, model.input_size), dtype_of(model))
    return np.asarray(_states_of_cell(model, inputs)).reshape(-1, entries(jax.eval_shape(model.initial)))


@eqx.filter_jit
def _states_of_cell(cell: Any, inputs: Float[Array, "sequence time input"]) -> Float[Array, "sequence time size"]:
    def one(xs: Array) -> Array:
        def step(state: State, element: Element) -> tuple[State, Array]:
            return cell.step(state, element), as_vector(state)

        return jax.lax.scan(step, cell.initial(), jax.vmap(cell.prepare)(xs))[1]

    return jax.vmap(one)(inputs)


def _check_state(model: Any) -> None:
    if not (has(model, "initial") and has(model, "step")):
        raise HiddenStateError(f"model is a {name_of(model)}; it must be a cell or a model of sequences.")
    leaves = jax.tree.leaves(jax.eval_shape(model.initial))
    if not sum(leaf.size for leaf in leaves):
        raise HiddenStateError(f"{name_of(model)} has no state, and so no dynamics.")
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise HiddenStateError(
                f"the state of {name_of(model)} holds numbers of type {leaf.dtype}; dynamics takes states of real "
                "numbers, such as those of a network, an HMM or a Kalman filter."
            )


def _no_inputs(model: Any) -> Array | None:
    return jnp.zeros(model.inputs, dtype_of(model)) if getattr(model, "inputs", 0) else None


def _observed(model: Any, x: Any) -> Element:
    if not has(model, "readout"):
        raise HiddenStateError(f"x is given, but {name_of(model)} reads vectors, not observations; give input.")
    try:
        values = np.asarray(x)[None]
        inputs = [np.zeros((1, model.inputs))] if model.inputs else None
        arrays = arrays_for(model, sequences_for(model, Sequences.of([values], inputs=inputs)))
    except DataError as error:
        raise DataError(f"x is {x!r}, which is no observation of the model: {error}") from None
    return model.prepare(jnp.asarray(arrays.values[0, 0]), _no_inputs(model))


def _cell_input(cell: Any, input: Any) -> Array:
    given = np.zeros(cell.input_size) if input is None else vector("input", input, cell.input_size)
    return jnp.asarray(given, dtype_of(cell))


def _missing(model: Any) -> Element:
    nothing = prototype(model)
    blank = jnp.zeros(nothing.event_shape, jnp.int32 if nothing.is_discrete else dtype_of(model))
    return model.prepare_partial(blank, _no_inputs(model), jnp.zeros(nothing.event_shape, bool))


def _expected(model: Any, state: State) -> Element:
    u = _no_inputs(model)
    shown = model.readout(state, u)
    logits: Any = getattr(shown, "logits", None)
    if shown.is_discrete and np.ndim(logits) > len(shown.shape()):
        return model.prepare(jnp.argmax(logits, axis=-1), u)
    return model.prepare(shown.mean, u)
