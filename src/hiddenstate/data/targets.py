"""Columns that hold answers: one for each step, or one for each sequence."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from hiddenstate.core import Column, DataError, Kind, Schema, Sequences
from hiddenstate.core.schema import Outputs
from hiddenstate.data.encode import encode_columns, stack


class Answers(NamedTuple):
    """The answers in the rows of a table: values and what is missing, (row,) or (row, column), and their columns."""

    values: np.ndarray
    missing: np.ndarray
    columns: tuple[Column, ...]
    scalar: bool


def encode_targets(
    frame: pl.DataFrame,
    names: tuple[str, ...],
    kinds: list[Kind | None],
    schema: Schema | None,
    *,
    untyped: bool,
    lenient: bool,
) -> Answers:
    """The target columns of a table as numbers; all missing where a known schema's columns are not in the table.

    With `lenient`, labels that the schema does not know are missing as well.
    """
    scalar = len(names) == 1 if schema is None else schema.scalar
    if schema is not None and not any(name in frame.columns for name in names):
        shape = (frame.height,) if scalar else (frame.height, len(names))
        floats = "real" in schema.kinds or (not scalar and "symbol" in schema.kinds)
        values = np.full(shape, np.nan) if floats else np.zeros(shape, np.int64)
        return Answers(values, np.ones(shape, bool), schema.columns, scalar)
    read = [frame[name] for name in names]
    if lenient and schema is not None:
        read = [_known_labels(series, column) for series, column in zip(read, schema.columns, strict=True)]
    encoded = encode_columns(
        read,
        kinds,
        [None] * len(names) if schema is None else schema.columns,
        untyped=untyped,
        vector=len(names) > 1,
    )
    return Answers(*stack(encoded, scalar), tuple(one.column for one in encoded), scalar)


def _known_labels(series: pl.Series, column: Column) -> pl.Series:
    """The column without labels that are not in its vocabulary."""
    if column.kind != "symbol":
        return series
    words = series.cast(pl.String).str.strip_chars()
    if column.symbols is None:
        strange = ~words.cast(pl.Float64, strict=False).is_in([float(code) for code in range(column.size)])
    else:
        strange = ~words.is_in(list(column.symbols))
    return series.set(strange.fill_null(True), None)


def arrange_targets(
    path: Path,
    answers: Answers,
    order: np.ndarray,
    starts: np.ndarray,
    names: list[str],
    *,
    outputs: Outputs | None,
    grouped: bool,
    schema: Schema | None,
) -> Sequences:
    """The answers in the order of the steps of all sequences, one for each step or one for each sequence.

    Where `outputs` does not say which, it is one for each sequence if there are several (`grouped`) and no two answers
    within one differ.
    """
    values, missing = answers.values[order], answers.missing[order]
    first, differs = _first_known(values, missing, starts)
    if outputs is None:
        outputs = "sequence" if grouped and not differs.any() else "step"
    if outputs == "sequence" and differs.any():
        _refuse_differing(path, answers, order, starts, names, differs)
    if schema is None:
        schema = Schema(answers.columns, answers.scalar, outputs=outputs)
    if outputs == "step":
        cuts = starts[1:]
        masks = np.split(missing, cuts) if missing.any() else None
        return Sequences.of(np.split(values, cuts), missing=masks, names=names, schema=schema)
    chosen = np.maximum(first, 0)
    shape = (len(starts), 1) if answers.scalar else (len(starts), 1, -1)
    known = np.take_along_axis(values.reshape(len(values), -1), chosen, axis=0)
    return Sequences.padded(known.reshape(shape), missing=(first < 0).reshape(shape), names=names, schema=schema)


def _first_known(values: np.ndarray, missing: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step of each sequence's first answer, (sequence, column), -1 where there is none; and which steps differ."""
    values, missing = values.reshape(len(values), -1), missing.reshape(len(missing), -1)
    never = len(values)
    steps = np.where(missing, never, np.arange(never)[:, None])
    first = np.minimum.reduceat(steps, starts, axis=0)
    sizes = np.diff(np.append(starts, never))
    chosen = np.repeat(np.minimum(first, never - 1), sizes, axis=0)
    differs = ~missing & (values != np.take_along_axis(values, chosen, axis=0))
    return np.where(first < never, first, -1), differs.any(axis=1)


def _refuse_differing(
    path: Path, answers: Answers, order: np.ndarray, starts: np.ndarray, names: list[str], differs: np.ndarray
) -> None:
    step = int(np.argmax(differs))
    sequence = int(np.searchsorted(starts, step, side="right")) - 1
    row = int(order[step]) + 1
    columns = ", ".join(repr(column.name) for column in answers.columns)
    raise DataError(
        f"{path}: sequence {names[sequence]!r} has different values in {columns}: row {row} differs from those before "
        "it. One answer for each sequence is due; outputs='step' reads one for each step."
    )
