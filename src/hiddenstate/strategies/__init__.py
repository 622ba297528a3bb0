"""Ways of running a recurrence over time, one file each."""

from typing import Any

import jax.numpy as jnp

from hiddenstate._types import State
from hiddenstate.core import DataError, Recurrence, Sequences, Steps
from hiddenstate.strategies.associative import Associative
from hiddenstate.strategies.auto import Auto, Choice
from hiddenstate.strategies.independent import Independent
from hiddenstate.strategies.native import Native
from hiddenstate.strategies.sequential import Sequential
from hiddenstate.strategies.strategy import Strategy, Unrolled, in_chunks, over_time, prepared, resolved

__all__ = [
    "Associative",
    "Auto",
    "Choice",
    "Independent",
    "Native",
    "Sequential",
    "Strategy",
    "Unrolled",
    "in_chunks",
    "over_time",
    "prepared",
    "resolved",
    "unroll",
]


def unroll(
    recurrence: Recurrence, xs: Any, strategy: Strategy = Auto(), *, us: Any = None, state: State = None
) -> Unrolled:
    """The states of a recurrence along one sequence `xs` (time first), from `state` or its initial one.

    ``states`` at t has seen everything before x_t; ``final`` has seen all. `us` are inputs known beforehand,
    one row a step.
    """
    if isinstance(xs, Sequences):
        raise DataError("unroll takes the array of one sequence, such as data[0]; hs.states takes all of them.")
    state = recurrence.initial() if state is None else state
    xs = jnp.asarray(xs)
    us = None if us is None else jnp.asarray(us)
    states, final = over_time(recurrence, strategy, state, Steps(xs, us), lambda state, *_: state)
    return Unrolled(states, final)
