"""What a head is: from the vector that a cell shows to a distribution over the next observation."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.ops.initialisers import glorot


class Head(eqx.Module):
    """A linear map of the cell's output to the parameters of a distribution of one family.

    A family says how many parameters it has, how unconstrained numbers become a distribution (`distribution`), and
    what an observation of its kind looks like to a network (`encode`): heads and inputs belong together, because what
    was predicted now is what is read next.
    """

    weight: Float[Array, "parameter hidden"] | None
    bias: Float[Array, " parameter"] | None
    hidden_size: int = eqx.field(static=True)

    def _initialise(self, hidden_size: int, key: PRNGKeyArray) -> None:
        """Set the linear map; called at the end of a subclass's `__init__`."""
        self.hidden_size = hidden_size
        self.weight = glorot(key, (self.parameter_count, hidden_size))
        self.bias = jnp.zeros(self.parameter_count)

    def __call__(self, h: Float[Array, " hidden"]) -> Distribution:
        """The distribution that the vector `h` stands for."""
        assert self.weight is not None and self.bias is not None
        return self.distribution(self.weight @ h + self.bias)

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """How many numbers `distribution` takes."""

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
