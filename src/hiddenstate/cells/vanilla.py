"""The plain recurrent cell."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import how_many_biases, named_nonlinearity, weights, whole
from hiddenstate.cells.signs import (
    Currents,
    RecurrentWeight,
    Signs,
    currents_of,
    recurrent_weight,
    signs_told,
    weight_of,
)
from hiddenstate.core import register
from hiddenstate.native.reading import reading
from hiddenstate.native.streaming import StreamedLayer, supported
from hiddenstate.native.vanilla import NONLINEARITIES, vanilla
from hiddenstate.ops.nonlinearities import nonlinearity
from hiddenstate.ops.projection import project


@register("vanilla")
class Vanilla(Cell):
    r"""The "vanilla" recurrent cell, a linear-nonlinear update (Linderman's notes, Vanilla RNNs).

    .. math::

        h_{t+1} = \phi(W h_t + B x_t + b)

    :math:`\phi` is any named nonlinearity (`hiddenstate.ops.nonlinearities`): ``tanh`` by default; ``relu``
    goes well with ``recurrent_init="scaled_identity"`` (Le, Jaitly and Hinton 2015) or ``"kaiming"``;
    ``identity`` is the linear network whose gradients vanish or explode like the powers of :math:`W`.

    There is one bias, or as many as `biases` says: none, or two, which are added and both learned. Two make no
    richer model, but they are what torch has: a network that comes from there (`hs.from_torch`) goes back unchanged
    and learns on as it would there.

    With `signs` each unit is excitatory or inhibitory (Dale's law, in the reading of Linderman's notes, Theoretical
    Neuroscience): all weights that leave it, a column of :math:`W`, have its sign, however the network learns.
    ``signs=0.8`` makes four of five units excitatory, the first ones; a list of 1 and -1 says it of each.
    """

    recurrent_weight: RecurrentWeight
    input_weight: Float[Array, "hidden input"]
    bias: Float[Array, " hidden"] | None
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    nonlinearity: str = eqx.field(static=True)
    recurrent_bias: Float[Array, " hidden"] | None = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        nonlinearity: str = "tanh",
        biases: int = 1,
        recurrent_init: str | Initialiser = "orthogonal",
        input_init: str | Initialiser = "glorot",
        signs: Signs = None,
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.nonlinearity = named_nonlinearity(nonlinearity)
        recurrent_key, input_key = jr.split(key)
        drawn = weights("recurrent_init", recurrent_init, recurrent_key, (hidden_size, hidden_size))
        self.recurrent_weight = recurrent_weight(drawn, signs)
        self.input_weight = weights("input_init", input_init, input_key, (hidden_size, input_size))
        self.bias = jnp.zeros(hidden_size) if how_many_biases("biases", biases) > 0 else None
        self.recurrent_bias = jnp.zeros(hidden_size) if biases > 1 else None

    def options(self) -> dict[str, Any]:
        """Those of its form."""
        biases = sum(b is not None for b in (self.bias, self.recurrent_bias))
        return {**super().options(), "biases": biases, **signs_told(self.recurrent_weight)}

    @property
    def dynamics_weight(self) -> Float[Array, "hidden hidden"]:
        """W, with the signs that it is bound to."""
        return weight_of(self.recurrent_weight)

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        biases = [bias for bias in (self.bias, self.recurrent_bias) if bias is not None]
        return (
            StreamedLayer(
                "vanilla",
                self.hidden_size,
                self.input_weight,
                sum(biases) if biases else None,
                self.dynamics_weight,
                nonlinearity=supported(self.nonlinearity),
            ),
        )

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " hidden"]:
        """B x + b."""
        element = project(self.input_weight, x)
        for bias in (self.bias, self.recurrent_bias):
            element = element if bias is None else element + bias
        return element

    def step(self, state: Float[Array, " hidden"], element: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """phi(W h + element)."""
        return nonlinearity(self.nonlinearity)(self.dynamics_weight @ state + element)

    @property
    def run_natively(self) -> Callable[..., tuple[Array, Array]]:
        """The kernel; AttributeError where it does not know the nonlinearity."""
        if self.nonlinearity not in NONLINEARITIES:
            raise AttributeError(f"there is no kernel for the nonlinearity {self.nonlinearity!r}.")
        return lambda *run: vanilla(self.nonlinearity, self.dynamics_weight, None, *run)

    @property
    def read_natively(self) -> Callable[..., tuple[Array, Array]]:
        """The same from the inputs: the kernel multiplies them by their weights itself."""
        kernel, biases = self.run_natively, (self.bias, self.recurrent_bias)
        return lambda state, xs, us, valid: kernel(state, reading(self.input_weight, xs, *biases), valid)

    def currents(self, state: Float[Array, " hidden"], element: Float[Array, " hidden"]) -> Currents:
        """The parts of W h + element: what excites, what inhibits, and what comes from outside."""
        return currents_of(self.dynamics_weight, state, element)
