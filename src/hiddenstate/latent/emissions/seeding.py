"""What was seen, as rows, and clusters of it: where emissions start from. All of it NumPy."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenstate.core import DataError, Sequences, Steps

_MOST = 10_000
_SHARE = 1e-3
"""No cluster starts with a variance below this share of the least varied column's."""


@dataclass(frozen=True)
class Seen:
    """Steps of all sequences as rows, of which something was observed; at most 10,000 of them, chosen at random."""

    values: np.ndarray
    observed: np.ndarray | None
    inputs: np.ndarray | None
    pasts: np.ndarray | None

    @classmethod
    def of(cls, data: Sequences, emission: Any, random: np.random.Generator) -> "Seen":
        """The rows of `data` that an emission can learn from; too few for its states are an error."""
        check_shape(data, emission)
        good = np.array(data.valid)
        observed = None if data.observed is None else data.observed.reshape(data.shape)
        lags = emission.history
        if observed is not None:
            flat = observed.reshape(*observed.shape[:2], -1)
            good &= flat.all(-1) if lags else flat.any(-1)
        pasts = None
        if lags:
            start = np.broadcast_to(np.asarray(emission.start_values, float), (len(data), lags, *data.event_shape))
            longer = np.concatenate([start, data.values], axis=1)
            pasts = np.stack([longer[:, i : i + data.length] for i in range(lags)], axis=2)
            good &= np.isfinite(pasts).reshape(*good.shape, -1).all(-1)
        check_enough(int(good.sum()), emission.states)
        rows = np.argwhere(good)
        if len(rows) > _MOST:
            rows = rows[np.sort(random.choice(len(rows), _MOST, replace=False))]
        index = tuple(rows.T)
        part = None if observed is None else observed[index]
        return cls(
            data.values[index],
            None if part is None or part.all() else part,
            None if data.inputs is None else data.inputs[index].astype(float),
            None if pasts is None else pasts[index],
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def filled(self) -> np.ndarray:
        """The rows as floats (row, column), with a column's mean where its value is missing."""
        table = self.values.astype(float).reshape(len(self), -1)
        if self.observed is None:
            return table
        observed = self.observed.reshape(table.shape)
        means = np.where(observed, table, 0).sum(0) / np.maximum(observed.sum(0), 1)
        return np.where(observed, table, means)

    @property
    def floor(self) -> float:
        """A small variance beside those of the columns."""
        variances = self.filled.var(0)
        return _SHARE * float(variances[variances > 0].min(initial=np.inf)) if (variances > 0).any() else _SHARE

    def column_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each column over what was observed; the variance is 1 where nothing varies."""
        table = self.filled
        seen = np.ones(table.shape) if self.observed is None else self.observed.reshape(table.shape)
        means = table.mean(0)
        variances = ((table - means) ** 2).sum(0) / np.maximum(seen.sum(0), 1)
        return means, np.where(variances > 1e-12 * np.maximum(means**2, 1e-300), variances, 1.0)

    def drawn(self, count: int, random: np.random.Generator) -> np.ndarray:
        """So many rows at random, all different while there are enough."""
        return self.filled[random.choice(len(self), count, replace=count > len(self))]

    def steps(self, dtype: Any) -> Steps:
        """The rows as if they were the steps of one sequence."""
        values = np.nan_to_num(self.values) if np.issubdtype(self.values.dtype, np.floating) else self.values
        values = values.astype(dtype) if np.issubdtype(values.dtype, np.floating) else values
        return Steps(values, None if self.inputs is None else self.inputs.astype(dtype), self.observed)

    def lags(self, dtype: Any) -> Any:
        """The past of every row, where the emission has a history."""
        return None if self.pasts is None else self.pasts.astype(dtype)

    def columns(self, entries: Any) -> "Seen":
        """Only these entries of every row: a number for single values, a slice for vectors."""
        return Seen(
            self.values[:, entries],
            None if self.observed is None else self.observed[:, entries],
            self.inputs,
            None,
        )


def check_shape(data: Sequences, emission: Any) -> None:
    """Raise unless the observations have the shape that the emission is for."""
    if data.event_shape != emission.event_shape:
        raise DataError(
            f"each observation has shape {data.event_shape}, but this {type(emission).__name__} is for observations of "
            f"shape {emission.event_shape}."
        )
    if emission.inputs:
        got = 0 if data.inputs is None else data.inputs.shape[2]
        if got != emission.inputs:
            raise DataError(
                f"this {type(emission).__name__} takes {emission.inputs} inputs at every step, but the data have {got}."
            )


def check_enough(steps: int, states: int) -> None:
    """Raise unless there is a step for every state."""
    if steps < states:
        raise DataError(f"{states} hidden states need at least {states} observed steps, but the data hold {steps}.")


def standardised(table: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1; constant ones are left out of it and become 0."""
    spread = table.std(0)
    varies = spread > 1e-12 * np.abs(table).max(0, initial=0)
    return np.where(varies, (table - table.mean(0)) / np.where(varies, spread, 1), 0.0)


def clusters(points: np.ndarray, count: int, random: np.random.Generator, rounds: int = 20) -> np.ndarray:
    """A label for each point (row, number): k-means++ (Arthur and Vassilvitskii 2007), then Lloyd's rounds.

    Every new centre is the best of a few candidates. Where there are fewer different points than clusters, some
    clusters stay empty.
    """
    tries = 2 + int(np.log(count))
    centres = points[random.integers(len(points))][None]
    nearest = ((points - centres[0]) ** 2).sum(1)
    while len(centres) < count and nearest.sum() > 0:
        drawn = random.choice(len(points), tries, p=nearest / nearest.sum())
        apart = np.minimum(nearest, ((points[None] - points[drawn][:, None]) ** 2).sum(-1))
        best = int(apart.sum(1).argmin())
        centres, nearest = np.concatenate([centres, points[drawn[best]][None]]), apart[best]
    labels = _nearest(points, centres)
    for _ in range(rounds):
        sizes = np.bincount(labels, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, points)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        again = _nearest(points, centres)
        if (again == labels).all():
            break
        labels = again
    return labels


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return ((centres**2).sum(1) - 2 * points @ centres.T).argmin(1)
