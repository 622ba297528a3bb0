"""The gated recurrent unit."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray, Shaped
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import how_many_biases, one_of, weights, whole
from hiddenstate.core import dtype_of, register
from hiddenstate.native.gru import gru
from hiddenstate.native.reading import reading
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops.projection import project


@register("gru")
class GRU(Cell):
    r"""The gated recurrent unit (Cho et al. 2014).

    .. math::

        r &= \sigma(W_r h_t + B_r x_t + b_r) \\
        z &= \sigma(W_z h_t + B_z x_t + b_z) \\
        n &= \tanh(r \odot (W_n h_t + b'_n) + B_n x_t + b_n) & \text{reset="after"} \\
        n &= \tanh(W_n (r \odot h_t) + B_n x_t + b_n) & \text{reset="before"} \\
        h_{t+1} &= (1 - z) \odot n + z \odot h_t

    ``reset="after"`` is the form of cuDNN and of ``torch.nn.GRU``, which needs a recurrent bias :math:`b'_n`
    of its own (`candidate_bias`); ``reset="before"`` is that of Cho et al. The weights of r, z and n are
    stacked in this order, as in torch. Here :math:`z` says what is kept, as in Cho et al. and torch; `MinGRU` swaps its
    role: its :math:`z` says what is new.

    There is one bias (and the candidate's own), or as many as `biases` says: with 0 there are none, the candidate's
    among them; with 2, r and z have a second one, which is added and learned too, as in torch (see `Vanilla`).
    """

    recurrent_weight: Float[Array, "three_hidden hidden"]
    input_weight: Float[Array, "three_hidden input"]
    bias: Float[Array, " three_hidden"] | None
    candidate_bias: Float[Array, " hidden"] | None
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    reset: str = eqx.field(static=True)
    recurrent_bias: Float[Array, " two_hidden"] | None = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        reset: str = "after",
        biases: int = 1,
        recurrent_init: str | Initialiser = "orthogonal",
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.reset = one_of("reset", reset, ("after", "before"))
        recurrent_key, input_key = jr.split(key)
        square = (hidden_size, hidden_size)
        self.recurrent_weight = weights("recurrent_init", recurrent_init, recurrent_key, square, gates=3)
        self.input_weight = weights("input_init", input_init, input_key, (hidden_size, input_size), gates=3)
        self.bias = jnp.zeros(3 * hidden_size) if how_many_biases("biases", biases) > 0 else None
        self.candidate_bias = jnp.zeros(hidden_size) if reset == "after" and biases > 0 else None
        self.recurrent_bias = jnp.zeros(2 * hidden_size) if biases > 1 else None

    def options(self) -> dict[str, Any]:
        """Those of its form."""
        return {**super().options(), "biases": sum(b is not None for b in (self.bias, self.recurrent_bias))}

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        bias, n = jnp.zeros(3 * self.hidden_size, dtype_of(self)), self.hidden_size
        own = bias if self.candidate_bias is None else bias.at[2 * n :].set(self.candidate_bias)
        if self.bias is not None:
            bias = bias + self.bias
        if self.recurrent_bias is not None:
            bias = bias.at[: 2 * n].add(self.recurrent_bias)
        if self.reset == "before":
            return (StreamedLayer("gru-before", n, self.input_weight, bias, self.recurrent_weight),)
        return (StreamedLayer("gru", n, self.input_weight, bias, self.recurrent_weight, own.reshape(3, n)),)

    def prepare(
        self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None
    ) -> Float[Array, " three_hidden"]:
        """B x + b of r, z and n."""
        element = project(self.input_weight, x)
        if self.bias is not None:
            element = element + self.bias
        if self.recurrent_bias is not None:
            element = element + jnp.pad(self.recurrent_bias, (0, self.hidden_size))
        return element

    def step(self, state: Float[Array, " hidden"], element: Float[Array, " three_hidden"]) -> Float[Array, " hidden"]:
        """(1 - z) n + z h."""
        h = state
        input_r, input_z, input_n = jnp.split(element, 3)
        if self.reset == "before":
            gates, candidate = jnp.split(self.recurrent_weight, [2 * self.hidden_size])
            recurrent_r, recurrent_z = jnp.split(gates @ h, 2)
            recurrent_n = candidate @ (jax.nn.sigmoid(input_r + recurrent_r) * h)
        else:
            recurrent_r, recurrent_z, recurrent_n = jnp.split(self.recurrent_weight @ h, 3)
            if self.candidate_bias is not None:
                recurrent_n = recurrent_n + self.candidate_bias
            recurrent_n = jax.nn.sigmoid(input_r + recurrent_r) * recurrent_n
        z = jax.nn.sigmoid(input_z + recurrent_z)
        n = jnp.tanh(input_n + recurrent_n)
        return (1 - z) * n + z * h

    def run_natively(
        self,
        state: Float[Array, " hidden"],
        elements: Float[Array, "time three_hidden"],
        valid: Shaped[Array, " time"] | None,
    ) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
        """All states of one sequence, and the last."""
        return gru(self.reset, self.recurrent_weight, self.candidate_bias, state, elements, valid)

    def read_natively(
        self,
        state: Float[Array, " hidden"],
        xs: Float[Array, "time input"],
        us: None,
        valid: Shaped[Array, " time"] | None,
    ) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
        """The same from the inputs: the kernel multiplies them by their weights itself."""
        del us
        second = None if self.recurrent_bias is None else jnp.pad(self.recurrent_bias, (0, self.hidden_size))
        outside = reading(self.input_weight, xs, self.bias, second)
        return gru(self.reset, self.recurrent_weight, self.candidate_bias, state, outside, valid)

    def keep(self, state: Float[Array, " hidden"], element: Float[Array, " three_hidden"]) -> Float[Array, " hidden"]:
        """z."""
        rows = slice(self.hidden_size, 2 * self.hidden_size)
        return jax.nn.sigmoid(element[rows] + self.recurrent_weight[rows] @ state)
