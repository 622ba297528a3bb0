"""What a head is: from the vector that a cell shows to a distribution over the next observation."""

from abc import abstractmethod
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import Frozen, HiddenStateError
from hiddenstate.ops.initialisers import glorot
from hiddenstate.ops.projection import project

Dispersion = Literal["state", "constant"]


class Head(eqx.Module):
    """A linear map of the cell's output to the parameters of a distribution of one family.

    A family says how many parameters it has, how unconstrained numbers become a distribution
    (`distribution`), and what an observation of its kind looks like to a network (`encode`): heads and inputs
    belong together, because what was predicted now is what is read next.

    Parameters are numbers of order one: zero means the distribution that the head was built around (even
    odds, the given location and scale, the given rate). Log-probabilities and gradients stay finite for
    logits of any size, and for the logarithms behind scales, rates and concentrations within ±25 in float32
    and ±200 in float64. Nothing is clipped: beyond that they overflow, and training says so.
    """

    weight: Float[Array, "driven hidden"] | Frozen | None
    bias: Float[Array, " parameter"] | None
    hidden_size: int = eqx.field(static=True)

    def _initialise(self, hidden_size: int, key: PRNGKeyArray) -> None:
        """Set the linear map; called at the end of a subclass's `__init__`."""
        self.hidden_size = hidden_size
        self.weight = glorot(key, (int(self.driven.sum()), hidden_size))
        self.bias = jnp.zeros(self.parameter_count)

    def __call__(self, h: Float[Array, " hidden"]) -> Distribution:
        """The distribution that the vector `h` stands for."""
        return self.distribution(self.parameters(h))

    def parameters(self, h: Float[Array, " hidden"]) -> Float[Array, " parameter"]:
        """The unconstrained parameters of that distribution."""
        weight, bias = self.linear
        drive = project(weight, h)
        if self.driven.all():
            return bias + drive
        return bias.at[np.flatnonzero(self.driven)].add(drive)

    @property
    def linear(self) -> tuple[Float[Array, "driven hidden"], Float[Array, " parameter"]]:
        """The weight and the bias."""
        if self.weight is None or self.bias is None:
            raise HiddenStateError(
                f"this {type(self).__name__} head is the family of a larger head and has no weights."
            )
        return self.weight.value if isinstance(self.weight, Frozen) else self.weight, self.bias

    @property
    def whole_linear(self) -> tuple[Float[Array, "parameter hidden"], Float[Array, " parameter"]]:
        """The same, with rows of zeros for parameters that do not follow the state."""
        weight, bias = self.linear
        rows = jnp.zeros((self.parameter_count, weight.shape[1]), weight.dtype)
        return rows.at[np.flatnonzero(self.driven)].set(weight), bias

    @property
    @abstractmethod
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """How many numbers `distribution` takes."""

    @property
    def driven(self) -> np.ndarray:
        """Which of the parameters follow the state; the others are a learned constant. All, by default."""
        return np.ones(self.parameter_count, bool)

    @property
    @abstractmethod
    def encoded_size(self) -> int:
        """How many numbers `encode` gives."""

    @abstractmethod
    def distribution(self, parameters: Float[Array, " parameter"]) -> Distribution:
        """The distribution with these unconstrained parameters."""

    @abstractmethod
    def encode(self, x: Num[Array, "*event"]) -> Float[Array, " encoded"]:
        """One observation as the vector that a cell reads."""

    def around(self, code: Float[Array, " encoded"]) -> Float[Array, " parameter"] | None:
        """Parameters of a distribution whose mean has this code; None for a family that cannot say."""
        del code
        return None


def family_of(head: Head) -> Head:
    """The head without its linear map, to be part of a larger head that has one for all its parts."""
    return eqx.tree_at(lambda h: (h.weight, h.bias), head, (None, None), is_leaf=lambda node: node is None)


def checked_size(size: int | None, name: str, owner: str) -> int | None:
    """A number of entries that is at least 1, or None for observations that are one number."""
    if size is not None and size < 1:
        raise HiddenStateError(f"{name} is {size}; a {owner} head needs at least 1, or None for single numbers.")
    return size


def checked_count(size: object, name: str, owner: str) -> int:
    """A whole number that is at least 1."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise HiddenStateError(f"{name} is {size!r}; a {owner} head needs a whole number that is at least 1.")
    return int(size)


def checked_dispersion(dispersion: str) -> Dispersion:
    """Whether the spread of a distribution follows the state or is one learned constant."""
    if dispersion not in ("state", "constant"):
        raise HiddenStateError(f"dispersion is {dispersion!r}; it must be 'state' or 'constant'.")
    return dispersion


def locations_first(head: Head, dispersion: Dispersion) -> np.ndarray:
    """Which parameters follow the state where the first `encoded_size` are locations, the rest spreads."""
    return (np.arange(head.parameter_count) < head.encoded_size) | (dispersion == "state")


def shape_of(size: int | None) -> tuple[int, ...]:
    """The event shape of `size` entries; None stands for one number."""
    return () if size is None else (size,)
