"""What of a comparison its charts show: units, which models, which steps, which part of a curve."""

import numpy as np
import polars as pl

from hiddenstate.core import Pairs, Sequences
from hiddenstate.learn.compare import Comparison, Row


def unit_of(comparison: Comparison) -> str:
    """What the nats are counted by: steps that are predicted, or answers."""
    return "answer" if isinstance(comparison.test, Pairs) else "step"


def is_far(row: Row, rows: list[Row]) -> bool:
    """Whether a model is so far behind the worst baseline that it would squeeze the others."""
    known = [r.difference for r in rows if r.baseline]
    limit = max(2 * max(known, default=np.inf), 3 * float(np.median([r.difference for r in rows])))
    return row.difference > limit > 0


def curve_of(history: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Updates and validation, where that was computed."""
    seen = history.filter(pl.col("validation").is_not_null())
    return seen["step"].to_numpy(), seen["validation"].to_numpy()


def range_of(
    curves: dict[str, tuple[np.ndarray, np.ndarray]], baselines: list[str]
) -> tuple[float | None, float | None]:
    """Limits that show how curves begin and where they are best; overfitting may leave the frame."""
    finite = {name: values[np.isfinite(values)] for name, (_, values) in curves.items()}
    finite = {name: values for name, values in finite.items() if len(values)}
    if not finite:
        return None, None
    low = min(float(values.min()) for values in finite.values())
    levels = [float(finite[name][-1]) for name in baselines if name in finite]
    begun = [float(values[0]) for name, values in finite.items() if name not in baselines]
    high = max([*levels, float(np.median(begun)) if begun else low, *(v.min() for v in finite.values())])
    margin = 0.06 * (high - low) or 0.1
    return low - margin, high + margin


def scored(data: Sequences) -> np.ndarray:
    """True at the steps that count, (sequence, time)."""
    starts = np.zeros(len(data), int) if data.context is None else data.context
    return data.valid & (np.arange(data.length) >= starts[:, None])
