r"""How something changes from update to update: from the number of an update, counted from 0, to a number.

These are the three decays of Bengio et al. (2015), section 2.4, for the probability of feeding the truth, and a
constant. Any function of the number of an update does as well, such as an optax schedule.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError

__all__ = ["constant", "exponential", "inverse_sigmoid", "linear"]


class Schedule(ABC):
    """A function of the number of an update that says in words what it is; frozen, so that equal ones are equal."""

    @abstractmethod
    def __call__(self, update: Any) -> Array:
        """The value at that update."""


@dataclass(frozen=True)
class constant(Schedule):
    """The same value at every update."""

    value: float

    def __post_init__(self):
        _check_probability("value", self.value)

    def __call__(self, update: Any) -> Array:
        """The value."""
        return jnp.full(jnp.shape(update), self.value, jnp.float32)


@dataclass(frozen=True)
class linear(Schedule):
    """In a straight line from `start` to `end` in so many `updates`, and `end` from then on."""

    updates: int
    start: float = 1.0
    end: float = 0.0

    def __post_init__(self):
        if isinstance(self.updates, bool) or not isinstance(self.updates, int | np.integer) or self.updates < 1:
            raise HiddenStateError(f"updates is {self.updates!r}; it must be a whole number from 1 on.")
        _check_probability("start", self.start)
        _check_probability("end", self.end)

    def __call__(self, update: Any) -> Array:
        """start + (end - start) min(update / updates, 1)."""
        done = jnp.minimum(jnp.asarray(update, jnp.float32) / self.updates, 1.0)
        return self.start * (1 - done) + self.end * done


@dataclass(frozen=True)
class exponential(Schedule):
    r""":math:`k^i` at update i, with a factor k below 1: it falls by the same share at every update."""

    factor: float

    def __post_init__(self):
        known = not isinstance(self.factor, bool) and isinstance(self.factor, int | float | np.number)
        if not known or not 0 < self.factor < 1:
            raise HiddenStateError(f"factor is {self.factor!r}; it must be a number between 0 and 1.")

    def __call__(self, update: Any) -> Array:
        """factor ** update."""
        return jnp.exp(jnp.asarray(update, jnp.float32) * math.log(self.factor))


@dataclass(frozen=True)
class inverse_sigmoid(Schedule):
    r""":math:`k / (k + e^{i / k})` at update i: near 1 at first, 1/2 at :math:`k \log k`, then towards 0."""

    k: float

    def __post_init__(self):
        known = not isinstance(self.k, bool) and isinstance(self.k, int | float | np.number)
        if not known or not 1 <= self.k < math.inf:
            raise HiddenStateError(f"k is {self.k!r}; it must be a number from 1 on.")

    def __call__(self, update: Any) -> Array:
        """k / (k + exp(update / k)), written so that it does not overflow."""
        return jax.nn.sigmoid(math.log(self.k) - jnp.asarray(update, jnp.float32) / self.k)


def _check_probability(name: str, value: Any) -> None:
    known = not isinstance(value, bool) and isinstance(value, int | float | np.number)
    if not known or not 0 <= value <= 1:
        raise HiddenStateError(f"{name} is {value!r}; it must be a number from 0 to 1.")
