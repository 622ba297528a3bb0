"""What a model expected at each step beside what came, and what it forecasts beside what followed."""

from collections.abc import Mapping
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, HiddenStateError, Sequences, dtype_of
from hiddenstate.inference import Forecast, forecast, predictive
from hiddenstate.learn.judging import class_probs, column_part, pick
from hiddenstate.report.charts import Band, Chart, Heat, Layer, Line, Points, Rule
from hiddenstate.report.forecasts import symbol_names, symbol_probs
from hiddenstate.report.page import Slides
from hiddenstate.report.tables import visible
from hiddenstate.report.windows import Window, longest_window, observed_values, spread, starts_of

MOST_COLUMNS = 4
MOST_SYMBOLS = 24
MOST_CELLS = 80
"""So many steps of symbols are shown side by side."""

DRAWS = 1000
HORIZON = 30
MOST_FORECASTS = 8


# -- one step ahead ------------------------------------------------------------------------------------------


def prediction_charts(model: Any, data: Sequences, *, key: PRNGKeyArray, name: str = "") -> list[Chart]:
    """The longest part that counts, each step predicted from those before it, a chart for each column.

    `key` draws from predictions that have no quantiles of their own; `name` is what the model is called.
    """
    window = longest_window(data)
    columns = window.data.schema.columns[:MOST_COLUMNS]
    predicted = pick(predictive(model, window.data), window.steps)
    drawn = np.asarray(predicted.sample(key, (DRAWS,)))
    drawn = drawn.reshape(*drawn.shape[:2], -1).astype(float)
    return [
        Chart(
            _titled(f"{name}: each step predicted from those before it", column, len(columns)),
            f"step of {window.name}",
            "" if column.kind == "symbol" else column.name,
            **_shown(column, window, i, _probs(predicted, column, i, drawn[..., i]), drawn[..., i]),
        )
        for i, column in enumerate(columns)
    ]


def _titled(title: str, column: Column, columns: int) -> str:
    return f"{title}, {column.name}" if columns > 1 else title


def _probs(predicted: Any, column: Column, i: int, drawn: np.ndarray) -> np.ndarray | None:
    """The probability of each symbol, (step, symbol); None where there are none."""
    if column.kind not in ("symbol", "bit"):
        return None
    probs = class_probs(column_part(predicted, column), i)
    size = 2 if column.kind == "bit" else column.size
    return (drawn[..., None] == np.arange(size)).mean(0) if probs is None else np.asarray(probs, float)


def _shown(column: Column, window: Window, i: int, probs: np.ndarray | None, drawn: np.ndarray) -> dict[str, Any]:
    seen, steps = observed_values(window.data, 0, i)[window.first :], window.steps + 1
    if column.kind == "symbol":
        assert probs is not None
        shown = _symbols(column, steps[:MOST_CELLS], seen[:MOST_CELLS], probs[:MOST_CELLS])
        return shown | {"note": f"The first {MOST_CELLS} of {len(steps)} steps." if len(steps) > MOST_CELLS else ""}
    if probs is not None:
        return {"layers": [Line(steps, probs[:, 1], name="predicted probability of 1"), _observed(steps, seen)]}
    low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
    outside = (seen < low) | (seen > high)
    layers: list[Layer] = [
        Band(steps, low, high, name="90% of the prediction"),
        Line(steps, drawn.mean(0), name="predicted mean"),
        _observed(steps, np.where(outside, np.nan, seen)),
    ]
    if outside.any():
        layers.append(Points(steps, np.where(outside, seen, np.nan), name="observed, outside the 90%", colour=1))
    return {"layers": layers}


def _observed(steps: np.ndarray, seen: np.ndarray) -> Layer:
    return Points(steps, seen, name="observed", colour="ink")


def _symbols(column: Column, steps: np.ndarray, seen: np.ndarray, probs: np.ndarray) -> dict[str, Any]:
    """Probabilities as a heat map, from the step that the last of them are for, with a dot at each symbol that came."""
    names = symbol_names(column)
    counts = np.bincount(seen[~np.isnan(seen)].astype(int), minlength=len(names))[: len(names)]
    usual = np.argsort(-(counts + probs.mean(0)[: len(names)]), kind="stable")
    chosen = np.sort(usual[:MOST_SYMBOLS])
    place = np.full(len(names) + 1, np.nan)
    place[chosen] = np.arange(len(chosen))
    rows = place[np.where(np.isnan(seen), len(names), seen).astype(int)]
    heat = Heat(
        steps[len(steps) - len(probs) :], np.arange(len(chosen)), probs[:, chosen].T, label="probability", limits=(0, 1)
    )
    return {
        "layers": [heat, Points(steps, rows, name="what came", colour=1)],
        "y_names": [visible(names[code]) for code in chosen],
    }


# -- further ahead -------------------------------------------------------------------------------------------


def forecast_slides(models: Mapping[str, Any], data: Sequences, *, key: PRNGKeyArray) -> Slides:
    """What each model forecasts from inside held-out sequences, beside what followed, a slide for each origin."""
    rows, origins, horizon = _origins(data)
    past = data.select(rows).window(0, origins)
    columns = data.schema.columns[:MOST_COLUMNS]
    futures = {}
    for name, model in models.items():
        inputs = None
        if model.inputs and data.inputs is not None:
            inputs = data.inputs[rows[:, None], origins[:, None] + np.arange(horizon)].astype(dtype_of(model))
        futures[name] = forecast(model, past, horizon, key=jr.fold_in(key, len(futures)), n=DRAWS // 2, inputs=inputs)
    charts = [
        [
            _forecast_chart(futures[name], past, data, place, row, i, _titled(name, column, len(columns)))
            for name in models
            for i, column in enumerate(columns)
        ]
        for place, row in enumerate(rows)
    ]
    labels = [
        f"{data.names[row]}, after {origin} step{'' if origin == 1 else 's'}"
        for row, origin in zip(rows, origins, strict=True)
    ]
    return Slides("Forecast of", labels, charts)


def _origins(data: Sequences) -> tuple[np.ndarray, np.ndarray, int]:
    """Sequences and the steps after which they are forecast, with as many steps to come as all of them have."""
    first = starts_of(data)
    first = np.maximum(np.where(first > 0, first, np.asarray(data.lengths) // 3), 1)
    room = np.asarray(data.lengths) - first
    able = np.flatnonzero(room >= min(3, room.max()))
    if not len(able) or room.max() < 1:
        raise HiddenStateError("no sequence has steps behind one that was seen, so nothing can be forecast.")
    rows = able[spread(len(able), MOST_FORECASTS)]
    horizon = int(min(HORIZON, room[rows].min()))
    each = max(1, 4 // len(rows))
    found = [
        (row, origin)
        for row in rows
        for origin in np.unique(np.linspace(first[row], data.lengths[row] - horizon, each).astype(int))
    ]
    chosen, origins = (np.array(side) for side in zip(*found, strict=True))
    return chosen, origins, horizon


def _forecast_chart(
    future: Forecast, past: Sequences, data: Sequences, place: int, row: int, i: int, title: str
) -> Chart:
    column, horizon = data.schema.columns[i], future.horizon
    origin = int(past.lengths[place])
    begun = max(0, origin - (horizon if column.kind == "symbol" else 2 * horizon))
    steps, ahead = np.arange(begun, origin + horizon) + 1, np.arange(origin, origin + horizon) + 1
    seen = observed_values(data, row, i)[begun : origin + horizon]
    axis = f"step of {data.names[row]}"
    edge = Rule(origin + 0.5, "x", colour="grey")
    if column.kind == "symbol":
        shown = _symbols(column, steps, seen, symbol_probs(future, data, i)[place])
        return Chart(title, axis, "", [*shown["layers"], edge], y_names=shown["y_names"])
    paths = future.samples[place].reshape(*future.samples.shape[1:3], -1)[..., i].astype(float)
    if column.kind == "bit":
        layers: list[Layer] = [Line(ahead, paths.mean(0), name="forecast probability of 1")]
    else:
        low, lower, middle, upper, high = np.quantile(paths, (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
        layers = [
            Band(ahead, low, high, name="90% of futures"),
            Band(ahead, lower, upper, name="50%", within=1),
            Line(ahead, middle, name="median"),
        ]
    observed = Line(steps, seen, name="observed", colour="ink", marks=column.kind == "bit")
    return Chart(title, axis, column.name, [*layers, observed, edge])
