r"""Back-propagation through time as the linear dynamical system that it is (Linderman's lecture notes).

With the loss :math:`L = -\sum_t \log p(x_t \mid h_t)` the gradients :math:`s_t = \partial L / \partial h_t` obey

.. math::

    s_t = A_t s_{t+1} + b_t, \qquad A_t = \left(\frac{\partial h_{t+1}}{\partial h_t}\right)^\top, \qquad
    b_t = -\nabla_{h_t} \log p(x_t \mid h_t)

backward from :math:`s_{T+1} = 0`. Once the states are known, all :math:`A_t` and :math:`b_t` are, so that the backward
pass of any cell runs as a parallel scan of affine maps, even where its forward pass cannot.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Arrays, HiddenStateError, SequenceModel, partition
from hiddenstate.inference.batches import steps_of
from hiddenstate.inference.score import step_log_prob
from hiddenstate.inspect.gradients.linearisation import (
    Linearised,
    blanked,
    linearised,
    prepared_data,
    scored,
    vector_of,
)
from hiddenstate.strategies.strategy import prepared

METHODS = ("parallel", "sequential")


@dataclass(frozen=True, eq=False)
class ThroughTime:
    r"""The gradient of a loss with respect to every state, and the linear system that it solves.

    Arrays have the axes (sequence, time, ...), with NaN behind the end of a sequence. `states` are the :math:`h_t` as
    vectors, `jacobians` the matrices :math:`\partial h_{t+1} / \partial h_t` (row: entry of the later state), `direct`
    the :math:`b_t`, what the loss of step t alone says to its state, and `gradients` the :math:`s_t`. `parameters` is
    the gradient of the loss of all sequences, a tree like the model with None at what is not learned.
    """

    states: np.ndarray
    jacobians: np.ndarray
    direct: np.ndarray
    gradients: np.ndarray
    parameters: Any


def through_time(
    model: SequenceModel, data: Any, *, method: Literal["parallel", "sequential"] = "parallel"
) -> ThroughTime:
    r"""Back-propagation through time, :math:`s_t = A_t s_{t+1} + b_t`, with all of its parts.

    ``"sequential"`` solves it by a loop from the last step to the first, ``"parallel"`` by a scan that joins pairs of
    affine maps, with a depth of about log2 T steps and more work: :math:`K^3` in place of :math:`K^2` a step for a
    state of K numbers. Both are what automatic differentiation of ``-hs.log_prob`` gives, to rounding. From the
    gradients of the states those of the parameters follow without another pass through time:

    .. math::

        \frac{dL}{d\theta} = \sum_t \left[\left(\frac{\partial h_{t+1}}{\partial \theta}\right)^\top s_{t+1}
        - \nabla_\theta \log p(x_t \mid h_t; \theta)\right] + \left(\frac{\partial h_1}{\partial \theta}\right)^\top s_1

    This is a tool to look with: it keeps a matrix for every step, :math:`T K^2` numbers a sequence.

    >>> hs.inspect.gradients.through_time(model, data).gradients.shape  # doctest: +SKIP
    (10, 50, 16)
    """
    if method not in METHODS:
        raise HiddenStateError(f"method is {method!r}; it must be one of {', '.join(METHODS)}.")
    data, arrays = prepared_data(model, data)
    line = linearised(model, arrays)
    gradients = _solved(line.jacobians, line.direct, method)
    parameters = _parameter_gradient(model, arrays, line, gradients)
    return ThroughTime(
        states=blanked(line.vectors, data.valid),
        jacobians=blanked(line.jacobians, data.valid),
        direct=blanked(line.direct, data.valid),
        gradients=blanked(gradients, data.valid),
        parameters=parameters,
    )


@partial(jax.jit, static_argnames="method")
def _solved(
    jacobians: Float[Array, "sequence time next state"], direct: Float[Array, "sequence time state"], method: str
) -> Float[Array, "sequence time state"]:
    backward = jnp.swapaxes(jacobians, -1, -2)
    return jax.vmap(_in_parallel if method == "parallel" else _in_sequence)(backward, direct)


def _in_sequence(
    matrices: Float[Array, "time state next"], direct: Float[Array, "time state"]
) -> Float[Array, "time state"]:
    def back(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        matrix, own = step
        gradient = matrix @ later + own
        return gradient, gradient

    return jax.lax.scan(back, jnp.zeros_like(direct[0]), (matrices, direct), reverse=True)[1]


def _in_parallel(
    matrices: Float[Array, "time state next"], direct: Float[Array, "time state"]
) -> Float[Array, "time state"]:
    def join(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        later_matrix, later_direct = later
        matrix, own = earlier
        return matrix @ later_matrix, (matrix @ later_direct[..., None])[..., 0] + own

    return jax.lax.associative_scan(join, (matrices, direct), reverse=True)[1]


@eqx.filter_jit
def _parameter_gradient(
    model: SequenceModel, arrays: Arrays, line: Linearised, gradients: Float[Array, "sequence time state"]
) -> Any:
    """The gradient of the loss by the formula of `through_time`: states and their gradients are given numbers in it."""
    learned, rest = partition(model)
    later = jnp.concatenate([gradients[:, 1:], jnp.zeros_like(gradients[:, :1])], axis=1)

    def said(learned: Any) -> Float[Array, ""]:
        model = eqx.combine(learned, rest)

        def step(state: Any, element: Any, x: Any, u: Any, later: Array, counts: Array) -> Array:
            moved = vector_of(model.step(state, element)) @ later
            return moved - jnp.where(counts, step_log_prob(model, state, element, x, u), 0)

        def sequence(states: Any, steps: Any, first: Array, later: Array, counts: Array) -> Array:
            elements = prepared(model, steps)
            each = jax.vmap(step)(states, elements, steps.values, steps.inputs, later, counts)
            return vector_of(model.initial()) @ first + each.sum()

        return jax.vmap(sequence)(line.states, steps_of(arrays), gradients[:, 0], later, scored(arrays)).sum()

    return jax.grad(said)(learned)
