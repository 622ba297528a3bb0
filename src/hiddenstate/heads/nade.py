"""Bits that depend on each other."""

import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import dtype_of, register
from hiddenstate.distributions import NADEDistribution
from hiddenstate.heads.head import Head, checked_count
from hiddenstate.ops.initialisers import glorot


@register("nade-head")
class NADE(Head):
    r"""Bits that depend on each other given the state: each is predicted from the state and from the bits before it.

    .. math::

        \operatorname{logit} p(x_d = 1 \mid x_{<d}, h)
        = b_d(h) + v_d^\top \sigma\Bigl(c(h) + \sum_{e < d} w_e x_e\Bigr)

    with b and c linear in the state, and `units` hidden units. Notes of a chord or cells that fire together have no
    chance under a Bernoulli head, which takes them as independent. The log-probability is exact and costs
    bits times units a step; a draw goes through the bits one after the other. With a recurrent network this is the
    RNN-NADE of Boulanger-Lewandowski, Bengio and Vincent (2012).
    """

    reading: Float[Array, "bits units"]
    writing: Float[Array, "bits units"]

    def __init__(self, hidden_size: int, bits: int, units: int = 64, *, key: PRNGKeyArray):
        for name, size in (("hidden_size", hidden_size), ("bits", bits), ("units", units)):
            checked_count(size, name, "NADE")
        linear_key, reading_key, writing_key = jr.split(key, 3)
        self.reading = glorot(reading_key, (bits, units))
        self.writing = glorot(writing_key, (bits, units))
        self._initialise(hidden_size, linear_key)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """A vector of bits."""
        return (self.reading.shape[0],)

    @property
    def parameter_count(self) -> int:
        """A logit for each bit and an offset for each unit."""
        return sum(self.reading.shape)

    @property
    def encoded_size(self) -> int:
        """One entry a bit."""
        return self.reading.shape[0]

    def distribution(self, parameters: Float[Array, " parameter"]) -> Distribution:
        """The chain of bits with these logits and offsets."""
        bits = self.encoded_size
        return NADEDistribution(parameters[:bits], parameters[bits:], self.reading, self.writing, validate_args=False)

    def encode(self, x: Num[Array, " bits"]) -> Float[Array, " bits"]:
        """The bits as floats."""
        return jnp.asarray(x, dtype_of(self))
