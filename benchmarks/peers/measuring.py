"""One case: who can, who agrees, and how long each takes, in turns."""

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from peers.case import OURS, Case, is_peer, library
from peers.pool import Failed, Pool, TooSlow
from peers.timing import Plan, plan

LONGEST = 20.0
"""Seconds that one call may take; who takes longer is left out, unless it is ours."""

HOPELESS, SLOW = 5.0, 1.0
"""Who would take so many times as long as another peer, and so many seconds, is not timed: the fastest is shown."""

PREPARING = 180.0
"""Seconds for inputs, compilation, and three calls."""

PAUSE = 0.004
"""Threads that spin after their work have gone to sleep by then."""


def measure(case: Case, pool: Pool, contenders: Iterable[str], *, quick: bool) -> dict[str, Any]:
    """The times of every contender by rounds, what its first call took, and why others were left out."""
    found: dict[str, Any] = {"seconds": {}, "first": {}, "left_out": {}, "differ": {}}
    plans, results, seconds = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in contenders:
            path = Path(folder) / f"{len(results)}.npz"
            try:
                said = _prepared(case, pool, name, path, _fastest_peer(seconds))
            except (TooSlow, Failed) as reason:
                found["left_out"][name] = _words(reason)
                continue
            results[name] = dict(np.load(path))
            found["first"][name] = said["first"]
            plans[name] = plan(said["second"], quick=quick)
            seconds[name] = said["second"]
    for name in results:
        reason = difference(case, results[OURS], results[name]) if OURS in results else "there is nothing of ours"
        if reason:
            found["differ" if OURS in results else "left_out"][name] = reason
            del plans[name]
    found["seconds"] = _rounds(case, pool, plans, found["left_out"])
    pool.drop()
    return found


def _fastest_peer(seconds: dict[str, float]) -> float:
    return min((taken for name, taken in seconds.items() if is_peer(name)), default=float("inf"))


def _prepared(case: Case, pool: Pool, name: str, path: Path, fastest: float) -> dict[str, float]:
    process = pool.of(library(name), case.precision)
    if name in case.probed:
        part, times = case.smaller()
        said = process.ask(PREPARING, do="prepare", case=case.key, contender=name, size=part, results=None)
        likely = said["second"] * times
        if likely > LONGEST or likely > max(HOPELESS * fastest, SLOW):
            raise Failed(f"one call would take about {likely:.1f} s")
    said = process.ask(PREPARING, do="prepare", case=case.key, contender=name, size=dict(case.size), results=str(path))
    if said["second"] > LONGEST and name != OURS:
        raise Failed(f"one call takes {said['second']:.0f} s")
    return said


def _rounds(case: Case, pool: Pool, plans: dict[str, Plan], left_out: dict[str, str]) -> dict[str, list[float]]:
    """Times of interleaved rounds; each begins with another contender, so that nobody is always the first."""
    times: dict[str, list[float]] = {name: [] for name in plans}
    for number in range(max((one.rounds for one in plans.values()), default=0)):
        order = [name for name in times if plans[name].rounds > number]
        turn = number % max(1, len(order))
        for name in order[turn:] + order[:turn]:
            time.sleep(PAUSE)
            process = pool.of(library(name), case.precision)
            try:
                own = plans[name]
                said = process.ask(PREPARING, do="time", contender=name, times=own.times, number=own.number)
            except (TooSlow, Failed) as reason:
                left_out[name] = _words(reason)
                del times[name]
            else:
                times[name].append(said["seconds"])
    return times


def _words(reason: Exception) -> str:
    return f"no answer within {PREPARING:.0f} s" if isinstance(reason, TooSlow) else str(reason)


def difference(case: Case, ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> str:
    """Where two results differ by more than the case allows, in words; empty where they agree.

    Where one gives a number for each sequence and the other their sum, sums are compared.
    """
    for name in ours.keys() & theirs.keys():
        mine, other = (np.asarray(a[name], np.float64) for a in (ours, theirs))
        if mine.shape != other.shape:
            mine, other = mine.sum(), other.sum()
        allowed = case.agreement[name]
        if allowed.together:
            mine, other = np.sqrt((mine**2).mean()), np.sqrt((mine**2).mean()) + np.sqrt(((mine - other) ** 2).mean())
        apart = np.abs(mine - other) - allowed.relative * np.abs(mine)
        if not (apart <= allowed.absolute).all():
            worst = float(np.nanmax(np.abs(mine - other)))
            return f"{name} differs by up to {worst:.3g}"
    return ""


def measure_memory(case: Case, pool: Pool, contenders: Iterable[str]) -> dict[str, dict[str, float]]:
    """Megabytes at the peak of a process that does this and nothing else."""
    found = {}
    for name in contenders:
        process = pool.fresh(library(name), case.precision)
        try:
            found[name] = process.ask(PREPARING, do="memory", case=case.key, contender=name, size=dict(case.size))
        except (TooSlow, Failed):
            continue
        finally:
            if process.alive:
                process.end()
    return found


def worth_memory(case: Case, seconds: dict[str, list[float]]) -> list[str]:
    """Those whose memory is shown: ours, and peers that were timed."""
    return [name for name in seconds if name == OURS or is_peer(name)] if case.memory else []
