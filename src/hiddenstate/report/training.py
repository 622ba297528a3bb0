"""How the models of a comparison learned."""

from pathlib import Path

import numpy as np
import polars as pl

from hiddenstate.learn.compare import Comparison
from hiddenstate.report import style


def plot_training(comparison: Comparison, path: str | Path) -> None:
    """Draw the validation of every model over its updates, with a dot where it was best."""
    baselines = [row.model for row in comparison.rows if row.baseline]
    colour = style.colours(comparison.models, baselines)
    curves = {name: _curve(comparison.histories[name]) for name in comparison.models}
    with style.canvas(path, 8, 4.2) as figure:
        axes = figure.subplots()
        for i, (name, (steps, values)) in enumerate(sorted(curves.items())):
            if not len(values):
                continue
            if name in baselines:
                axes.axhline(
                    values[-1], color=colour[name], linewidth=1, linestyle=(0, (4, 3)), zorder=1, label=name
                )
                continue
            axes.plot(steps, values, color=colour[name], linewidth=1.3, label=name, zorder=2)
            best = int(np.nanargmin(values)) if np.isfinite(values).any() else 0
            axes.plot(steps[best], values[best], "o", color=colour[name], markersize=5, zorder=3 + i)
        low, high = _range([values for values in curves.values() if len(values[1])])
        axes.set_ylim(low, high)
        axes.set_xlabel("updates")
        axes.set_ylabel("validation, nats per step (lower is better)")
        style.grid(axes)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _curve(history: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    seen = history.filter(pl.col("validation").is_not_null())
    return seen["step"].to_numpy(), seen["validation"].to_numpy()


def _range(curves: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float | None, float | None]:
    """Limits that show where curves end up, cutting off the highest of how they began."""
    finite = [values[np.isfinite(values)] for _, values in curves]
    finite = [values for values in finite if len(values)]
    if not finite:
        return None, None
    low = min(values.min() for values in finite)
    ends = max(values[-1] for values in finite)
    usual = max(float(np.quantile(values, 0.9)) for values in finite)
    high = max(ends, usual)
    margin = 0.06 * (high - low) or 0.1
    return low - margin, high + margin
