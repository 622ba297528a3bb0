"""What a way of running a recurrence over time is, and the one driver that all of them share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Element, PyTree, Shaped, State
from hiddenstate.core import Recurrence, StrategyError


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
    xs: PyTree,
    us: PyTree,
    valid: Shaped[Array, " time"] | None,
    emit: Callable[[State, Any, Any], Any],
) -> tuple[Any, State]:
    """``emit(state_t, x_t, u_t)`` at every step of one sequence, and the state after the last.

    ``prepare`` and ``emit`` are mapped over all steps at once; only ``step`` (or ``combine``) is left to the
    strategy. A strategy with a chunk length has everything within one chunk recomputed in the backward pass, so
    that beyond the data and the emitted values only one state per chunk is kept.
    """
    if not isinstance(strategy, Strategy):
        raise StrategyError(f"strategy is {strategy!r}; it must be hs.Auto(), hs.Sequential() or hs.Associative().")
    strategy = strategy.resolve(recurrence, _length(xs))
    strategy.check(recurrence)

    def run(state, xs, us, valid):
        elements = jax.vmap(recurrence.prepare)(xs, us)
        states, final = strategy.run(recurrence, state, elements, valid)
        return final, jax.vmap(emit)(states, xs, us)

    time = _length(xs)
    chunk = strategy.chunk_length(time)
    if chunk is None or chunk >= time:
        final, out = run(state, xs, us, valid)
        return out, final

    whole = time - time % chunk
    head, tail = (jax.tree.map(part, (xs, us, valid)) for part in (lambda a: a[:whole], lambda a: a[whole:]))
    folded = jax.tree.map(lambda a: a.reshape(whole // chunk, chunk, *a.shape[1:]), head)
    state, out = jax.lax.scan(jax.checkpoint(lambda s, part: run(s, *part)), state, folded)
    out = jax.tree.map(lambda a: a.reshape(whole, *a.shape[2:]), out)
    if whole < time:
        state, rest = jax.checkpoint(run)(state, *tail)
        out = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), out, rest)
    return out, state


def _length(xs: PyTree) -> int:
    return jax.tree.leaves(xs)[0].shape[0]
