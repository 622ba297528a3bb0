"""The programs whose cost is measured: the log-probability of sequences, and its gradient, compiled."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np

from hiddenstate.core import Arrays, SequenceModel, partition
from hiddenstate.inference.score import masked_log_probs
from hiddenstate.inspect.costs.operations import operations
from hiddenstate.strategies import Native, Sequential, Strategy, resolved

What = Literal["evaluation", "gradient"]

ENOUGH, TURN = 3.0, 0.01
"""Seconds, of all programs together and of one in its turn."""


class Memory(NamedTuple):
    """Bytes that a program needs beside its arguments: while it runs, and for what comes out."""

    temporary: int
    output: int

    @property
    def total(self) -> int:
        """Both."""
        return self.temporary + self.output


@dataclass(frozen=True, eq=False)
class Program:
    """One compiled program with what it is called with."""

    run: Callable[[], Any]
    compile_seconds: float
    memory: Memory | None
    operations: int


def program(model: SequenceModel, arrays: Arrays, strategy: Strategy, what: What) -> Program:
    """`hs.log_prob` of these sequences, in sum, or its gradient by all that is learned, compiled for them."""
    learned, rest = partition(model)
    dynamic, static = eqx.partition(rest, eqx.is_array)

    def by(strategy: Strategy) -> Callable[..., Any]:
        def total(learned: Any, dynamic: Any, arrays: Arrays) -> Any:
            whole = eqx.combine(learned, dynamic, static)
            return masked_log_probs(whole, arrays, strategy)[0].sum()

        return total if what == "evaluation" else jax.value_and_grad(total)

    arguments = (learned, dynamic, arrays)
    began = time.perf_counter()
    compiled = jax.jit(by(strategy)).lower(*arguments).compile()
    seconds = time.perf_counter() - began
    counted = operations(by(_open(strategy, model, arrays)), *arguments)
    return Program(lambda: compiled(*arguments), seconds, _memory(compiled), counted)


def _open(strategy: Strategy, model: SequenceModel, arrays: Arrays) -> Strategy:
    """The strategy whose operations can be counted: what a kernel does, a compiled loop does too."""
    chosen = resolved(strategy, model, arrays.values.shape[1])
    return Sequential(checkpoint=chosen.checkpoint) if isinstance(chosen, Native) else strategy


def _memory(compiled: Any) -> Memory | None:
    """What the compiler says that the program needs; None where a backend does not say."""
    try:
        found = compiled.memory_analysis()
        return Memory(int(found.temp_size_in_bytes), int(found.output_size_in_bytes))
    except (AttributeError, NotImplementedError, jax.errors.JaxRuntimeError):
        return None


def least_seconds(programs: Sequence[Program], repeats: int) -> list[float]:
    """The least time of each program in so many turns; all have a turn before any has the next.

    What else goes on in a machine makes programs slower and never faster, which short ones feel most: up to ten times
    as many turns are taken while they take less than `ENOUGH` seconds together. A first call of each does not count,
    and in its turn a program runs again and again for at least `TURN` seconds: the first time after another one it
    finds nothing of its own in the caches, which would look like a cost that does not depend on the size.
    """
    for each in programs:
        jax.block_until_ready(each.run())
    least = np.full(len(programs), np.inf if repeats else np.nan)
    end, turn = time.perf_counter() + ENOUGH, 0
    while turn < repeats or (turn < 10 * repeats and time.perf_counter() < end):
        for number, each in enumerate(programs):
            least[number] = min(least[number], _least_in_turn(each))
        turn += 1
    return least.tolist()


@contextmanager
def on_one_core() -> Iterator[None]:
    """All threads of this process on one core meanwhile, where the system can do that (Linux).

    A compiler gives operations on large arrays to several cores and those on small ones to one, so that the time of a
    longer sequence grows by less than its work.
    """
    threads = Path("/proc/self/task")
    if not hasattr(os, "sched_setaffinity") or not threads.is_dir():
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        _move_threads(threads, {max(before)})
        yield
    finally:
        _move_threads(threads, before)


def _move_threads(threads: Path, cores: set[int]) -> None:
    for thread in threads.iterdir():
        with suppress(ProcessLookupError):  # it may have ended meanwhile
            os.sched_setaffinity(int(thread.name), cores)


def _least_in_turn(each: Program) -> float:
    end, least = time.perf_counter() + TURN, np.inf
    while (began := time.perf_counter()) < end:
        jax.block_until_ready(each.run())
        least = min(least, time.perf_counter() - began)
    return least
