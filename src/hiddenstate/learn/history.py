"""What happened at every update, kept while it happens."""

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from hiddenstate.core import FileError

_TYPES = {
    "step": np.int64,
    "epoch": np.int64,
    "loss": np.float64,
    "gradient_norm": np.float64,
}


class History:
    """Rows that are only ever added: a run that stands at step n has the first n of them."""

    def __init__(self):
        self._rows: list[tuple[int, int, float, float]] = []
        self._evaluations: list[tuple[int, float]] = []

    def add(self, step: int, epoch: int, loss: float, gradient_norm: float) -> None:
        """One update."""
        self._rows.append((step, epoch, loss, gradient_norm))

    def evaluate(self, step: int, value: float) -> None:
        """The validation after that step."""
        self._evaluations.append((step, value))

    @property
    def last_loss(self) -> float:
        """The loss at the last update; not a number before the first."""
        return self._rows[-1][2] if self._rows else math.nan

    def frame(self) -> pl.DataFrame:
        """One row per update, with `validation` null where it was not evaluated."""
        columns = dict(zip(_TYPES, zip(*self._rows, strict=True), strict=True)) if self._rows else {}
        validation: list[float | None] = [None] * len(self._rows)
        for step, value in self._evaluations:
            validation[step - 1] = value
        named = {name: np.array(columns.get(name, ()), dtype) for name, dtype in _TYPES.items()}
        frame = pl.DataFrame(named).with_columns(pl.Series("validation", validation, dtype=pl.Float64))
        return frame.select("step", "epoch", "loss", "validation", "gradient_norm")

    def arrays(self, step: int, evaluated: int) -> dict[str, np.ndarray]:
        """The first `step` rows and the evaluations up to step `evaluated`, for a checkpoint."""
        rows = self._rows[:step]
        known = [pair for pair in self._evaluations if pair[0] <= evaluated]
        out = {name: np.array([row[i] for row in rows], dtype) for i, (name, dtype) in enumerate(_TYPES.items())}
        out["evaluated"] = np.array([step for step, _ in known], np.int64)
        out["validation"] = np.array([value for _, value in known], np.float64)
        return out

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], step: int) -> "History":
        """The history that `arrays` was taken from."""
        expected = {**_TYPES, "evaluated": np.int64, "validation": np.float64}
        if {name: a.dtype for name, a in arrays.items()} != expected or any(len(arrays[n]) != step for n in _TYPES):
            raise FileError(f"its history does not have {step} rows.")
        history = cls()
        history._rows = list(zip(*(arrays[name].tolist() for name in _TYPES), strict=True))
        history._evaluations = list(zip(arrays["evaluated"].tolist(), arrays["validation"].tolist(), strict=True))
        return history
