"""The table of a comparison as a dot plot."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hiddenstate.core import Pairs
from hiddenstate.learn.compare import Comparison, Row
from hiddenstate.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def unit_of(comparison: Comparison) -> str:
    """What the nats are counted by: steps that are predicted, or answers."""
    return "answer" if isinstance(comparison.test, Pairs) else "step"


def plot_ranking(comparison: Comparison, path: str | Path) -> None:
    """Draw nats per step, and how far each model is behind the best, with standard errors."""
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step)]
    places = np.arange(len(rows))
    with style.canvas(path, 8.5, max(2.2, 1.3 + 0.3 * len(comparison.rows))) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for place, row in zip(places, rows, strict=True):
            if is_far(row, rows):
                continue
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
        _leave_out_far(left, right, rows)
        _mark_optimal(left, comparison.optimal_nats_per_step)
        left.set_xlabel(f"nats per held-out {unit_of(comparison)} (lower is better)")
        right.set_xlabel(f"nats per {unit_of(comparison)} behind the best (paired)")
        baselines = " Hollow: baselines." if any(row.baseline for row in rows) else ""
        left.set_title(f"Bars: one standard error.{baselines}", fontsize=9.5, color=style.FAINT)


def _mark_optimal(axes: "Axes", optimal: float | None) -> None:
    """A line where the best possible prediction is, where that is known."""
    if optimal is None:
        return
    axes.axvline(optimal, color=style.ACCENT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate(
        "best possible",
        (optimal, 0.02),
        (4, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=style.ACCENT,
        fontsize=8.5,
    )


def _leave_out_far(left: "Axes", right: "Axes", rows: list[Row]) -> None:
    """Models far behind the worst baseline are told by an arrow, so that they do not squeeze the others."""
    near = [row for row in rows if not is_far(row, rows)]
    far = [(place, row) for place, row in enumerate(rows) if is_far(row, rows)]
    if not far:
        return
    for axes, value, error in (
        (left, "nats_per_step", "standard_error"),
        (right, "difference", "difference_error"),
    ):
        lows = [getattr(row, value) - _error(getattr(row, error)) for row in near]
        highs = [getattr(row, value) + _error(getattr(row, error)) for row in near]
        margin = 0.06 * (max(highs) - min(lows))
        axes.set_xlim(min(lows) - margin, max(highs) + margin)
        for place, row in far:
            axes.annotate(
                f"{getattr(row, value):.2f} \N{RIGHTWARDS ARROW}",
                (0.99, place),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="center",
                color=style.MAIN,
            )


def is_far(row: Row, rows: list[Row]) -> bool:
    """Whether a model is so far behind the worst baseline that it would squeeze the others."""
    known = [r.difference for r in rows if r.baseline]
    limit = max(2 * max(known, default=np.inf), 3 * float(np.median([r.difference for r in rows])))
    return row.difference > limit > 0


def _error(value: float) -> float:
    return value if np.isfinite(value) else 0.0
