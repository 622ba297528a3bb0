"""Hidden states and beliefs over time, as charts to go through sequence by sequence."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from hiddenstate.core import HiddenStateError, Sequences, has, name_of
from hiddenstate.inference import filter as filtered
from hiddenstate.inference import states
from hiddenstate.report.charts import Band, Chart, Heat, Layer, Line, Points
from hiddenstate.report.forecasts import symbol_names
from hiddenstate.report.page import Slides
from hiddenstate.report.tables import visible
from hiddenstate.report.windows import MOST_STEPS, observed_values, spread, starts_of

MOST_UNITS = 64
_SEVERAL = {"real": "real numbers", "count": "counts", "bit": "bits"}
MOST_LINES = 4
MOST_COLUMNS = 8
MOST_SEQUENCES = 12
MOST_CELLS = 120_000
"""So many cells all heat maps of a page have together, so that it stays small."""

MOST_NUMBERS = 5e7
"""States of more numbers than these are not computed for a page."""

Draw = Callable[[int, np.ndarray], Chart]
"""The chart of one sequence, by its number, at some steps. Steps are counted from one, states and units from zero."""


def state_slides(models: Mapping[str, Any], data: Sequences) -> Slides:
    """The observations and what each model keeps of them, a slide for each of some sequences."""
    rows = spread(len(data), max(1, min(MOST_SEQUENCES, MOST_CELLS // (32 * MOST_STEPS * max(1, len(models))))))
    first = starts_of(data)[rows]
    stops = np.minimum(np.asarray(data.lengths)[rows], first + MOST_STEPS)
    whole = len(rows) == len(data) and bool((stops == data.lengths).all())
    part = data if whole else data.select(rows).window(0, stops)
    draws = [_drawing(name, model, part) for name, model in models.items() if _has_state(model)]
    if not draws:
        raise HiddenStateError("no model has a hidden state.")
    shown = [np.arange(a, b) for a, b in zip(first, stops, strict=True)]
    charts = [[*_observations(part, i, steps), *(draw(i, steps) for draw in draws)] for i, steps in enumerate(shown)]
    text = (
        "Networks: the numbers of the hidden state before each step, blue above and orange below zero. Models with "
        "hidden variables: what the observations up to each step say of them."
    )
    return Slides("Sequence", [data.names[row] for row in rows], charts, text)


def _has_state(model: Any) -> bool:
    return any(leaf.size for leaf in jax.tree.leaves(model.initial()))


def _observations(data: Sequences, number: int, steps: np.ndarray) -> list[Chart]:
    """The observations of a sequence: numbers of one kind on one chart, symbols each on their own."""
    columns = data.schema.columns[:MOST_COLUMNS]
    kinds = dict.fromkeys(column.kind for column in columns if column.kind != "symbol")
    parts = [[i for i, column in enumerate(columns) if column.kind == kind] for kind in kinds]
    parts += [[i] for i, column in enumerate(columns) if column.kind == "symbol"]
    return [_observed(data, number, steps, part, alone=len(parts) == 1) for part in sorted(parts)]


def _observed(data: Sequences, number: int, steps: np.ndarray, part: list[int], *, alone: bool) -> Chart:
    """Some columns of a sequence on one chart, which is `alone` if there is no other."""
    columns = [data.schema.columns[i] for i in part]
    seen = [observed_values(data, number, i)[steps] for i in part]
    axis, only = f"step of {data.names[number]}", columns[0].name if len(columns) == 1 else ""
    title = "Observations" if alone else f"Observations, {only or _SEVERAL[columns[0].kind]}"
    if columns[0].kind == "symbol":
        names = [visible(name) for name in symbol_names(columns[0])]
        return Chart(title, axis, "", [Points(steps + 1, seen[0], colour="ink")], y_names=names)
    if only:
        return Chart(title, axis, only, [Line(steps + 1, seen[0], colour="ink")])
    layers = [
        Line(steps + 1, values, name=column.name, colour=i)
        for i, (column, values) in enumerate(zip(columns, seen, strict=True))
    ]
    return Chart(title, axis, "", layers)


def _drawing(name: str, model: Any, data: Sequences) -> Draw:
    """How the state of a model is drawn: as probabilities, as means with bands, or as the numbers it is made of."""
    if has(model, "filter"):
        found = filtered(model, data)
        probs = found if isinstance(found, jax.Array) else getattr(found, "marginals", None)
        if probs is not None and np.ndim(probs) == 3:
            return _probabilities(name, np.asarray(probs), data)
        mean, covariance = getattr(found, "mean", None), getattr(found, "covariance", None)
        if mean is not None and np.ndim(mean) == 3 and mean.shape[-1] > MOST_LINES:
            return _cells(f"{name}: mean of the belief", np.asarray(mean, float), data)
        if mean is not None and np.ndim(mean) == 3:
            deviation = None if covariance is None else _deviations(np.asarray(covariance, float))
            return _means(name, np.asarray(mean, float), deviation, data)
    return _units(name, model, data)


def _deviations(covariance: np.ndarray) -> np.ndarray:
    return np.sqrt(np.clip(np.diagonal(covariance, axis1=-2, axis2=-1), 0, None))


def _probabilities(name: str, probs: np.ndarray, data: Sequences) -> Draw:
    count = min(probs.shape[-1], MOST_UNITS)

    def draw(number: int, steps: np.ndarray) -> Chart:
        heat = Heat(steps + 1, np.arange(count), probs[number, steps, :count].T, label="probability", limits=(0, 1))
        names = [f"state {k}" for k in range(count)]
        return Chart(f"{name}: belief", f"step of {data.names[number]}", "", [heat], y_names=names)

    return draw


def _means(name: str, mean: np.ndarray, deviation: np.ndarray | None, data: Sequences) -> Draw:
    def draw(number: int, steps: np.ndarray) -> Chart:
        layers: list[Layer] = []
        for k in range(mean.shape[-1]):
            middle = mean[number, steps, k]
            if deviation is not None:
                reach = 2 * deviation[number, steps, k]
                layers.append(Band(steps + 1, middle - reach, middle + reach, colour=k))
            layers.append(Line(steps + 1, middle, name=f"state {k}", colour=k))
        note = "" if deviation is None else "Bands are two standard deviations of the belief to each side."
        return Chart(f"{name}: belief", f"step of {data.names[number]}", "hidden variable", layers, note=note)

    return draw


def _units(name: str, model: Any, data: Sequences) -> Draw:
    size = sum(leaf.size for leaf in jax.tree.leaves(model.initial()))
    if size * data.length * len(data) > MOST_NUMBERS:
        raise HiddenStateError(f"the states of {name_of(model)} over {data.length} steps are too many to show.")
    flat = _flat(states(model, data))
    return _cells(f"{name}: hidden state", flat, data)


def _flat(found: Any) -> np.ndarray:
    """All numbers of states, (sequence, time, number); of complex ones the real parts, then the others."""
    leaves: list[Any] = [np.asarray(leaf) for leaf in jax.tree.leaves(found)]
    parts = [part for leaf in leaves for part in ([leaf.real, leaf.imag] if np.iscomplexobj(leaf) else [leaf])]
    return np.concatenate([part.reshape(*part.shape[:2], -1).astype(float) for part in parts], axis=-1)


def _cells(title: str, numbers: np.ndarray, data: Sequences) -> Draw:
    """A heat map of numbers (sequence, time, unit)."""
    count = min(numbers.shape[-1], MOST_UNITS)
    note = f"The first {count} of {numbers.shape[-1]} numbers." if numbers.shape[-1] > count else ""

    def draw(number: int, steps: np.ndarray) -> Chart:
        heat = Heat(steps + 1, np.arange(count), numbers[number, steps, :count].T, label="activity", signed=True)
        return Chart(
            title, f"step of {data.names[number]}", "unit", [heat], note=note, y_names=["0"] if count == 1 else None
        )

    return draw
