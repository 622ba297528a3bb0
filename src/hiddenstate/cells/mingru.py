"""The minimal gated recurrent unit: gates that see the input only."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Initialiser, PRNGKeyArray
from hiddenstate.cells.checks import number, weights, whole
from hiddenstate.cells.minimal import Minimal
from hiddenstate.core import register
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops.projection import project


@register("mingru")
class MinGRU(Minimal):
    r"""The minimal GRU, which runs as a parallel scan (Feng et al. 2024).

    .. math::

        k &= B_z x_t + b_z, \qquad z = \sigma(k) \\
        c &= B_c x_t + b_c \\
        h_{t+1} &= (1 - z) \odot h_t + z \odot c

    :math:`z` says what is new (in `GRU` it says what is kept), and :math:`1 - z` is computed as
    :math:`\sigma(-k)`.

    With ``log_space=True`` the candidate is :math:`g(c)`, where :math:`g(a) = a + 1/2` for :math:`a \ge 0`
    and :math:`\sigma(a)` below: states are then never negative, and steps are joined by their logarithms
    (Feng et al. 2024, appendix B). The state itself stays in plain space, so that it may start at zero, with
    finite gradients.

    The weights of z and c are stacked in this order; the gate's bias starts at `gate_bias`.
    """

    input_weight: Float[Array, "two_hidden input"]
    bias: Float[Array, " two_hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    log_space: bool = eqx.field(static=True)
    kernel: ClassVar[str] = "mingru"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        log_space: bool = False,
        gate_bias: float = 0.0,
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.log_space = log_space
        self.input_weight = weights("input_init", input_init, key, (hidden_size, input_size), gates=2)
        self.bias = jnp.zeros(2 * hidden_size).at[:hidden_size].set(number("gate_bias", gate_bias))

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        return (StreamedLayer(self.kernel, self.hidden_size, self.input_weight, self.bias, logarithms=self.log_space),)

    def gate_and_line(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        """The logit of z, and c before g."""
        logit, line = jnp.split(project(self.input_weight, x) + self.bias, 2)
        return logit, line
