"""A comparison of models as charts: who predicts best, where, how they learned, and how long that took."""

from typing import Any

import numpy as np

from hiddenstate.core import Pairs
from hiddenstate.learn.compare import Comparison
from hiddenstate.report.charts import Chart, Layer, Line, Points, Rule
from hiddenstate.report.comparison_parts import curve_of, is_far, range_of, scored, unit_of

MOST_POINTS = 2000
"""Longer lines of gains are thinned out to so many steps."""


def colour_places(comparison: Comparison) -> dict[str, int]:
    """The place of each model among the colours, the same in every chart."""
    return {name: i for i, name in enumerate(sorted(row.model for row in comparison.rows if not row.baseline))}


def _looks(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Name, colour and variant of each model's layers: baselines are grey, and differ in their marks."""
    baselines = sorted(row.model for row in comparison.rows if row.baseline)
    grey = {name: {"name": name, "colour": "grey", "variant": i} for i, name in enumerate(baselines)}
    return grey | {name: {"name": name, "colour": place} for name, place in colour_places(comparison).items()}


def ranking_charts(comparison: Comparison) -> list[Chart]:
    """Nats per step, and how far each model is behind the best, with standard errors."""
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step)]
    far = [row.model for row in rows if is_far(row, rows)]
    shown = [row for row in rows if row.model not in far]
    unit = unit_of(comparison)
    note = "Bars are one standard error." + (f" Too far behind to be shown: {', '.join(far)}." if far else "")
    titles = {
        "nats_per_step": ("standard_error", "Score", f"nats per held-out {unit} (lower is better)"),
        "difference": ("difference_error", "Behind the best", f"nats per {unit} behind the best, paired"),
    }
    charts = []
    for value, (error, title, axis) in titles.items():
        layers: list[Layer] = []
        for baseline in (False, True):
            some = [(place, row) for place, row in enumerate(shown) if row.baseline is baseline]
            if some:
                errors = [getattr(row, error) if np.isfinite(getattr(row, error)) else 0.0 for _, row in some]
                values = [getattr(row, value) for _, row in some]
                name, colour = ("baselines", "grey") if baseline else ("models", 0)
                layers.append(Points(values, [p for p, _ in some], x_errors=errors, name=name, colour=colour))
        if value == "nats_per_step" and comparison.optimal_nats_per_step is not None:
            layers.append(Rule(comparison.optimal_nats_per_step, "x", name="best possible", colour=1))
        charts.append(Chart(title, axis, "", layers, y_names=[row.model for row in shown], note=note))
    return charts


def learning_charts(comparison: Comparison) -> list[Chart]:
    """How validation fell with every update; baselines are levels."""
    looks, unit = _looks(comparison), unit_of(comparison)
    curves = {name: curve_of(history) for name, history in comparison.histories.items()}
    baselines = [row.model for row in comparison.rows if row.baseline]
    layers: list[Layer] = []
    for row in comparison.rows:
        steps, values = curves[row.model]
        if row.baseline and len(values):
            layers.append(Rule(float(values[-1]), **looks[row.model]))
        elif len(values):
            layers.append(Line(steps, values, **looks[row.model]))
    if not layers:
        return []
    low, high = range_of(curves, baselines)
    return [
        Chart(
            "Learning", "updates", f"validation, nats per {unit} (lower is better)", layers, y_limits=(low, high),
            note="The model of the lowest point is kept.",
        )
    ]  # fmt: skip


def gain_charts(comparison: Comparison) -> list[Chart]:
    """Where in the held-out data models gain on the best baseline; nothing where answers are compared."""
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step)]
    rival = next((row for row in rows if row.baseline), rows[-1])
    if isinstance(comparison.test, Pairs) or len(rows) < 2:
        return []
    looks, counted = _looks(comparison), scored(comparison.test)
    against = comparison.step_nats[rival.model][counted]
    kept = np.unique(np.linspace(0, len(against), min(len(against) + 1, MOST_POINTS)).round().astype(int))
    layers: list[Layer] = []
    for row in rows:
        if row is not rival and not row.baseline:
            gained = np.concatenate([[0.0], np.cumsum(against - comparison.step_nats[row.model][counted])])
            layers.append(Line(kept, gained[kept], **looks[row.model]))
    if not layers:
        return []
    ends = [layer.y[-1] for layer in layers if isinstance(layer, Line)]
    low = min(float(np.min(layer.y)) for layer in layers if isinstance(layer, Line))
    limit = -max(ends) if max(ends) > 0 and low < -2 * max(ends) else None
    many = ", sequence after sequence" if len(comparison.test) > 1 else ""
    return [
        Chart(
            f"Gained on {rival.model}", f"held-out steps{many}", f"nats gained on {rival.model} (up is better)",
            [*layers, Rule(0, colour="grey")], y_limits=(limit, None),
        )
    ]  # fmt: skip


def timing_charts(comparison: Comparison) -> list[Chart]:
    """Seconds of learning against nats."""
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step)]
    shown = [row for row in rows if not is_far(row, rows) and row.seconds > 0]
    if not shown:
        return []
    looks = _looks(comparison)
    layers = [
        Points(
            [row.seconds],
            [row.nats_per_step],
            [row.standard_error if np.isfinite(row.standard_error) else 0.0],
            labels=[f"{row.parameters:,} parameters"],
            **looks[row.model],
        )
        for row in shown
    ]
    title = f"nats per held-out {unit_of(comparison)}"
    return [Chart("Time and score", "seconds of learning", title, layers, x_scale="log", note="Lower left is better.")]
