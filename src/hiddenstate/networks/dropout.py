"""Dropout, one mask for a whole sequence."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import HiddenStateError, Noise, register


@register("dropout")
class Dropout(Noise):
    """Entries set to zero with probability `rate` while learning, the others scaled up to keep the mean.

    A sequence keeps its mask from the first step to the last (Gal and Ghahramani 2016): with a new one at every step a
    recurrent network would forget.
    """

    rate: float = eqx.field(static=True)
    key: PRNGKeyArray | None

    def __init__(self, rate: float):
        self.rate = checked_rate("dropout", rate)
        self.key = None

    def with_key(self, key: PRNGKeyArray) -> "Dropout":
        """The same rate, with a key to draw the mask from."""
        return eqx.tree_at(lambda d: d.key, self, key, is_leaf=lambda node: node is None)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        """`x` as it is, or masked where there is a key."""
        if self.key is None or self.rate == 0:
            return x
        kept = jr.bernoulli(self.key, 1 - self.rate, x.shape)
        return jnp.where(kept, x / (1 - self.rate), 0.0).astype(x.dtype)


def checked_rate(name: str, rate: Any) -> float:
    """A share of entries to leave out, or an error that names the argument."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise HiddenStateError(f"{name} is {rate!r}; it must be a number from 0 to less than 1.")
    return float(rate)
