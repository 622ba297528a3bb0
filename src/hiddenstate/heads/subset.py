"""Bits of which few are on: a chord, the words of a line, what is in a basket."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import dtype_of, register
from hiddenstate.distributions import SubsetDistribution
from hiddenstate.heads.head import Head, checked_count
from hiddenstate.ops.initialisers import glorot


@register("subset-head")
class Subset(Head):
    r"""Bits that depend on each other given the state, told as the set of those that are on.

    .. math::

        p(d_k = d \mid d_{<k}, h) \propto \exp\Bigl(b_d(h) + v_d \cdot \tanh\bigl(c(h) + \sum_{j<k} w_{d_j}\bigr)\Bigr)
        \quad (d > d_{k-1} \text{ or } d \text{ the end})

    with :math:`d_1 < d_2 < \ldots` the places of the ones, the end behind the last, b and c linear in the state, and
    `units` hidden units. As `NADE` it is a chain of conditionals, exact and normalised, but it asks only "which is the
    next one that is on?": where few of many bits are on this is much less work, and one softmax learns what a
    hundred logistic answers have to agree on. A vector with more than `most` ones has probability zero; by default
    all bits may be on.
    """

    reading: Float[Array, "bits units"]
    writing: Float[Array, "end units"]
    most: int = eqx.field(static=True)

    def __init__(self, hidden_size: int, bits: int, units: int = 64, most: int | None = None, *, key: PRNGKeyArray):
        for name, size in (
            ("hidden_size", hidden_size),
            ("bits", bits),
            ("units", units),
            ("most", bits if most is None else most),
        ):
            checked_count(size, name, "Subset")
        linear_key, reading_key, writing_key = jr.split(key, 3)
        self.reading = glorot(reading_key, (bits, units))
        self.writing = glorot(writing_key, (bits + 1, units))
        self.most = bits if most is None else min(most, bits)
        self._initialise(hidden_size, linear_key)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """A vector of bits."""
        return (self.reading.shape[0],)

    @property
    def parameter_count(self) -> int:
        """A logit for each bit and for the end, and an offset for each unit."""
        return self.writing.shape[0] + self.writing.shape[1]

    @property
    def encoded_size(self) -> int:
        """One entry a bit."""
        return self.reading.shape[0]

    def distribution(self, parameters: Float[Array, " parameter"]) -> Distribution:
        """The chain of members with these logits and offsets."""
        logits, offsets = parameters[: len(self.writing)], parameters[len(self.writing) :]
        return SubsetDistribution(logits, offsets, self.reading, self.writing, self.most, validate_args=False)

    def encode(self, x: Num[Array, " bits"]) -> Float[Array, " bits"]:
        """The bits as floats."""
        return jnp.asarray(x, dtype_of(self))
