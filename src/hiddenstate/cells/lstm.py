"""Long short-term memory."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray, Shaped
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import how_many_biases, number, one_of, weights, whole
from hiddenstate.core import dtype_of, register
from hiddenstate.native.lstm import lstm
from hiddenstate.native.reading import reading
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops.projection import project


@register("lstm-state")
class LSTMState(NamedTuple):
    """The internal state `c`, which the gates protect, and the hidden state `h`, which they let out."""

    c: Array
    h: Array


@register("lstm")
class LSTM(Cell):
    r"""Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000).

    .. math::

        i &= \sigma(W_i h_t + B_i x_t + b_i + p_i \odot c_t) \\
        f &= \sigma(W_f h_t + B_f x_t + b_f + p_f \odot c_t) \\
        g &= \phi(W_g h_t + B_g x_t + b_g) \\
        c_{t+1} &= f \odot c_t + i \odot g \\
        o &= \sigma(W_o h_t + B_o x_t + b_o + p_o \odot c_{t+1}) \\
        h_{t+1} &= o \odot \tanh(c_{t+1})

    :math:`\phi` is tanh, as usual, or with ``input="sigmoid"`` the logistic function of Linderman's notes, whose
    internal states are then never negative (the letters i and g are swapped there). The notes let the state
    at t see x up to t-1, which is this library's convention: its index t is t+1 here. ``peepholes=True`` lets
    the gates see the internal state (Tripp 2023, "sometimes states are included as well"; Gers et al. 2002), by
    weights :math:`p` that start at zero; without, there are none. The forget gate's bias starts at
    `forget_bias`, 1 by default (Jozefowicz et al. 2015). The weights of i, f, g and o are stacked in this
    order, as in torch.

    There is one bias for each of them, or as many as `biases` says: none, or two, which are added and both learned, as
    in torch (see `Vanilla`); the second starts at zero.
    """

    recurrent_weight: Float[Array, "four_hidden hidden"]
    input_weight: Float[Array, "four_hidden input"]
    bias: Float[Array, " four_hidden"] | None
    peephole: Float[Array, "3 hidden"] | None
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    input: str = eqx.field(static=True)
    recurrent_bias: Float[Array, " four_hidden"] | None = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        input: str = "tanh",
        peepholes: bool = False,
        forget_bias: float = 1.0,
        biases: int = 1,
        recurrent_init: str | Initialiser = "orthogonal",
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.input = one_of("input", input, ("tanh", "sigmoid"))
        recurrent_key, input_key = jr.split(key)
        square = (hidden_size, hidden_size)
        self.recurrent_weight = weights("recurrent_init", recurrent_init, recurrent_key, square, gates=4)
        self.input_weight = weights("input_init", input_init, input_key, (hidden_size, input_size), gates=4)
        forget = slice(hidden_size, 2 * hidden_size)
        bias = jnp.zeros(4 * hidden_size).at[forget].set(number("forget_bias", forget_bias))
        self.bias = bias if how_many_biases("biases", biases) > 0 else None
        self.recurrent_bias = jnp.zeros(4 * hidden_size) if biases > 1 else None
        self.peephole = jnp.zeros((3, hidden_size)) if peepholes else None

    def options(self) -> dict[str, Any]:
        """Those of its form."""
        return {
            **super().options(),
            "biases": sum(b is not None for b in (self.bias, self.recurrent_bias)),
            "peepholes": self.peephole is not None,
        }

    def initial(self) -> LSTMState:
        """Zeros for both."""
        zeros = jnp.zeros(self.hidden_size, dtype_of(self))
        return LSTMState(zeros, zeros)

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        biases = [bias for bias in (self.bias, self.recurrent_bias) if bias is not None]
        bias = sum(biases) if biases else None
        weights = self.input_weight, bias, self.recurrent_weight, self.peephole
        return (StreamedLayer("lstm", self.hidden_size, *weights, nonlinearity=self.input),)

    def prepare(
        self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None
    ) -> Float[Array, " four_hidden"]:
        """B x + b of i, f, g and o."""
        element = project(self.input_weight, x)
        for bias in (self.bias, self.recurrent_bias):
            element = element if bias is None else element + bias
        return element

    def step(self, state: LSTMState, element: Float[Array, " four_hidden"]) -> LSTMState:
        """(f c + i g, o tanh of that)."""
        c, h = state
        i, f, g, o = jnp.split(self.recurrent_weight @ h + element, 4)
        if self.peephole is not None:
            i, f = i + self.peephole[0] * c, f + self.peephole[1] * c
        g = jnp.tanh(g) if self.input == "tanh" else jax.nn.sigmoid(g)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * g
        if self.peephole is not None:
            o = o + self.peephole[2] * c
        return LSTMState(c, jax.nn.sigmoid(o) * jnp.tanh(c))

    def run_natively(
        self, state: LSTMState, elements: Float[Array, "time four_hidden"], valid: Shaped[Array, " time"] | None
    ) -> tuple[LSTMState, LSTMState]:
        """All states of one sequence, and the last."""
        states, final = lstm(self.input, self.recurrent_weight, self.peephole, state, elements, valid)
        return LSTMState(*states), LSTMState(*final)

    def read_natively(
        self, state: LSTMState, xs: Float[Array, "time input"], us: None, valid: Shaped[Array, " time"] | None
    ) -> tuple[LSTMState, LSTMState]:
        """The same from the inputs: the kernel multiplies them by their weights itself."""
        del us
        outside = reading(self.input_weight, xs, self.bias, self.recurrent_bias)
        states, final = lstm(self.input, self.recurrent_weight, self.peephole, state, outside, valid)
        return LSTMState(*states), LSTMState(*final)

    def keep(self, state: LSTMState, element: Float[Array, " four_hidden"]) -> Float[Array, " hidden"]:
        """f, which protects the internal state."""
        rows = slice(self.hidden_size, 2 * self.hidden_size)
        logit = element[rows] + self.recurrent_weight[rows] @ state.h
        return jax.nn.sigmoid(logit if self.peephole is None else logit + self.peephole[1] * state.c)

    def output(self, state: LSTMState) -> Float[Array, " hidden"]:
        """h."""
        return state.h
