"""The table of a comparison as a dot plot."""

from pathlib import Path

import numpy as np

from hiddenstate.learn.compare import Comparison
from hiddenstate.report import style


def plot_ranking(comparison: Comparison, path: str | Path) -> None:
    """Draw nats per step, and how far each model is behind the best, with standard errors."""
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step)]
    places = np.arange(len(rows))
    with style.canvas(path, 8.5, 1.3 + 0.3 * len(comparison.rows)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for place, row in zip(places, rows, strict=True):
            colour = style.FAINT if row.baseline else style.MAIN
            fill = "white" if row.baseline else colour
            look = {"fmt": "o", "color": colour, "markerfacecolor": fill, "markersize": 6, "elinewidth": 1.6}
            left.errorbar(row.nats_per_step, place, xerr=_error(row.standard_error), **look)
            right.errorbar(row.difference, place, xerr=_error(row.difference_error), **look)
        for axes in (left, right):
            style.grid(axes, "x")
            axes.spines["left"].set_visible(False)
        right.axvline(0, color="#b5b5b5", linewidth=0.8, zorder=0)
        left.set_yticks(places, [row.model for row in rows])
        for label, row in zip(left.get_yticklabels(), rows, strict=True):
            label.set_color(style.FAINT if row.baseline else style.INK)
        left.set_ylim(len(rows) - 0.5, -0.5)
        left.set_xlabel("nats per held-out step (lower is better)")
        right.set_xlabel("nats per step behind the best (paired)")
        baselines = " Hollow: baselines." if any(row.baseline for row in rows) else ""
        left.set_title(f"Bars: one standard error.{baselines}", fontsize=9.5, color=style.FAINT)


def _error(value: float) -> float | None:
    return value if np.isfinite(value) else None
