"""The units of the data: fixed numbers that let a head's parameters be of order one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Num
from hiddenstate.core import Frozen, HiddenStateError
from hiddenstate.heads.head import Head, checked_size, shape_of

_SHIFT = float(np.log(np.expm1(1.0)))


def positive(parameter: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Softplus, shifted so that 0 gives 1."""
    return jax.nn.softplus(parameter + _SHIFT)


def fixed(value: Any, default: float, shape: tuple[int, ...], name: str, above_zero: bool = False) -> Frozen:
    """`value`, or the default, as an array of that shape that is saved but not learned."""
    array = np.asarray(default if value is None else value, dtype=float)
    if array.shape not in ((), shape):
        raise HiddenStateError(f"{name} has shape {array.shape}; it must be {shape} or a single number.")
    if not np.isfinite(array).all() or (above_zero and (array <= 0).any()):
        raise HiddenStateError(f"{name} is {array.tolist()}; it must be finite{' and above 0' if above_zero else ''}.")
    return Frozen(jnp.asarray(np.broadcast_to(array, shape), dtype=float))


class Standardised(Head):
    """Heads for real numbers, whose parameters and codes are in units of `scale` around `location`."""

    location: Frozen
    scale: Frozen
    size: int | None = eqx.field(static=True)

    def _set_units(self, size: int | None, location: Any, scale: Any) -> None:
        """Set size, location and scale; called at the start of a subclass's `__init__`."""
        self.size = checked_size(size, "size", type(self).__name__)
        self.location = fixed(location, 0.0, self.event_shape, "location")
        self.scale = fixed(scale, 1.0, self.event_shape, "scale", above_zero=True)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number, or a vector."""
        return shape_of(self.size)

    @property
    def encoded_size(self) -> int:
        """One entry a number."""
        return self.size or 1

    def encode(self, x: Num[Array, "*event"]) -> Float[Array, " encoded"]:
        """Standardised: (x - location) / scale."""
        location = self.location.value
        return jnp.reshape((jnp.asarray(x, location.dtype) - location) / self.scale.value, self.encoded_size)

    def around(self, code: Float[Array, " encoded"]) -> Float[Array, " parameter"]:
        """The code is the location; spreads are those of the units."""
        return jnp.zeros(self.parameter_count, code.dtype).at[: self.encoded_size].set(code)

    def in_units(
        self, location: Float[Array, "*event"], scale: Float[Array, "*event"]
    ) -> tuple[Float[Array, "*event"], Float[Array, "*event"]]:
        """A standardised location and scale in the units of the data."""
        return self.location.value + self.scale.value * location, self.scale.value * scale


class Counted(Head):
    """Heads for counts, whose parameters multiply a fixed `rate`.

    A cell reads a count as (log(1 + x) - log(1 + rate)) / spread, with a fixed `spread`: large counts stay
    small numbers, and a count equal to the rate is 0.
    """

    rate: Frozen
    spread: Frozen
    size: int | None = eqx.field(static=True)

    def _set_units(self, size: int | None, rate: Any, spread: Any) -> None:
        """Set size, rate and spread; called at the start of a subclass's `__init__`."""
        self.size = checked_size(size, "size", type(self).__name__)
        self.rate = fixed(rate, 1.0, self.event_shape, "rate", above_zero=True)
        self.spread = fixed(spread, 1.0, self.event_shape, "spread", above_zero=True)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number, or a vector."""
        return shape_of(self.size)

    @property
    def encoded_size(self) -> int:
        """One entry a count."""
        return self.size or 1

    def encode(self, x: Num[Array, "*event"]) -> Float[Array, " encoded"]:
        """(log(1 + x) - log(1 + rate)) / spread."""
        rate = self.rate.value
        code = (jnp.log1p(jnp.asarray(x, rate.dtype)) - jnp.log1p(rate)) / self.spread.value
        return jnp.reshape(code, self.encoded_size)

    def log_rate(self, parameter: Float[Array, "*event"]) -> Float[Array, "*event"]:
        """The logarithm of the rate times the exponential of the parameter."""
        return jnp.log(self.rate.value) + parameter
