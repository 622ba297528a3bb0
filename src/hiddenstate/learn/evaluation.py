"""How well learned arrays predict a data set, in bounded memory."""

import math
from typing import Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import ConditionalModel, Pairs, SequenceModel, Sequences
from hiddenstate.learn.chance import moment_at
from hiddenstate.learn.minibatches import Place, chunks, even
from hiddenstate.learn.updates import Learner, Learners, Leaves

STEPS_AT_ONCE = 2**16
"""Longer minibatches are cut in time, with the states carried over, so that memory stays bounded."""

LAST = 2**31 - 1
"""The number of the update that an objective is judged at: that to which its schedule leads."""


def nats_per_step(
    learner: Learner,
    learned: Leaves,
    model: SequenceModel | ConditionalModel,
    data: Sequences | Pairs,
    size: int,
    key: PRNGKeyArray | None = None,
) -> float:
    """Minus the mean log-probability of the steps of `data`, `size` sequences at a time.

    With a key it is the learner's objective, which draws from it.
    """
    totals = [float(total) for total in _totals(learner, learned, model, data, size, key)]
    return _mean(totals, data)


def each_nats_per_step(
    learners: Learners, learned: Leaves, model: Any, data: Sequences | Pairs, size: int, key: PRNGKeyArray | None
) -> list[float]:
    """As `nats_per_step`, of several models at once."""
    totals = np.stack([np.asarray(total, np.float64) for total in _totals(learners, learned, model, data, size, key)])
    return [_mean(column.tolist(), data) for column in totals.T]


def _totals(learner: Learner | Learners, learned: Leaves, model: Any, data: Any, size: int, key: Any) -> list[Any]:
    totals = []
    for number, batch in enumerate(data.batches(size)):
        carried = None
        for chunk, part in enumerate(chunks(even(model, batch, data, size), max(1, STEPS_AT_ONCE // len(batch)))):
            moment = None if key is None else moment_at(key, Place(0, number, chunk), LAST)
            total, carried = learner.total(learned, part, carried, moment)
            totals.append(total)
    return totals


def _mean(totals: list[float], data: Sequences | Pairs) -> float:
    return -math.fsum(totals) / data.scored_steps if all(map(math.isfinite, totals)) else -sum(totals)
