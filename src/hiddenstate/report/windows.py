"""Which part of data is shown: charts of what was held out, short enough to be looked at."""

from dataclasses import dataclass

import numpy as np

from hiddenstate.core import Sequences

MOST_STEPS = 200
"""So many steps of a sequence are shown."""


@dataclass(frozen=True, eq=False)
class Window:
    """One sequence, cut where the chart ends, and the first step to show: those before it were only read."""

    data: Sequences
    first: int

    @property
    def name(self) -> str:
        """What the sequence is called."""
        return self.data.names[0]

    @property
    def steps(self) -> np.ndarray:
        """The numbers of the steps that are shown."""
        return np.arange(self.first, self.data.length)


def starts_of(data: Sequences) -> np.ndarray:
    """The first step of each sequence that counts."""
    return np.zeros(len(data), int) if data.context is None else np.asarray(data.context)


def window_of(data: Sequences, number: int, most: int = MOST_STEPS) -> Window:
    """What is shown of one sequence: the steps that count, or the first of them."""
    first = int(starts_of(data)[number])
    stop = min(int(data.lengths[number]), first + most)
    whole = len(data) == 1 and stop == data.length  # what was compiled for it runs again
    return Window(data if whole else data[[number]].window(0, stop), first)


def longest_window(data: Sequences, most: int = MOST_STEPS) -> Window:
    """What is shown of the sequence with most steps that count."""
    return window_of(data, int(np.argmax(data.lengths - starts_of(data))), most)


def spread(count: int, most: int) -> np.ndarray:
    """Numbers below `count`, at most so many, evenly apart."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def observed_values(data: Sequences, number: int, column: int) -> np.ndarray:
    """A column of one sequence as floats, NaN where it is missing."""
    values = np.asarray(data[number], float).reshape(data.lengths[number], -1)[:, column]
    if data.observed is None:
        return values
    known = data.observed[number, : data.lengths[number]].reshape(data.lengths[number], -1)[:, column]
    return np.where(known, values, np.nan)
