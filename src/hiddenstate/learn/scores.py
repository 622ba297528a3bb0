"""Held-out scores with honest standard errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenstate.core import ConditionalModel, Pairs, SequenceModel, Sequences
from hiddenstate.inference import data_for, step_log_probs
from hiddenstate.strategies import Auto, Strategy

FEWEST = 20
"""Fewer sequences than this are cut into blocks, so that the error is estimated from at least so many parts."""


@dataclass(frozen=True)
class Score:
    """How many nats a model needs per step (lower is better), with the standard error of that number."""

    nats_per_step: float
    standard_error: float
    steps: int
    unit: str = "step"
    """What a step is: an ``"answer"`` of pairs."""

    def __str__(self) -> str:
        return f"{self.rate()} nats per {self.unit} ({self.steps} {self.unit}{'s' if self.steps != 1 else ''})"

    def rate(self, digits: int = 4) -> str:
        """The number with its standard error, where there is one: a single step has none."""
        error = f" ± {self.standard_error:.{digits}f}" if np.isfinite(self.standard_error) else ""
        return f"{self.nats_per_step:.{digits}f}{error}"


def score(model: SequenceModel | ConditionalModel, data: Any, *, strategy: Strategy = Auto(), given: int = 0) -> Score:
    """Minus the mean log-probability per step of data, given their context where they have one.

    With `given`, at least the first so many steps of each sequence are context: they are read and not scored.

    Steps within a sequence depend on each other, so the error comes from whole sequences, or, where they are few, from
    blocks of neighbouring steps. Of pairs the steps are those of the targets, without missing ones.
    """
    data = data_for(model, data, given)
    return score_of(step_nats(model, data, strategy=strategy), data)


def step_nats(model: Any, data: Sequences | Pairs, *, strategy: Strategy = Auto()) -> np.ndarray:
    """-log p of every step, (sequence, time); zero where a step does not count."""
    return -np.asarray(step_log_probs(model, data, strategy=strategy), np.float64)


def score_of(nats: np.ndarray, data: Sequences | Pairs) -> Score:
    """The score that the nats of every step amount to."""
    totals, steps = _parts(nats, data)
    rate = totals.sum() / steps.sum()
    error = _error(totals - rate * steps, steps) if np.isfinite(rate) else float("nan")
    return Score(float(rate), error, int(steps.sum()), "answer" if isinstance(data, Pairs) else "step")


def _error(residuals: np.ndarray, steps: np.ndarray) -> float:
    """The standard error of a ratio of sums: by how much the parts differ from what their lengths would give."""
    count = len(residuals)
    if count < 2:
        return float("nan")
    return float(np.sqrt((residuals**2).sum() * count / (count - 1)) / steps.sum())


def _parts(nats: np.ndarray, data: Sequences | Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Nats and steps of each sequence, or of each block where sequences are few."""
    blocks = max(1, -(-FEWEST // len(data)))
    totals, steps = [], []
    for row, counts in zip(nats, _counting(data), strict=True):
        kept = row[counts]
        if not len(kept):  # nothing but context
            continue
        for part in np.array_split(kept, max(1, min(blocks, len(kept)))):
            totals.append(part.sum())
            steps.append(len(part))
    return np.array(totals), np.array(steps)


def _counting(data: Sequences | Pairs) -> np.ndarray:
    """A boolean array (sequence, time): True at the steps that count."""
    if isinstance(data, Pairs):
        return data.scored
    starts = np.zeros(len(data), int) if data.context is None else data.context
    return data.valid & (np.arange(data.length) >= starts[:, None])
