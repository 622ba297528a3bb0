"""Rows of probabilities as unconstrained numbers: learned logits, with exact zeros that stay zeros."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Frozen, register
from hiddenstate.latent import checks
from hiddenstate.latent.zeros import log_distributions, log_shares, logs_of


@register("probability-rows")
class Rows(eqx.Module):
    """Probabilities along the last axis.

    `logits` are learned (or `Frozen`); where `allowed` is False the probability is exactly zero, whatever is learned,
    and gradients are zero too.
    """

    logits: Float[Array, "*row entry"] | Frozen
    allowed: Shaped[Array, "*row entry"]

    @classmethod
    def of(cls, argument: str, given: Any, rank: int) -> "Rows":
        """From probabilities that a person wrote down; inside `Frozen` they are held fixed."""
        fixed = isinstance(given, Frozen)
        value = given.value if isinstance(given, Frozen) else given
        dtype = checks.precision(value)
        probs = checks.distributions(argument, checks.numbers(argument, value, rank), dtype)
        logits, allowed = logs_of(probs, dtype)
        return cls(Frozen(logits) if fixed else logits, allowed)

    @property
    def values(self) -> Float[Array, "*row entry"]:
        """The logits, learned or not."""
        return self.logits.value if isinstance(self.logits, Frozen) else self.logits

    @property
    def log_probs(self) -> Float[Array, "*row entry"]:
        """Logarithms of the probabilities, minus infinity at the zeros."""
        return log_distributions(self.values, self.allowed)

    @property
    def probs(self) -> Float[Array, "*row entry"]:
        """The probabilities."""
        return jnp.exp(self.log_probs)

    @property
    def fixed(self) -> bool:
        """Whether they are held fixed."""
        return isinstance(self.logits, Frozen)

    @property
    def free_parameters(self) -> int:
        """How many of the numbers can be chosen: one less than the entries of each row that may not be zero."""
        return 0 if self.fixed else int(np.maximum(np.asarray(self.allowed).sum(-1) - 1, 0).sum())

    def with_counts(self, counts: Float[Array, "*row entry"], pseudocount: Any = 0.0) -> "Rows":
        """The probabilities in proportion to counts; a row without any stays as it was, and zeros stay zeros."""
        if self.fixed:
            return self
        logits = log_shares(counts + pseudocount, self.allowed, self.log_probs)
        return Rows(logits.astype(self.values.dtype), self.allowed)
