"""The diagonal linear cell: each unit a decaying, perhaps turning, memory of its input."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import TimeConstants, time_constants, weights, whole
from hiddenstate.core import AssociativeRecurrence, HiddenStateError, dtype_of, register
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops.linear_recurrence import Affine, Decay, LinearStep, apply, join, run_natively


@register("linear")
class DiagonalLinear(Cell, AssociativeRecurrence):
    r"""Independent linear units, which run as a parallel scan (Martin and Cundy 2018; Orvieto et al. 2023).

    .. math::

        h_{t+1} = a \odot h_t + B x_t + b, \qquad
        a = e^{-e^{\nu}} \quad\text{or}\quad a = e^{-e^{\nu} + i\theta}

    A real unit has :math:`0 < a < 1`: it decays and never alternates in sign. With ``complex=True`` it also
    turns, by :math:`\theta` a step (:math:`\theta = \pi` alternates), and :math:`B`, :math:`b` are complex.
    Either way :math:`|a| < 1` whatever the parameters, so the cell is stable. It has the time constant
    :math:`\tau = e^{-\nu}` steps; `time_constants` says where these start, as in `Leaky`, and the angles
    start evenly spread over [0, `max_phase`], in an order shuffled against the time constants. The rows of
    :math:`B` start scaled by :math:`\sqrt{1 - |a|^2}`, so that white input gives slow and fast units the same
    variance (Orvieto et al. 2023).

    Parameters and state are real arrays: complex ones are held as a leading axis (real, imaginary), and the
    output is then the real parts followed by the imaginary ones, ``2 * hidden_size`` numbers.
    """

    log_rate: Float[Array, " hidden"]
    phase: Float[Array, " hidden"] | None
    input_weight: Float[Array, "*parts hidden input"]
    bias: Float[Array, "*parts hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        complex: bool = False,
        time_constants: TimeConstants = (1.0, 100.0),
        max_phase: float = math.pi,
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        if not 0 < max_phase <= math.pi:
            raise HiddenStateError(f"max_phase is {max_phase!r}; it must lie above 0 and at most at pi.")
        self.log_rate = _log_rate(time_constants, hidden_size)
        phase_key, input_key = jr.split(key)
        parts = (2,) if complex else ()
        scale = jnp.sqrt(-jnp.expm1(-2 * jnp.exp(self.log_rate)) / math.prod(parts))
        drawn = weights("input_init", input_init, input_key, (hidden_size, input_size), gates=math.prod(parts))
        self.phase = jr.permutation(phase_key, jnp.linspace(0.0, max_phase, hidden_size)) if complex else None
        self.input_weight = scale[:, None] * drawn.reshape(*parts, hidden_size, input_size)
        self.bias = jnp.zeros((*parts, hidden_size))

    def options(self) -> dict[str, Any]:
        """Those of its form."""
        return {**super().options(), "complex": self.phase is not None}

    @property
    def output_size(self) -> int:
        """`hidden_size`, or twice that where the units are complex."""
        return self.hidden_size if self.phase is None else 2 * self.hidden_size

    @property
    def time_constants(self) -> Float[Array, " hidden"]:
        """tau, in steps."""
        return jnp.exp(-self.log_rate)

    def initial(self) -> Float[Array, "*parts hidden"]:
        """Zeros."""
        return jnp.zeros(self.bias.shape, dtype_of(self))

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        weight, bias = self.input_weight.reshape(-1, self.input_size), self.bias.reshape(-1)
        own = -jnp.exp(self.log_rate)
        if self.phase is None:
            return (StreamedLayer("linear", self.hidden_size, weight, bias, own=own),)
        modulus = jnp.exp(own)
        factor = jnp.stack([modulus * jnp.cos(self.phase), modulus * jnp.sin(self.phase)])
        return (StreamedLayer("turning", self.hidden_size, weight, bias, own=factor),)

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Affine | Decay:
        """a and B x + b, complex where the units are."""
        rate = jnp.exp(self.log_rate)
        drive = self.input_weight @ x + self.bias
        if self.phase is None:
            return Decay(-rate, drive)
        modulus = jnp.exp(-rate)
        a = jax.lax.complex(modulus * jnp.cos(self.phase), modulus * jnp.sin(self.phase))
        return Affine(a, jax.lax.complex(drive[0], drive[1]))

    def step(self, state: Float[Array, "*parts hidden"], element: Affine | Decay) -> Float[Array, "*parts hidden"]:
        """a h + B x + b."""
        if self.phase is None:
            return apply(state, element)
        new = apply(jax.lax.complex(state[0], state[1]), element)
        return jnp.stack([new.real, new.imag])

    def keep(self, state: Float[Array, "*parts hidden"], element: Affine | Decay) -> Float[Array, " hidden"]:
        """|a|."""
        del state, element
        return jnp.exp(-jnp.exp(self.log_rate))

    def combine(self, earlier: LinearStep, later: LinearStep) -> LinearStep:
        """Two affine steps as one."""
        return join(earlier, later)

    @property
    def run_natively(self) -> Callable[..., tuple[Array, Array]]:
        """The kernel of affine steps; AttributeError where the units are complex."""
        if self.phase is not None:
            raise AttributeError("DiagonalLinear with complex units has no kernel.")
        return run_natively

    def output(self, state: Float[Array, "*parts hidden"]) -> Float[Array, " output"]:
        """The state, its real parts before its imaginary ones."""
        return state.reshape(-1)


def _log_rate(value: TimeConstants, hidden_size: int) -> Float[Array, " hidden"]:
    return -jnp.log(jnp.asarray(time_constants("time_constants", value, hidden_size)))
