"""Symbols."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import HiddenStateError, dtype_of, register
from hiddenstate.heads.head import Head
from hiddenstate.native.streaming import StreamedHead


@register("categorical-head")
class Categorical(Head):
    r"""One of the symbols 0 .. symbols - 1: :math:`p(x) = \mathrm{softmax}(W h + b)_x`; encoded one-hot."""

    symbols: int = eqx.field(static=True)

    def __init__(self, hidden_size: int, symbols: int, *, key: PRNGKeyArray):
        if symbols < 1:
            raise HiddenStateError(f"symbols is {symbols}; a Categorical head needs at least 1.")
        self.symbols = symbols
        self._initialise(hidden_size, key)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One symbol."""
        return ()

    @property
    def parameter_count(self) -> int:
        """One logit a symbol."""
        return self.symbols

    @property
    def encoded_size(self) -> int:
        """One entry a symbol."""
        return self.symbols

    @property
    def streamed(self) -> StreamedHead:
        """What a compiled stream takes of it."""
        return StreamedHead("categorical", "symbol", self.event_shape, *self.whole_linear, reading="symbol")

    def distribution(self, parameters: Float[Array, " symbol"]) -> dist.Distribution:
        """The categorical distribution with these logits."""
        return dist.CategoricalLogits(parameters, validate_args=False)

    def encode(self, x: Num[Array, ""]) -> Float[Array, " symbol"]:
        """One-hot."""
        return jax.nn.one_hot(jnp.asarray(x, jnp.int32), self.symbols, dtype=dtype_of(self))
