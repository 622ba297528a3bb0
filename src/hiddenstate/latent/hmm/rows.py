"""Rows of probabilities as unconstrained numbers: learned logits, with exact zeros that stay zeros."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Frozen, checks, register


@register("probability-rows")
class Rows(eqx.Module):
    """Probabilities along the last axis.

    `logits` are learned (or `Frozen`); where `allowed` is False the probability is exactly zero, whatever is learned,
    and gradients are zero too.
    """

    logits: Float[Array, "*row entry"] | Frozen
    allowed: Shaped[Array, "*row entry"]

    @classmethod
    def of(cls, probs: Any, name: str, shape: tuple[int | None, ...]) -> "Rows":
        """From probabilities that a person wrote down; inside `Frozen` they are held fixed."""
        fixed = isinstance(probs, Frozen)
        array = checks.probabilities(probs.value if isinstance(probs, Frozen) else probs, name, shape)
        allowed = array > 0
        logits = jnp.asarray(np.log(np.where(allowed, array, 1.0)))
        return cls(Frozen(logits) if fixed else logits, jnp.asarray(allowed))

    @property
    def _values(self) -> Float[Array, "*row entry"]:
        return self.logits.value if isinstance(self.logits, Frozen) else self.logits

    @property
    def log_probs(self) -> Float[Array, "*row entry"]:
        """Logarithms of the probabilities, minus infinity at the zeros."""
        return jax.nn.log_softmax(jnp.where(self.allowed, self._values, -jnp.inf))

    @property
    def probs(self) -> Float[Array, "*row entry"]:
        """The probabilities."""
        return jax.nn.softmax(jnp.where(self.allowed, self._values, -jnp.inf))

    @property
    def fixed(self) -> bool:
        """Whether they are held fixed."""
        return isinstance(self.logits, Frozen)

    @property
    def free_parameters(self) -> int:
        """How many of the numbers can be chosen: one less than the entries of each row that may not be zero."""
        return 0 if self.fixed else int(np.maximum(np.asarray(self.allowed).sum(-1) - 1, 0).sum())

    def with_counts(self, counts: Float[Array, "*row entry"], pseudocount: Any = 0.0) -> "Rows":
        """The probabilities in proportion to counts; a row without any stays as it was. Exact zeros stay.

        A count that comes out as zero where zero is not prescribed would be zero for good: such a probability becomes
        the smallest normal number of its precision.
        """
        if self.fixed:
            return self
        counts = jnp.where(self.allowed, counts + pseudocount, 0.0)
        total = counts.sum(-1, keepdims=True)
        tiny = jnp.finfo(counts.dtype).tiny
        known = total > 100 * tiny
        shares = jnp.maximum(counts / jnp.where(known, total, 1.0), tiny)
        logits = jnp.where(known & self.allowed, jnp.log(shares), jnp.where(self.allowed, self.log_probs, 0.0))
        return Rows(logits.astype(self._values.dtype), self.allowed)
