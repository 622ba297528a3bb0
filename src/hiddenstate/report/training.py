"""How the models of a comparison learned."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from hiddenstate.learn.compare import Comparison
from hiddenstate.report import style
from hiddenstate.report.ranking import unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_training(comparison: Comparison, path: str | Path) -> None:
    """Draw the validation of every model over its updates, with a dot where it was best."""
    from matplotlib.ticker import MaxNLocator

    baselines = [row.model for row in comparison.rows if row.baseline]
    colour = style.colours(comparison.models, baselines)
    curves = {name: curve_of(comparison.histories[name]) for name in comparison.models}
    with style.canvas(path, 8, 4.2) as figure:
        axes = figure.subplots()
        for name in sorted(set(curves) - set(baselines)):
            _draw_curve(axes, *curves[name], colour[name], name)
        levels = [(float(curves[n][1][-1]), n, colour[n]) for n in baselines if len(curves[n][1])]
        for level, _, grey in levels:
            axes.axhline(level, color=grey, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_ylim(*range_of(curves, baselines))
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.label_ends(axes, levels)
        axes.set_xlabel("updates (dots: the model that was kept)")
        axes.set_ylabel(f"validation, nats per {unit_of(comparison)} (lower is better)")
        style.grid(axes)
        if len(curves) > len(baselines):
            axes.legend(ncols=8, loc="lower left", bbox_to_anchor=(0, 1), columnspacing=1.2, handlelength=1.4)


def _draw_curve(axes: "Axes", steps: np.ndarray, values: np.ndarray, colour: str, name: str) -> None:
    axes.plot(steps, values, color=colour, linewidth=1.3, label=name, zorder=2)
    if np.isfinite(values).any():
        best = int(np.nanargmin(values))
        axes.plot(steps[best], values[best], "o", color=colour, markersize=5, zorder=3)


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
