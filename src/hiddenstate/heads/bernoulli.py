"""Bits."""

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import logit

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import dtype_of, register
from hiddenstate.heads.head import Head, checked_size, shape_of
from hiddenstate.native.streaming import StreamedHead


@register("bernoulli-head")
class Bernoulli(Head):
    r"""Bits that are independent given the state: :math:`p(x_i = 1) = \sigma(W h + b)_i`; encoded as is.

    `bits` is the length of an observation, or None where an observation is a single bit.
    """

    bits: int | None = eqx.field(static=True)

    def __init__(self, hidden_size: int, bits: int | None, *, key: PRNGKeyArray):
        self.bits = checked_size(bits, "bits", "Bernoulli")
        self._initialise(hidden_size, key)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One bit, or a vector of bits."""
        return shape_of(self.bits)

    @property
    def parameter_count(self) -> int:
        """One logit a bit."""
        return self.bits or 1

    @property
    def encoded_size(self) -> int:
        """One entry a bit."""
        return self.bits or 1

    @property
    def streamed(self) -> StreamedHead:
        """What a compiled stream takes of it."""
        return StreamedHead("bernoulli", "bit", self.event_shape, *self.whole_linear)

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """Independent bits with these logits."""
        logits = parameters.reshape(self.event_shape)
        return dist.BernoulliLogits(logits, validate_args=False).to_event(len(self.event_shape))

    def encode(self, x: Num[Array, "*event"]) -> Float[Array, " encoded"]:
        """The bits as floats."""
        return jnp.reshape(jnp.asarray(x, dtype_of(self)), self.encoded_size)

    def around(self, code: Float[Array, " encoded"]) -> Float[Array, " parameter"]:
        """The logits of these probabilities, none of which is taken for certain."""
        return logit(jnp.clip(code, 0.01, 0.99))
