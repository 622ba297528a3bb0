"""A task that asks for answers to what was read, rather than for the next observation."""

from dataclasses import dataclass

import numpy as np

from hiddenstate.core import Pairs, Sequences


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """Sequences to read and the answers to give.

    `data` is read step by step. `targets` are the answers: (sequence, time) where one is due at every step,
    or (sequence,) where one is due at the end. `scored` (sequence, time) is True at the steps whose answer
    counts, None where all do. `baseline` is the loss of the best answer that remembers nothing: nats per step
    for symbols, squared error for numbers.

    `stream` is the same task as one stream of symbols that a model is to predict, answers included, or None.
    `optimal_log_prob` is then the log-probability of each such sequence, the same for all, under the best
    possible predictor: what is random costs its entropy, every answer costs nothing.
    """

    data: Sequences
    targets: np.ndarray
    scored: np.ndarray | None
    baseline: float
    stream: Sequences | None = None
    optimal_log_prob: float | None = None

    @property
    def pairs(self) -> Pairs:
        """The sequences with their answers, for a model that is to give them; what is not scored is missing."""
        if self.targets.ndim == 1:
            return Pairs.of(self.data, self.targets)
        schema = self.data.schema if np.issubdtype(self.targets.dtype, np.integer) else None
        missing = None if self.scored is None else ~self.scored
        return Pairs(self.data, Sequences.padded(self.targets, missing=missing, schema=schema))
