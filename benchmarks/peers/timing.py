"""From times to ratios. Rounds are interleaved, so that a ratio inside a round sees one state of the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peers.case import OURS, is_peer

BUDGET = 1.2
"""Seconds that one contender may take for the rounds of one case."""

ROUNDS, FEWEST = 15, 5
"""How many rounds there are; at least the second number where a call takes less than `LONG` seconds."""

LONG = 0.5
SHORTEST = 5e-4
"""Calls that take less are timed together, so many that they take so many seconds."""

TURN = 0.03
"""Seconds of a round in which a contender is timed again and again; the least time of the round counts."""


@dataclass(frozen=True)
class Plan:
    """In each of `rounds` rounds a contender is timed `times` times, each time over `number` calls."""

    rounds: int
    times: int
    number: int


def plan(seconds: float, *, quick: bool = False) -> Plan:
    """By what one call takes: at most 15 rounds in about a second, at least five, or two or one where it takes long."""
    number = max(1, int(np.ceil(SHORTEST / max(seconds, 1e-9))))
    times = max(1, int(np.ceil(TURN / max(number * seconds, 1e-9))))
    most, fewest, budget = (4, 2, BUDGET / 4) if quick else (ROUNDS, FEWEST if seconds < LONG else 2, BUDGET)
    if seconds > 2:
        return Plan(1, times, number)
    return Plan(int(np.clip(budget / (seconds * (times * number + 1)), fewest, most)), times, number)


@dataclass(frozen=True)
class Ratio:
    """How many times as long a peer takes: by the best times, and the quartiles over rounds."""

    peer: str
    best: float
    low: float
    median: float
    high: float


def ratio(ours: Sequence[float], theirs: Sequence[float], peer: str = "") -> Ratio:
    """Their times over ours; a round is compared with itself, and rounds that only one of the two had are left out."""
    rounds = min(len(ours), len(theirs))
    each = np.asarray(theirs[:rounds]) / np.asarray(ours[:rounds])
    low, median, high = np.quantile(each, [0.25, 0.5, 0.75])
    return Ratio(peer, min(theirs) / min(ours), float(low), float(median), float(high))


def ratios(times: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    """The ratio of every contender to ours."""
    if not times.get(OURS):
        return {}
    return {name: ratio(times[OURS], taken, name) for name, taken in times.items() if name != OURS and taken}


def against_best_peer(times: Mapping[str, Sequence[float]]) -> Ratio | None:
    """The ratio of the fastest peer to ours; None where there is none."""
    found = [one for name, one in ratios(times).items() if is_peer(name)]
    return min(found, key=lambda one: one.best) if found else None


def share_of_peak(seconds: float, multiply_adds: float, bytes_: float, fma_rate: float, bandwidth: float) -> float:
    """How much of the time is what the limiting one of arithmetic and memory needs."""
    return max(multiply_adds / fma_rate, bytes_ / bandwidth) / seconds
