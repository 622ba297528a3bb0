"""The minimal LSTM: gates that see the input only, normalised to sum to one."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Initialiser, PRNGKeyArray
from hiddenstate.cells.checks import number, weights, whole
from hiddenstate.cells.minimal import Minimal
from hiddenstate.core import register
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops.projection import project


@register("minlstm")
class MinLSTM(Minimal):
    r"""The minimal LSTM, which runs as a parallel scan (Feng et al. 2024).

    .. math::

        f &= \sigma(B_f x_t + b_f), \qquad i = \sigma(B_i x_t + b_i), \qquad c = B_c x_t + b_c \\
        f' &= \frac{f}{f + i}, \qquad i' = \frac{i}{f + i} \\
        h_{t+1} &= f' \odot h_t + i' \odot c

    Because :math:`i' = \sigma(\log i - \log f)` and :math:`f' = 1 - i'`, this is a `MinGRU` whose gate has
    that logit; computed so, nothing is divided and two closed gates cannot give 0/0. ``log_space=True`` is as
    in `MinGRU`: a positive candidate :math:`g(c)`, states never negative, steps joined by their logarithms.

    The weights of f, i and c are stacked in this order; the forget gate's bias starts at `forget_bias`.
    """

    input_weight: Float[Array, "three_hidden input"]
    bias: Float[Array, " three_hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    log_space: bool = eqx.field(static=True)
    kernel: ClassVar[str] = "minlstm"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        log_space: bool = False,
        forget_bias: float = 1.0,
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.log_space = log_space
        self.input_weight = weights("input_init", input_init, key, (hidden_size, input_size), gates=3)
        self.bias = jnp.zeros(3 * hidden_size).at[:hidden_size].set(number("forget_bias", forget_bias))

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        return (StreamedLayer(self.kernel, self.hidden_size, self.input_weight, self.bias, logarithms=self.log_space),)

    def gate_and_line(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        """The logit of i', and c before g."""
        f, i, line = jnp.split(project(self.input_weight, x) + self.bias, 3)
        return jax.nn.log_sigmoid(i) - jax.nn.log_sigmoid(f), line
