"""What a way of running a recurrence over time is, and the one driver that all of them share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Element, Shaped, State
from hiddenstate.core import Recurrence, Steps, StrategyError, has
from hiddenstate.native.manual import carried


class Unrolled(NamedTuple):
    """The states of one sequence: `states` at t has seen x_1 .. x_{t-1}, `final` has seen all."""

    states: State
    final: State


class Strategy(ABC):
    """A way of running a recurrence over time. Its instances are small, frozen and hashable."""

    @abstractmethod
    def check(self, recurrence: Recurrence) -> None:
        """Raise StrategyError if `recurrence` cannot be run this way, naming what can."""

    @abstractmethod
    def run(
        self, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
    ) -> Unrolled:
        """All states from `state` on. Where `valid` is False (only behind the end) the state stays."""

    def reader(self, recurrence: Recurrence) -> Callable[..., tuple[State, State]] | None:
        """A function of a state, observations, inputs and `valid` that needs no elements, where there is one."""
        del recurrence

    def resolve(self, recurrence: Recurrence, time: int) -> "Strategy":
        """The strategy that really runs: itself, except for one that chooses among others."""
        del recurrence, time
        return self

    def chunk_length(self, time: int) -> int | None:
        """Steps to be recomputed together in the backward pass; None where everything is kept."""
        del time


def square_root_chunk(time: int) -> int:
    """The chunk that balances what is kept between chunks with what is recomputed inside one."""
    return max(1, math.isqrt(time))


def over_time(
    recurrence: Recurrence,
    strategy: Strategy,
    state: State,
    steps: Steps,
    emit: Callable[[State, Element, Any, Any], Any],
) -> tuple[Any, State]:
    """``emit(state_t, element_t, x_t, u_t)`` at every step of one sequence, and the state after the last.

    ``prepare`` and ``emit`` are mapped over all steps at once; only ``step`` (or ``combine``) is left to the
    strategy. A strategy with a chunk length has everything within one chunk recomputed in the backward pass, so
    that beyond the data and the emitted values only one state per chunk is kept.
    """
    chosen = resolved(strategy, recurrence, steps.length)

    reader = chosen.reader(recurrence) if steps.observed is None else None

    def run(state, steps):
        elements = prepared(recurrence, steps)  # which the compiler leaves out where nothing needs them
        if reader is None:
            states, final = run_over(strategy, recurrence, state, elements, steps.valid)
        else:
            states, final = reader(state, steps.values, steps.inputs, steps.valid)
        return final, jax.vmap(emit)(states, elements, steps.values, steps.inputs)

    return in_chunks(run, state, steps, chosen.chunk_length(steps.length))


def in_chunks(
    run: Callable[[State, Steps], tuple[State, Any]], state: State, steps: Steps, chunk: int | None
) -> tuple[Any, State]:
    """``run(state, steps)``, which gives the last state and values of all steps, over chunks of so many steps.

    The backward pass recomputes what lies within one. Without a chunk length, or where one holds all, it runs once.
    """
    time = steps.length
    if chunk is None or chunk >= time:
        final, out = run(state, steps)
        return out, final

    whole = time - time % chunk
    head, tail = (jax.tree.map(part, steps) for part in (lambda a: a[:whole], lambda a: a[whole:]))
    folded = jax.tree.map(lambda a: a.reshape(whole // chunk, chunk, *a.shape[1:]), head)
    state, out = jax.lax.scan(jax.checkpoint(run), carried(state, folded), folded)
    out = jax.tree.map(lambda a: a.reshape(whole, *a.shape[2:]), out)
    if whole < time:
        state, rest = jax.checkpoint(run)(state, tail)
        out = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), out, rest)
    return out, state


def resolved(strategy: Strategy, recurrence: Recurrence, time: int) -> Strategy:
    """The strategy that really runs, checked against the recurrence."""
    if not isinstance(strategy, Strategy):
        raise StrategyError(
            f"strategy is {strategy!r}; it must be hs.Auto(), hs.Sequential(), hs.Associative() or hs.Native()."
        )
    strategy = strategy.resolve(recurrence, time)
    strategy.check(recurrence)
    return strategy


def run_over(
    strategy: Strategy, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
) -> Unrolled:
    """All states from `state` on, by the strategy that fits; of a recurrence with layers, one layer after the other."""
    if not has(recurrence, "layers"):
        time = jax.tree.leaves(elements)[0].shape[0]
        return strategy.resolve(recurrence, time).run(recurrence, state, elements, valid)
    layered: Any = recurrence
    runs: list[Unrolled] = []
    after: tuple[State, ...] = ()
    for number, (layer, start) in enumerate(zip(layered.layers(), state, strict=True)):
        inputs = elements if number == 0 else jax.vmap(partial(layered.between, number))(after)
        runs.append(run_over(strategy, layer, start, inputs, valid))
        after += (jax.tree.map(lambda s, last: jnp.concatenate([s[1:], last[None]]), *runs[-1]),)
    return Unrolled(tuple(run.states for run in runs), tuple(run.final for run in runs))


def prepared(recurrence: Recurrence, steps: Steps) -> Element:
    """The elements of all steps; with missing entries, by the recurrence's `prepare_partial`."""
    if steps.observed is None:
        return jax.vmap(recurrence.prepare)(steps.values, steps.inputs)
    partial = recurrence.prepare_partial  # pyright: ignore[reportAttributeAccessIssue]
    return jax.vmap(partial)(steps.values, steps.inputs, steps.observed)
