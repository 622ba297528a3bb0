"""What every cell asks of its options: each error names the argument, what it got and what it takes."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Initialiser, PRNGKeyArray
from hiddenstate.core import HiddenStateError
from hiddenstate.ops.initialisers import initialiser, stacked
from hiddenstate.ops.nonlinearities import nonlinearity

TimeConstants: TypeAlias = float | tuple[float, float] | Sequence[float] | Any
"""One number for all units, a tuple (shortest, longest) to spread them over, or a list or array of all."""


def whole(argument: str, value: int) -> int:
    """A whole number of at least 1, such as a size or a lag."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise HiddenStateError(f"{argument} is {value!r}; it must be a whole number of at least 1.")
    return int(value)


def one_of(argument: str, value: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in choices:
        raise HiddenStateError(f"{argument} is {value!r}; it must be one of {', '.join(map(repr, choices))}.")
    return value


def how_many_biases(argument: str, value: int) -> int:
    """0, 1 or 2."""
    if isinstance(value, bool) or value not in (0, 1, 2):
        raise HiddenStateError(f"{argument} is {value!r}; it must be 0, 1 or 2.")
    return value


def number(argument: str, value: float) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise HiddenStateError(f"{argument} is {value!r}; it must be a finite number.")
    return float(value)


def named_nonlinearity(name: str) -> str:
    """The name of a nonlinearity: a wrong one is an error here, not at the first step."""
    try:
        nonlinearity(name)
    except ValueError as error:
        raise HiddenStateError(str(error)) from None
    return name


def weights(
    argument: str, init: str | Initialiser, key: PRNGKeyArray, shape: tuple[int, int], gates: int = 1
) -> Float[Array, "out in"]:
    """Initial weights of `shape`, by name or function, stacked where there are several `gates`."""
    try:
        function = initialiser(init, argument)
    except ValueError as error:
        raise HiddenStateError(str(error)) from None
    drawn = jnp.asarray(stacked(function, key, gates, shape))
    expected = (gates * shape[0], shape[1])
    if drawn.shape != expected or not jnp.issubdtype(drawn.dtype, jnp.floating):
        raise HiddenStateError(
            f"{argument} gave {drawn.dtype} weights of shape {drawn.shape}; they must be floating-point, "
            f"of shape {expected}."
        )
    return drawn


def time_constants(argument: str, value: TimeConstants, hidden_size: int) -> Float[np.ndarray, " hidden"]:
    """Positive time constants in steps, one a unit.

    A tuple of two is a range, over which the units are spread evenly in the logarithm (a single unit gets the
    geometric mean); a number is for all units; a list or an array gives one a unit.
    """
    return _spread(argument, value, hidden_size, "time constants")


def periods(argument: str, value: TimeConstants, hidden_size: int) -> Float[np.ndarray, " hidden"]:
    """Periods in steps, one a unit, given as time constants are; a faster turn would look like a slower one."""
    given = _spread(argument, value, hidden_size, "periods")
    if np.any(given < 2):
        raise HiddenStateError(f"{argument} is {value!r}; a period must last at least 2 steps.")
    return given


def _spread(argument: str, value: TimeConstants, hidden_size: int, what: str) -> Float[np.ndarray, " hidden"]:
    try:
        taus = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise HiddenStateError(f"{argument} is {value!r}; it must be numbers: {what} in steps.") from None
    if taus.ndim > 1 or not np.all(np.isfinite(taus)) or not np.all(taus > 0):
        raise HiddenStateError(f"{argument} is {value!r}; {what} must be positive, finite numbers of steps.")
    if isinstance(value, tuple):
        if len(value) != 2 or value[0] > value[1]:
            raise HiddenStateError(f"{argument} is {value!r}; a tuple must be a range (shortest, longest).")
        shares = np.linspace(0, 1, hidden_size) if hidden_size > 1 else np.array([0.5])
        return np.exp((1 - shares) * np.log(taus[0]) + shares * np.log(taus[1]))
    if taus.shape not in ((), (hidden_size,)):
        raise HiddenStateError(
            f"{argument} has shape {taus.shape}; it must be one number, a tuple (shortest, longest), or one "
            f"number for each of the {hidden_size} units."
        )
    return np.broadcast_to(taus, (hidden_size,))
