r"""A model along its data as a linear system: what a small change of one state does to the next, and to the loss.

States are vectors here, all real numbers of a state one after the other (`hiddenstate.ops.vectors`). What is no real
number, such as a counter of steps or a key, is carried along.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Element, Float, Shaped, State
from hiddenstate.core import Arrays, HiddenStateError, SequenceModel, Sequences, name_of
from hiddenstate.inference import arrays_for, each_step, sequences_for
from hiddenstate.inference.score import step_log_prob
from hiddenstate.ops.vectors import as_vector, entries, from_vector
from hiddenstate.strategies import Auto


class Linearised(NamedTuple):
    r"""All steps of all sequences, with leading axes (sequence, time).

    `states` are the states as the model has them and `vectors` the same as vectors; `jacobians` are
    :math:`\partial h_{t+1} / \partial h_t`, `direct` are :math:`-\nabla_{h_t} \log p(x_t \mid h_t)`, zero at steps
    that are not scored. Behind the end of a sequence `jacobians` and `direct` are zero.
    """

    states: State
    vectors: Float[Array, "sequence time state"]
    jacobians: Float[Array, "sequence time next state"]
    direct: Float[Array, "sequence time state"]


def prepared_data(model: SequenceModel, data: Any) -> tuple[Sequences, Arrays]:
    """Checked data of a model whose state holds real numbers, and their arrays."""
    data = sequences_for(model, data)
    if not entries(moving_part(jax.eval_shape(model.initial))):
        raise HiddenStateError(f"the state of {name_of(model)} holds no real number, so it has no derivative.")
    return data, arrays_for(model, data)


def moving_part(state: State) -> State:
    """The arrays of a state that have derivatives."""
    return eqx.filter(state, _has_derivative)


def vector_of(state: State) -> Float[Array, " state"]:
    """All real numbers of a state."""
    return as_vector(moving_part(state))


def state_of(vector: Float[Array, " state"], like: State) -> State:
    """The state with these real numbers, the rest as in `like`."""
    moving, rest = eqx.partition(like, _has_derivative)
    return eqx.combine(from_vector(vector, moving), rest)


def scored(arrays: Arrays) -> Shaped[Array, "sequence time"]:
    """Which steps count in the loss: those of the sequences, without their context."""
    step = jnp.arange(arrays.values.shape[1])
    inside = inside_of(arrays)
    return inside if arrays.context is None else inside & (step >= arrays.context[:, None])


def inside_of(arrays: Arrays) -> Shaped[Array, "sequence time"]:
    """Which steps are real."""
    shape = arrays.values.shape[:2]
    step = jnp.arange(shape[1])
    return jnp.ones(shape, bool) if arrays.lengths is None else step < arrays.lengths[:, None]


@eqx.filter_jit
def linearised(model: SequenceModel, arrays: Arrays) -> Linearised:
    """The states of all steps, and both derivatives at each, computed for all steps at once."""

    def look(state: State, element: Element, x: Any, u: Any) -> Linearised:
        vector = vector_of(state)
        move = lambda v: vector_of(model.step(state_of(v, state), element))  # noqa: E731
        loss = lambda v: -step_log_prob(model, state_of(v, state), element, x, u)  # noqa: E731
        return Linearised(state, vector, jax.jacrev(move)(vector), jax.grad(loss)(vector))

    out: Linearised = each_step(model, arrays, Auto(), look)[0]
    return out._replace(
        jacobians=jnp.where(inside_of(arrays)[..., None, None], out.jacobians, 0),
        direct=jnp.where(scored(arrays)[..., None], out.direct, 0),
    )


def blanked(values: Any, inside: np.ndarray) -> np.ndarray:
    """Values (sequence, time, ...) as a NumPy array, with NaN where `inside` (sequence, time) is False."""
    values = np.asarray(values)
    return np.where(inside.reshape(*inside.shape, *(1,) * (values.ndim - 2)), values, np.nan)


def _has_derivative(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)
