"""Sequences that follow one of several patterns: a test of predictions with more than one peak."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator


@dataclass(frozen=True, eq=False)
class ModesTask:
    """Sequences whose pattern is chosen at random at the start, and again at the start of every segment.

    `chosen` (sequence, segment) says which; `patterns` (mode, step) are the means and `noise` the standard
    deviation around them; a segment has ``patterns.shape[1]`` steps.
    """

    data: Sequences
    chosen: np.ndarray
    patterns: np.ndarray
    noise: float

    def optimal_step_log_probs(self, data: Any = None) -> np.ndarray:
        """The log-density of each step (sequence, time) under the best predictor: a mixture over the modes.

        Its weights are what the steps of the segment so far say of the mode; they start equal.
        """
        data = self.data if data is None else Sequences.of(data)
        if data.event_shape:
            raise DataError(f"the task's sequences hold one number a step; got {data!r}.")
        segment = self.patterns.shape[1]
        observed = data.valid & (True if data.observed is None else data.observed)
        within = np.arange(data.length) % segment
        errors = (np.nan_to_num(data.values, nan=0.0)[..., None] - self.patterns[:, within].T) / self.noise
        density = -0.5 * errors**2 - np.log(self.noise) - 0.5 * np.log(2 * np.pi)
        density = np.where(observed[..., None], density, 0.0)
        total = np.cumsum(density, axis=1)
        before = total - density
        # What was known when the segment began is no news of its mode.
        start = np.arange(data.length) - within
        total, before = total - before[:, start], before - before[:, start]
        return np.where(observed, _log_mean_exp(total) - _log_mean_exp(before), 0.0)

    def optimal_log_prob(self, data: Any = None) -> np.ndarray:
        """The log-density of each sequence under the true model, in nats."""
        return self.optimal_step_log_probs(data).sum(axis=1)


def modes(
    modes: int = 4,
    *,
    sequences: int,
    length: int,
    segment: int | None = None,
    noise: float = 0.1,
    key: PRNGKeyArray,
) -> ModesTask:
    """Real sequences that follow one of several smooth patterns, chosen at random every `segment` steps.

    By default the choice is made once, at the start (``segment=length``). A pattern is a level, from -2 to 2
    evenly, with a wave of random period and phase on it, so that a segment's first step has `modes` separate
    peaks: a Gaussian prediction must cover all of them and loses about ``log(1.3 / noise) - log(modes)`` nats
    there, however good its memory. After the first step the past tells the mode, and the rest is easy.
    """
    segment = length if segment is None else segment
    check_sizes(modes=modes, sequences=sequences, length=length, segment=segment)
    if not noise > 0:
        raise DataError(f"noise is {noise}; it must be positive.")
    random = generator(key)
    levels = np.linspace(-2.0, 2.0, modes) if modes > 1 else np.zeros(1)
    periods, phases = random.uniform(8.0, 32.0, modes), random.uniform(0.0, 2 * np.pi, modes)
    steps = np.arange(min(segment, length))
    patterns = levels[:, None] + 0.3 * np.sin(2 * np.pi * steps / periods[:, None] + phases[:, None])
    chosen = random.integers(modes, size=(sequences, -(-length // segment)))
    means = patterns[chosen].reshape(sequences, -1)[:, :length]
    return ModesTask(Sequences.padded(means + noise * random.standard_normal(means.shape)), chosen, patterns, noise)


def _log_mean_exp(logits: np.ndarray) -> np.ndarray:
    high = logits.max(axis=-1)
    return high + np.log(np.exp(logits - high[..., None]).mean(axis=-1))
