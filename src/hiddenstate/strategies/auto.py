"""The strategy that chooses: by what the recurrence can, the device, and the length."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from hiddenstate._types import Array, Element, Shaped, State
from hiddenstate.core import Recurrence, has, name_of
from hiddenstate.strategies.associative import Associative
from hiddenstate.strategies.independent import Independent
from hiddenstate.strategies.native import Native, obstacle
from hiddenstate.strategies.sequential import Sequential
from hiddenstate.strategies.strategy import Strategy, Unrolled

LONG = 100_000
"""From this many steps on the backward pass recomputes chunks of about sqrt(T) instead of keeping everything."""

CACHED, CHUNK = 512, 128
"""On a CPU, from the first number of steps on, chunks of the second run one after the other: they stay in the cache.
Minibatches then run 1.2 to 2 times as fast, although the backward pass recomputes them (measured on two cores)."""


class Choice(NamedTuple):
    """What `Auto` picked, and the sentence that says why."""

    strategy: Strategy
    reason: str


@dataclass(frozen=True)
class Auto(Strategy):
    """Picks the fastest strategy that this recurrence can follow on this device at this length."""

    def choose(self, recurrence: Recurrence, time: int, device: str | None = None) -> Choice:
        """What it would pick for `time` steps, and why; `device` is a JAX backend name, by default the current one.

        >>> Auto().choose(model, 1000).reason  # doctest: +SKIP
        'RNN of GRU has no `combine`, so the steps run one after the other.'
        """
        device = jax.default_backend() if device is None else device
        if has(recurrence, "state_after"):
            reason = f"the state of {name_of(recurrence)} is known from the last observation alone: no step waits."
            return Choice(Independent(), reason)
        if obstacle(recurrence, device) is None:
            checkpoint, memory = _long(time)
            reason = f"{name_of(recurrence)} has a compiled kernel, which is the fastest way on a CPU."
            return Choice(Native(checkpoint=checkpoint), reason + memory)
        checkpoint, memory = _chunks(time, device)
        if has(recurrence, "layers"):
            layers: Any = recurrence.layers()  # pyright: ignore[reportAttributeAccessIssue]
            picked = [self.choose(layer, time, device) for layer in layers]
            reason = f"{len(layers)} layers, one after the other: {'; '.join(dict.fromkeys(c.reason for c in picked))}"
            kinds = {type(choice.strategy) for choice in picked}
            if kinds == {Independent}:
                return Choice(Independent(), reason)
            if kinds == {Native}:
                return Choice(Native(checkpoint=_long(time)[0]), reason)
            kind = Associative if kinds == {Associative} else Sequential
            return Choice(kind(checkpoint=checkpoint), reason)
        if not has(recurrence, "combine"):
            reason = f"{name_of(recurrence)} has no `combine`, so the steps run one after the other."
            return Choice(Sequential(checkpoint=checkpoint), reason + memory)
        if device == "cpu":
            reason = "on a CPU a compiled loop moves less memory than a parallel scan and is as fast or faster."
            return Choice(Sequential(checkpoint=checkpoint), reason + memory)
        reason = f"{name_of(recurrence)} has `combine`, so its {time} steps run as a parallel scan on the {device}."
        return Choice(Associative(checkpoint=checkpoint), reason + memory)

    def resolve(self, recurrence: Recurrence, time: int) -> Strategy:
        """The chosen strategy."""
        return self.choose(recurrence, time).strategy

    def check(self, recurrence: Recurrence) -> None:
        """There is always one that fits."""

    def run(
        self, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
    ) -> Unrolled:
        """Runs the chosen strategy."""
        time = jax.tree.leaves(elements)[0].shape[0]
        return self.resolve(recurrence, time).run(recurrence, state, elements, valid)


def _chunks(time: int, device: str) -> tuple[bool | int, str]:
    """How to cut time into chunks that the backward pass recomputes, and why."""
    checkpoint, memory = _long(time)
    if checkpoint:
        return checkpoint, memory
    if device == "cpu" and time >= CACHED:
        return CHUNK, f" Chunks of {CHUNK} steps stay in the cache; the backward pass recomputes them."
    return False, ""


def _long(time: int) -> tuple[bool, str]:
    if time < LONG:
        return False, ""
    return True, f" {time} steps are many: the backward pass recomputes chunks to save memory."
