"""A clock that is rarely seen: what it shows now follows from when it was last seen, and what it showed then."""

from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, DataError, Pairs, Schema, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator
from hiddenstate.data.tasks.labelled import LabelledTask


@dataclass(frozen=True)
class ClockOptimal:
    """The best answers there are: the log-probability of each that is asked for, and the share that is right.

    `step_log_probs` (sequence, time) is zero where no answer is asked for.
    """

    step_log_probs: np.ndarray
    accuracy: float


@dataclass(frozen=True, eq=False)
class ClockTask(LabelledTask):
    """A clock that is set anew at random times, and seen only then.

    `transition` (hour, next hour) is how its hand moves in one step where it is not set. The answers follow from
    the sequences that are read by `beliefs`.
    """

    transition: np.ndarray = field(kw_only=True)

    def beliefs(self, data: Any = None) -> np.ndarray:
        """The probability of every hour given what was read so far: (sequence, time, hour).

        The hour that was last seen, moved on by as many steps as have passed: a row of a power of `transition`.
        """
        read = (self.data if data is None else Sequences.of(data)).values
        hours = len(self.transition)
        steps = np.arange(read.shape[1])
        seen = read < hours
        if not seen[:, 0].all():
            raise DataError("a sequence does not begin with an hour; the clock must be seen at the first step.")
        last = np.maximum.accumulate(np.where(seen, steps, 0), axis=1)
        ago = steps - last
        powers = np.empty((ago.max() + 1, hours, hours))
        powers[0] = np.eye(hours)
        for k in range(1, len(powers)):
            powers[k] = powers[k - 1] @ self.transition
        return powers[ago, np.take_along_axis(read, last, axis=1)]

    def optimal(self, pairs: Pairs | None = None) -> ClockOptimal:
        """What the best possible answers to these pairs (the task's own by default) reach: those by `beliefs`."""
        pairs = self.pairs if pairs is None else pairs
        beliefs, asked = self.beliefs(pairs.sources), pairs.scored
        answers = np.where(asked, pairs.targets.values, 0)
        given = np.take_along_axis(beliefs, answers[..., None], axis=2)[..., 0]
        log_probs = np.log(given, out=np.full(given.shape, -np.inf), where=given > 0)
        right = (beliefs.argmax(axis=2) == answers)[asked]
        return ClockOptimal(np.where(asked, log_probs, 0.0), float(right.mean()) if right.size else float("nan"))


def clock(
    *,
    hours: int = 12,
    speed: int = 1,
    slip: float = 0.0,
    reset: float = 0.1,
    ask: float = 0.3,
    length: int,
    sequences: int,
    key: PRNGKeyArray,
) -> ClockTask:
    """Say what a clock shows that was last seen some steps ago.

    A hand moves around `hours` hours by `speed` a step; with probability `slip` it misses a step. With probability
    `reset` it is set to any hour instead, which is then seen, and so it is at the first step. Of the other steps a
    share `ask` is a question, whose answer is the hour at that step; nothing is seen at the rest. So the answer asks
    for what was seen, and for how long ago: a state that is only copied until the next reset knows the first alone.
    The codes are 0 to ``hours - 1``, then the blank, then the question.
    """
    check_sizes(hours=hours, length=length, sequences=sequences)
    if isinstance(speed, bool) or not isinstance(speed, int | np.integer):
        raise DataError(f"speed is {speed!r}; it must be a whole number of hours a step.")
    for name, share in {"slip": slip, "reset": reset, "ask": ask}.items():
        if not 0 <= share <= 1:
            raise DataError(f"{name} is {share!r}; it must be a probability, between 0 and 1.")
    random = generator(key)
    slipped, asked, seen = (random.random((sequences, length)) < share for share in (slip, ask, reset))
    seen[:, 0] = True
    drawn = random.integers(hours, size=(sequences, length))
    # The hand has moved since it was set by the sum of all moves until now, less that until then.
    moved = np.cumsum(np.where(slipped, 0, speed), axis=1)
    last = np.maximum.accumulate(np.where(seen, np.arange(length), 0), axis=1)
    now = np.take_along_axis(drawn - moved, last, axis=1) + moved
    hidden = (now % hours).astype(np.int32)
    asked &= ~seen
    read = np.where(seen, hidden, np.where(asked, hours + 1, hours)).astype(np.int32)
    names = (*(str(i) for i in range(hours)), "blank", "?")
    moves = np.roll(np.eye(hours), speed, axis=1)
    return ClockTask(
        data=Sequences.padded(read, schema=Schema((Column("hour", "symbol", hours + 2, names),), scalar=True)),
        targets=hidden,
        scored=asked,
        baseline=log(hours),
        transition=slip * np.eye(hours) + (1 - slip) * moves,
    )
