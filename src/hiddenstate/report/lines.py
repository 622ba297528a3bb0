"""Observations and predictions as lines, for streams."""

import json
import math
from typing import Any

import numpy as np
from numpyro.distributions import Distribution

from hiddenstate.core import Column, ConditionalModel, DataError, SequenceModel
from hiddenstate.inference import Stream

# -- observations --------------------------------------------------------------------------------------------


def parse_line(line: str, model: SequenceModel | ConditionalModel) -> tuple[Any, Any, Any]:
    """The observation in a line, the inputs at its step and those at the next (None where there are none)."""
    line = line.rstrip("\r\n")
    if not line:
        raise DataError("it is blank; every line holds one observation.")
    if model.inputs:
        record = _json(line)
        if not isinstance(record, dict) or "x" not in record or "u" not in record:
            raise DataError(
                f'it is {line[:40]!r}; a model with inputs takes objects such as {{"x": 1.5, "u": [0, 1]}}.'
            )
        unknown = sorted(set(record) - {"x", "u", "next_u"})
        if unknown:
            raise DataError(f"it has the key {unknown[0]!r}; an object has x, u and next_u.")
        inputs, following = (_numbers(record.get(name), name) for name in ("u", "next_u"))
        return _observation(record["x"], model), inputs, following
    columns = _columns(model)
    if columns is not None and len(columns) == 1 and line in (columns[0].symbols or ()):
        return _observation(line, model), None, None
    return _observation(_json(line), model), None, None


def _observation(value: Any, model: SequenceModel | ConditionalModel) -> Any:
    columns = _columns(model)
    if value is None:
        return np.nan
    if columns is None:
        return value if isinstance(value, int | float) else _numbers(value, "x")
    if model.schema is not None and model.schema.scalar:
        return _cell(value, columns[0])
    if not isinstance(value, list) or len(value) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise DataError(f"it is {_shown(value)}; due is a JSON array of {len(columns)}: {names}.")
    cells = [_cell(cell, column) for cell, column in zip(value, columns, strict=True)]
    floats = any(column.kind in ("real", "symbol") for column in columns)
    return np.array(cells, float) if floats else np.array(cells)


def _cell(value: Any, column: Column) -> Any:
    if value is None:
        return np.nan
    if column.kind == "symbol" and column.symbols is not None:
        word = value if isinstance(value, str) else json.dumps(value)
        if word not in column.symbols:
            known = ", ".join(map(repr, column.symbols[:12])) + (", ..." if len(column.symbols) > 12 else "")
            raise DataError(f"{word!r} is no symbol of {column.name!r}; known are {known}.")
        return column.symbols.index(word)
    if isinstance(value, str) and value.lower() == "nan":
        return np.nan
    if isinstance(value, bool) and column.kind == "bit":
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{column.name!r} is {_shown(value)}; it must be a number.")
    if column.kind != "real" and isinstance(value, float) and value.is_integer():
        return int(value)
    if column.kind == "real":
        return float(value)
    return value


def _columns(model: SequenceModel | ConditionalModel) -> tuple[Column, ...] | None:
    return None if model.schema is None else model.schema.columns


def _json(text: str) -> Any:
    """What the text says as JSON; the word itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _numbers(value: Any, name: str) -> Any:
    if value is None:
        return None
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise DataError(f"{name} is {_shown(value)}; it must be an array of numbers.") from None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


# -- predictions ---------------------------------------------------------------------------------------------


def prediction_line(stream: Stream, predicted: Distribution | None, log_prob: float | None = None) -> str:
    """One JSON object: steps seen, the log-probability of the last observation, and what is expected next."""
    line: dict[str, Any] = {"step": stream.steps}
    if log_prob is not None:
        line["log_prob"] = _finite(log_prob)
    if predicted is not None:
        answers = getattr(stream.model, "target_schema", None)
        line |= describe_prediction(predicted, _columns(stream.model) if answers is None else answers.columns)
    return json.dumps(line, ensure_ascii=False)


def describe_prediction(predicted: Distribution, columns: tuple[Column, ...] | None) -> dict[str, Any]:
    """A predictive distribution as plain numbers: mean and sd, or symbols' probabilities and entropy."""
    parts = getattr(predicted, "columns", None)
    if parts is not None:
        known = {column.name: column for column in columns or ()}
        return {
            "columns": {
                name: describe_prediction(part, (known[name],) if name in known else None)
                for name, part in parts.items()
            }
        }
    highest = getattr(predicted.support, "upper_bound", None)
    if predicted.event_shape == () and predicted.is_discrete and highest is not None:
        probs: Any = np.exp(np.asarray(predicted.log_prob(np.arange(int(highest) + 1)), float))
        names = columns[0].symbols if columns is not None else None
        names = names or tuple(str(code) for code in range(len(probs)))
        known = probs[probs > 0]
        return {
            "probs": dict(zip(names, probs.tolist(), strict=True)),
            "entropy": float(-(known * np.log(known)).sum()),
        }
    return {"mean": _listed(predicted.mean), "sd": _listed(np.sqrt(np.asarray(predicted.variance, float)))}


def _listed(array: Any) -> Any:
    array = np.asarray(array, float)
    return _finite(float(array)) if array.ndim == 0 else [_finite(v) for v in array.tolist()]


def _finite(value: float) -> float | None:
    return value + 0.0 if math.isfinite(value) else None  # which makes zero of -0.0
