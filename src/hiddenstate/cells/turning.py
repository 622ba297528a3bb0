"""A gated cell whose state moves by itself between resets: it turns, or flows as probabilities do."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Element, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import TimeConstants, number, one_of, periods, weights, whole
from hiddenstate.core import AssociativeRecurrence, dtype_of, register
from hiddenstate.ops.linear_recurrence import Decay, Turn, apply, join, mixture
from hiddenstate.ops.projection import project

STAY = 0.9
"""With which probability a unit of a stochastic transition keeps to itself at first."""


class Flow(NamedTuple):
    """One step ``h' = exp(log_keep) * A h + b``, where the matrix A is known to the cell."""

    log_keep: Float[Array, ""]
    b: Float[Array, " hidden"]


class Stretch(NamedTuple):
    """Any number of steps ``h' = matrix h + b``."""

    matrix: Float[Array, "hidden hidden"]
    b: Float[Array, " hidden"]


TurningElement: TypeAlias = Turn | Flow | Stretch | Decay


@register("turning")
class Turning(Cell, AssociativeRecurrence):
    r"""minGRU whose state has a transition of its own between resets, which still runs as a parallel scan.

    .. math::

        z &= \sigma(B_z x_t + b_z), \qquad c = B_c x_t + b_c \\
        h_{t+1} &= (1 - z) \odot (A h_t) + z \odot c

    The state of minGRU (Feng et al. 2024) is only copied where the gate is shut. The note that reads minGRU as a
    switching state space model says what this means: draws are independent, and there are no dynamics between them.
    Here the state moves by :math:`A`, which `between` chooses:

    - ``"rotation"``: each unit is a pair of numbers that turns by a learned angle a step, with one gate for the pair.
      Held as complex numbers, :math:`A` is diagonal, :math:`A = \mathrm{diag}(e^{i \theta})`, and so are joined steps.
      The angles start at :math:`2 \pi / p` for `periods` p, in steps, which are given as the time constants of `Leaky`
      are: by default from 2 to 100, evenly in the logarithm. The output is the real parts followed by the
      imaginary ones, ``2 * hidden_size`` numbers, as of a complex `DiagonalLinear`.
    - ``"stochastic"``: :math:`A = P^T` with a learned matrix P of rows that sum to one, and one gate for all units,
      as a belief moves along a Markov chain between two resets. Step by step a step costs a product of the matrix
      with a vector; joined steps are matrices, so that a parallel scan over T steps needs memory for
      ``T * hidden_size ** 2`` numbers. A unit keeps to itself with probability 0.9 at first.
    - ``"none"``: :math:`A = 1`, minGRU itself.

    No state outgrows its candidates: a turn keeps the length of each pair, and P the sum of the absolute values.

    The weights of z and c are stacked in this order, the imaginary parts of c last; the gate's bias starts at
    `gate_bias`.
    """

    input_weight: Float[Array, "rows input"]
    bias: Float[Array, " rows"]
    angle: Float[Array, " hidden"] | None
    transition_logits: Float[Array, "hidden hidden"] | None
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    between: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        between: str = "rotation",
        periods: TimeConstants = (2.0, 100.0),
        gate_bias: float = 0.0,
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.between = one_of("between", between, ("rotation", "stochastic", "none"))
        self.angle = _angles(periods, hidden_size) if between == "rotation" else None
        self.transition_logits = None
        if between == "stochastic":
            key, gate_key, transition_key = jr.split(key, 3)
            gate = weights("input_init", input_init, gate_key, (1, input_size))
            candidate = weights("input_init", input_init, key, (hidden_size, input_size))
            self.input_weight = jnp.concatenate([gate, candidate])
            self.transition_logits = _logits(hidden_size, transition_key)
        else:
            stacked = 2 if self.angle is None else 3
            self.input_weight = weights("input_init", input_init, key, (hidden_size, input_size), gates=stacked)
        self.bias = jnp.zeros(len(self.input_weight)).at[: self.gates].set(number("gate_bias", gate_bias))

    @property
    def gates(self) -> int:
        """How many gates there are: one for each unit, or one for all."""
        return 1 if self.between == "stochastic" else self.hidden_size

    @property
    def output_size(self) -> int:
        """`hidden_size`, or twice that where the units are pairs."""
        return self.hidden_size if self.angle is None else 2 * self.hidden_size

    @property
    def periods(self) -> Float[Array, " hidden"] | None:
        """How many steps a full turn of each unit takes, negative where it turns backwards; None where none turns."""
        return None if self.angle is None else 2 * math.pi / self.angle

    @property
    def transition(self) -> Float[Array, "hidden next"] | None:
        """P, by which a stochastic state moves; None for the others."""
        return None if self.transition_logits is None else jax.nn.softmax(self.transition_logits, axis=1)

    def initial(self) -> Float[Array, "*parts hidden"]:
        """Zeros."""
        parts = () if self.angle is None else (2,)
        return jnp.zeros((*parts, self.hidden_size), dtype_of(self))

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> TurningElement:
        """The gate and the candidate, as an affine step."""
        logit, candidate = jnp.split(project(self.input_weight, x) + self.bias, [self.gates])
        if self.angle is not None:
            real, imaginary = jnp.split(candidate, 2)
            step = mixture(logit, jax.lax.complex(real, imaginary))
            return Turn(step.log_a, self.angle, step.b)
        step = mixture(logit, candidate)
        return step if self.transition_logits is None else Flow(step.log_a[0], step.b)

    def step(self, state: Float[Array, "*parts hidden"], element: Element) -> Float[Array, "*parts hidden"]:
        """(1 - z) A h + z c."""
        match element:
            case Turn():
                new = apply(jax.lax.complex(state[0], state[1]), element)
                return jnp.stack([new.real, new.imag])
            case Flow(log_keep, b):
                return jnp.exp(log_keep) * (state @ self._moves()) + b
            case Stretch(matrix, b):
                return matrix @ state + b
            case _:
                return apply(state, element)

    def combine(self, earlier: Element, later: Element) -> Element:
        """Two affine steps, or stretches of them, as one."""
        if self.transition_logits is None:
            return join(earlier, later)
        first, second = self._widened(earlier), self._widened(later)
        return Stretch(second.matrix @ first.matrix, second.matrix @ first.b + second.b)

    @property
    def widen(self) -> Callable[[Element], Element]:
        """A step of a stochastic state with its matrix; other steps need none."""
        if self.transition_logits is None:
            raise AttributeError("steps of these units are joined in the form in which they are prepared")
        return self._widened

    def output(self, state: Float[Array, "*parts hidden"]) -> Float[Array, " output"]:
        """The state, its real parts before its imaginary ones."""
        return state.reshape(-1)

    def _widened(self, element: Flow | Stretch) -> Stretch:
        if isinstance(element, Stretch):
            return element
        return Stretch(jnp.exp(element.log_keep) * self._moves().T, element.b)

    def _moves(self) -> Any:
        return self.transition


def _angles(value: TimeConstants, hidden_size: int) -> Float[Array, " hidden"]:
    return 2 * math.pi / jnp.asarray(periods("periods", value, hidden_size))


def _logits(size: int, key: PRNGKeyArray) -> Float[Array, "size size"]:
    """Of rows that keep to themselves with probability `STAY`, and share the rest in a random way."""
    others = jnp.where(jnp.eye(size, dtype=bool), -jnp.inf, jr.normal(key, (size, size)))
    if size == 1:
        return jnp.zeros((1, 1))
    shared = jax.nn.log_softmax(others, axis=1) + math.log(1 - STAY)
    return jnp.where(jnp.eye(size, dtype=bool), math.log(STAY), shared)
