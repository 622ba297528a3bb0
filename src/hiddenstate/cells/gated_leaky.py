"""The gated leaky cell: a time constant that the context controls."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import number, one_of, weights, whole
from hiddenstate.core import register
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops.linear_recurrence import Decay, LinearStep, apply, join, run_natively
from hiddenstate.ops.projection import project


class Pending(NamedTuple):
    """A step whose gate still waits for the state."""

    logit: Array
    drive: Array


@register("gated-leaky")
class GatedLeaky(Cell):
    r"""A gated recurrent connection: retained while the gate is open, discarded when it closes (Tripp 2023).

    .. math::

        s_{t+1} = \sigma(c_t) \odot s_t + B x_t + b, \qquad
        c_t = C x_t + d \quad\text{or}\quad c_t = C x_t + U s_t + d

    With ``context="input"`` the gate depends on the observation alone: the update is affine in the state, and
    the cell has `combine`. With ``context="state"`` the gate also reads the state, and the cell has none. The
    gate's bias :math:`d` starts at `gate_bias`, positive by default, so that at first the state is retained.
    """

    gate_weight: Float[Array, "hidden input"]
    gate_bias: Float[Array, " hidden"]
    recurrent_weight: Float[Array, "hidden hidden"] | None
    input_weight: Float[Array, "hidden input"]
    bias: Float[Array, " hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    context: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        context: str = "input",
        gate_bias: float = 2.0,
        recurrent_init: str | Initialiser = "orthogonal",
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.context = one_of("context", context, ("input", "state"))
        gate_key, recurrent_key, input_key = jr.split(key, 3)
        self.gate_weight = weights("input_init", input_init, gate_key, (hidden_size, input_size))
        self.gate_bias = jnp.full(hidden_size, number("gate_bias", gate_bias))
        self.recurrent_weight = (
            weights("recurrent_init", recurrent_init, recurrent_key, (hidden_size, hidden_size))
            if context == "state"
            else None
        )
        self.input_weight = weights("input_init", input_init, input_key, (hidden_size, input_size))
        self.bias = jnp.zeros(hidden_size)

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Decay | Pending:
        """The gate and B x + b; where the gate also reads the state, what is known of its logit."""
        logit = project(self.gate_weight, x) + self.gate_bias
        drive = project(self.input_weight, x) + self.bias
        return Decay(jax.nn.log_sigmoid(logit), drive) if self.recurrent_weight is None else Pending(logit, drive)

    def step(self, state: Float[Array, " hidden"], element: Decay | Pending) -> Float[Array, " hidden"]:
        """sigmoid(c) s + B x + b."""
        return apply(state, Decay(self._log_gate(state, element), element[1]))

    def keep(self, state: Float[Array, " hidden"], element: Decay | Pending) -> Float[Array, " hidden"]:
        """sigmoid(c)."""
        return jnp.exp(self._log_gate(state, element))

    def _log_gate(self, state: Float[Array, " hidden"], element: Decay | Pending) -> Float[Array, " hidden"]:
        if self.recurrent_weight is None:
            return element[0]
        return jax.nn.log_sigmoid(element[0] + self.recurrent_weight @ state)

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        weight = jnp.concatenate([self.gate_weight, self.input_weight])
        bias, recurrent = jnp.concatenate([self.gate_bias, self.bias]), self.recurrent_weight
        if recurrent is not None:  # which the gate alone reads
            recurrent = jnp.concatenate([recurrent, jnp.zeros_like(recurrent)])
        return (StreamedLayer("gated", self.hidden_size, weight, bias, recurrent),)

    @property
    def combine(self) -> Callable[[LinearStep, LinearStep], LinearStep]:
        """Two steps as one; AttributeError where the gate reads the state: such a cell has no `combine`."""
        if self.recurrent_weight is not None:
            raise AttributeError("GatedLeaky with context='state' has no `combine`.")
        return join

    @property
    def run_natively(self) -> Callable[..., tuple[Array, Array]]:
        """The kernel of affine steps; AttributeError where the gate reads the state."""
        if self.recurrent_weight is not None:
            raise AttributeError("GatedLeaky with context='state' has no kernel.")
        return run_natively
