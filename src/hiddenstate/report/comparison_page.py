"""A comparison of models as a page."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import jax
import jax.random as jr
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Pairs
from hiddenstate.core.storage import VERSION
from hiddenstate.learn.compare import Comparison
from hiddenstate.report.comparison_charts import (
    colour_places,
    gain_charts,
    learning_charts,
    ranking_charts,
    timing_charts,
)
from hiddenstate.report.comparison_parts import unit_of
from hiddenstate.report.model_sections import (
    calibration_section,
    forecast_section,
    prediction_section,
    side_by_side,
    state_section,
)
from hiddenstate.report.page import Page, Section, Table

BEST = 2
"""So many of the best models are looked at closely."""

_DETAILS = ("parameters", "seconds", "converged")
_HEADINGS = {"difference": "behind the best", "above_optimal": "above optimal", "reason": "why it stopped"}


def comparison_page(
    comparison: Comparison,
    summary: str,
    *,
    about: Mapping[str, Any],
    key: PRNGKeyArray,
    command: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> Page:
    """The page of a comparison; what its kind of data or of models does not allow is left out.

    `summary` is the comparison in words, `about` says what was compared and how, `command` makes it again; `key` draws
    from predictions; `announce` is told the titles of sections that take time when they begin.
    """
    sections = [_ranking(comparison)]
    if np.isfinite(comparison.rows[0].nats_per_step):
        sections += _looks(comparison, key, announce)
        sections.append(_learning(comparison))
    sections.append(_making(comparison, about))
    return Page(f"Comparison: {about.get('data', 'models')}", summary, sections, [command] if command else [])


def _ranking(comparison: Comparison) -> Section:
    unit = unit_of(comparison)
    rows = [asdict(row) for row in comparison.rows]
    measure = comparison.rows[0].measure
    empty = [name for name in rows[0] if all(row[name] is None for row in rows)]
    left_out = {*empty, "baseline", "measure"}
    for row in rows:
        row["seconds"] = round(row["seconds"], 1)
    rows[0] |= {"difference": None, "difference_error": None}
    rows = [{name: row[name] for name in sorted(row, key=_place) if name not in left_out} for row in rows]
    table = Table(
        rows,
        errors={"nats_per_step": "standard_error", "difference": "difference_error"},
        headings={**_HEADINGS, "nats_per_step": f"nats per {unit}", "quality": measure or "quality"},
        faint=[i for i, row in enumerate(comparison.rows) if row.baseline],
    )
    finite = np.isfinite(comparison.rows[0].nats_per_step)
    text = f"{comparison.split[:1].upper()}{comparison.split[1:]} ± is one standard error; baselines are grey."
    return Section("Ranking", text, ranking_charts(comparison) if finite else (), [table, *_seeds(comparison)])


def _place(name: str) -> int:
    """What says how good a model is comes first, why it stopped last."""
    return 1 if name in _DETAILS else 2 if name == "reason" else 0


def _seeds(comparison: Comparison) -> list[Table]:
    if comparison.seed_scores is None:
        return []
    frame = pl.DataFrame({name: np.asarray(scores) for name, scores in comparison.seed_scores.items()})
    rows = [{"seed": i, **row} for i, row in enumerate(frame.iter_rows(named=True))]
    return [Table(rows, "The score of every seed", folded=True)]


def _looks(comparison: Comparison, key: PRNGKeyArray, announce: Callable[[str], None]) -> list[Section]:
    """What the best models expect and keep, on the held-out data."""
    prediction_key, forecast_key, calibration_key = jr.split(key, 3)
    places, test = colour_places(comparison), comparison.test
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step) and row.model in comparison.models]
    chosen = [row.model for row in rows if row is rows[0] or not row.baseline]
    best = {name: comparison.models[name] for name in chosen[:BEST]}
    colours = {name: places.get(name, len(places)) for name in best}
    first = rows[0].model
    thinking = {row.model: comparison.models[row.model] for row in rows if not row.baseline}
    made = {"Calibration": lambda: calibration_section(best, test, colours, key=calibration_key)}
    if not isinstance(test, Pairs):
        made = {
            "Predictions": lambda: prediction_section(first, best[first], test, key=prediction_key),
            "Forecasts": lambda: forecast_section(best, test, key=forecast_key),
            **made,
            "States and beliefs": lambda: state_section(thinking, test),
        }
    return side_by_side(made, announce)


def _learning(comparison: Comparison) -> Section:
    charts = [*learning_charts(comparison), *timing_charts(comparison), *gain_charts(comparison)]
    return Section("Learning", charts=charts)


def _making(comparison: Comparison, about: Mapping[str, Any]) -> Section:
    said = {**about, "split": comparison.split, "hiddenstate": VERSION, "jax": jax.__version__}
    rows = [{"what": name, "value": "by the data" if value is None else str(value)} for name, value in said.items()]
    return Section("How this was made", tables=[Table(rows)])
