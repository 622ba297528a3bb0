"""A recurrent cell with skip connections in time."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import named_nonlinearity, weights, whole
from hiddenstate.core import HiddenStateError, dtype_of, register
from hiddenstate.native.streaming import StreamedLayer, supported
from hiddenstate.ops.nonlinearities import nonlinearity
from hiddenstate.ops.projection import project


@register("skip")
class SkipInTime(Cell):
    r"""Adds state from some steps back (Tripp 2023, "skip connections in time"; Lin et al. 1996).

    .. math::

        h_{t+1} = \phi\Big(\sum_{l \in \mathrm{lags}} W_l\, h_{t+1-l} + B x_t + b\Big), \qquad
        h_t = 0 \text{ for } t \le 1

    The state holds the last ``max(lags)`` vectors, the newest first; the output is the newest. The matrices
    lie side by side in one weight :math:`[W_{l_1} \ldots W_{l_n}]` and are initialised as one, so that the
    sum starts with the gain of a single matrix. ``lags=(1,)`` is `Vanilla`.
    """

    recurrent_weight: Float[Array, "hidden lags_hidden"]
    input_weight: Float[Array, "hidden input"]
    bias: Float[Array, " hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    lags: tuple[int, ...] = eqx.field(static=True)
    nonlinearity: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        lags: Sequence[int] = (1, 4, 16),
        nonlinearity: str = "tanh",
        recurrent_init: str | Initialiser = "orthogonal",
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.lags = _lags(lags)
        self.nonlinearity = named_nonlinearity(nonlinearity)
        recurrent_key, input_key = jr.split(key)
        shape = (hidden_size, len(self.lags) * hidden_size)
        self.recurrent_weight = weights("recurrent_init", recurrent_init, recurrent_key, shape)
        self.input_weight = weights("input_init", input_init, input_key, (hidden_size, input_size))
        self.bias = jnp.zeros(hidden_size)

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        parts = self.hidden_size, self.input_weight, self.bias, self.recurrent_weight
        return (StreamedLayer("skip", *parts, nonlinearity=supported(self.nonlinearity), lags=self.lags),)

    def initial(self) -> Float[Array, "longest hidden"]:
        """Zeros for every step before the first."""
        return jnp.zeros((max(self.lags), self.hidden_size), dtype_of(self))

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " hidden"]:
        """B x + b."""
        return project(self.input_weight, x) + self.bias

    def step(
        self, state: Float[Array, "longest hidden"], element: Float[Array, " hidden"]
    ) -> Float[Array, "longest hidden"]:
        """The newest vector is phi(sum of W_l h_{t+1-l} + element); the oldest is dropped."""
        earlier = jnp.concatenate([state[lag - 1] for lag in self.lags])
        newest = nonlinearity(self.nonlinearity)(self.recurrent_weight @ earlier + element)
        return jnp.concatenate([newest[None], state[:-1]])

    def output(self, state: Float[Array, "longest hidden"]) -> Float[Array, " hidden"]:
        """The newest vector."""
        return state[0]


def _lags(lags: Sequence[int]) -> tuple[int, ...]:
    if len(lags) == 0 or len(set(lags)) != len(lags):
        raise HiddenStateError(f"lags is {lags!r}; it must hold at least one lag, and each lag once.")
    return tuple(whole("a lag in lags", lag) for lag in lags)
