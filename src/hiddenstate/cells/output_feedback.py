"""A recurrent cell that hears of the past only through its output."""

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import named_nonlinearity, weights, whole
from hiddenstate.core import AssociativeRecurrence, register
from hiddenstate.ops.nonlinearities import nonlinearity
from hiddenstate.ops.projection import project


@register("output-feedback")
class OutputFeedback(Cell, AssociativeRecurrence):
    r"""Feedback only through the output (Tripp 2023): no connection from state to state.

    .. math::

        h_{t+1} = \phi(B x_t + b)

    The network's output at :math:`t` is its prediction of :math:`x_t`. Where that is drawn from the model, as
    in sampling and forecasting, :math:`x_t` is what the network said itself; under teacher forcing, as in
    scoring and training, it is the right answer. Either way the next state knows of the past what :math:`x_t`
    tells, and nothing else: it is a model of order one, less powerful than one with state. In return, under
    teacher forcing, all steps are computed at once, with nothing that one of them waits for (`state_after`);
    the recurrence is trivially associative, the later step overwrites the earlier.
    """

    input_weight: Float[Array, "hidden input"]
    bias: Float[Array, " hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    nonlinearity: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        nonlinearity: str = "tanh",
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.nonlinearity = named_nonlinearity(nonlinearity)
        self.input_weight = weights("input_init", input_init, key, (hidden_size, input_size))
        self.bias = jnp.zeros(hidden_size)

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " hidden"]:
        """phi(B x + b): the whole update."""
        return nonlinearity(self.nonlinearity)(project(self.input_weight, x) + self.bias)

    def step(self, state: Float[Array, " hidden"], element: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """The element, whatever the state was."""
        del state
        return element

    def combine(self, earlier: Float[Array, " hidden"], later: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """The later element."""
        del earlier
        return later

    def state_after(self, element: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """The element: no step waits for the one before."""
        return element
