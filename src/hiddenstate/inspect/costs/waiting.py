"""How many steps must wait for each other: what no number of processors can do away with."""

from typing import Any

import jax.numpy as jnp

from hiddenstate._types import Array, Element, Float, State
from hiddenstate.core import AssociativeRecurrence, HiddenStateError, Recurrence, has
from hiddenstate.strategies import Native, Sequential, Strategy, resolved


class _Counting(AssociativeRecurrence):
    """A recurrence that computes nothing but how many steps or joins came one after the other."""

    def initial(self) -> State:
        return jnp.zeros((), jnp.int32)

    def prepare(self, x: Float[Array, ""], u: Any = None) -> Element:
        return jnp.zeros((), jnp.int32)

    def step(self, state: State, element: Element) -> State:
        return jnp.maximum(state, element) + 1

    def combine(self, earlier: Element, later: Element) -> Element:
        return jnp.maximum(earlier, later) + 1


class _Forgetting(_Counting):
    """The same for a recurrence whose next state is known from one observation."""

    def state_after(self, element: Element) -> State:
        return element + 1


def depth(model: Recurrence, strategy: Strategy, steps: int) -> int:
    """How many steps, or joins of steps, of a recurrence wait for each other when a strategy runs it so long.

    It is counted, not assumed: the strategy runs a recurrence whose state is the length of the longest chain of steps
    and joins behind it. One after the other that is the number of steps T; a parallel scan has about 2 log2 T. The
    layers of a stack wait for each other, and so do chunks, so theirs add up. The gradient needs as many again on the
    way back, and a strategy that recomputes chunks as many a third time.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise HiddenStateError(f"steps is {steps!r}; it must be a whole number from 1 on.")
    chosen = resolved(strategy, model, steps)
    layers = model.layers() if has(model, "layers") else (model,)  # pyright: ignore[reportAttributeAccessIssue]
    chunk = min(chosen.chunk_length(steps) or steps, steps)
    parts = {chunk: steps // chunk, steps % chunk: 1}  # chunks wait for each other
    return sum(
        times * _counted(chosen, has(layer, "state_after"), length)
        for layer in layers
        for length, times in parts.items()
        if length
    )


def _counted(strategy: Strategy, forgets: bool, steps: int) -> int:
    """The longest chain within steps that are run at once."""
    if isinstance(strategy, Native):  # which takes the steps one after the other
        strategy = Sequential()
    counting = _Forgetting() if forgets else _Counting()
    found = strategy.run(counting, counting.initial(), jnp.zeros(steps, jnp.int32), None)
    return int(jnp.maximum(found.final, found.states.max()))
