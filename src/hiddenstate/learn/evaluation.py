"""How well learned arrays predict a data set, in bounded memory."""

import math

from hiddenstate.core import ConditionalModel, Pairs, SequenceModel, Sequences
from hiddenstate.learn.minibatches import chunks, even
from hiddenstate.learn.updates import Learner, Leaves

STEPS_AT_ONCE = 2**16
"""Longer minibatches are cut in time, with the states carried over, so that memory stays bounded."""


def nats_per_step(
    learner: Learner, learned: Leaves, model: SequenceModel | ConditionalModel, data: Sequences | Pairs, size: int
) -> float:
    """Minus the mean log-probability of the steps of `data`, `size` sequences at a time."""
    totals = []
    for batch in data.batches(size):
        carried = None
        for part in chunks(even(model, batch, data, size), max(1, STEPS_AT_ONCE // len(batch))):
            total, carried = learner.total(learned, part, carried)
            totals.append(float(total))
    return -math.fsum(totals) / data.scored_steps if all(map(math.isfinite, totals)) else -sum(totals)
