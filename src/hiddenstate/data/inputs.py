"""Inputs as numbers: a column of numbers is one input, a column of words one for each word, 1 where it stands."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from hiddenstate.core import Column, Schema
from hiddenstate.data.encode import CellError, encode_columns, typed_column


def file_columns(schema: Schema) -> tuple[Column, ...]:
    """The columns of a file that the inputs of a schema come from."""
    if schema.input_columns is not None:
        return schema.input_columns
    return tuple(Column(name, "real") for name in schema.inputs)


def encode_inputs(
    series: Sequence[pl.Series], known: Sequence[Column | None], *, untyped: bool
) -> tuple[np.ndarray, tuple[Column, ...]]:
    """The inputs of every row, (row, input), and the columns that they come from."""
    values, columns = [], []
    for one, column in zip(series, known, strict=True):
        words = typed_column(one, untyped=untyped).dtype == pl.String if column is None else column.kind == "symbol"
        encoded = encode_columns([one], ["symbol" if words else "real"], [column], untyped=untyped, vector=False)[0]
        if words and encoded.missing.any():
            row = int(np.argmax(encoded.missing))
            raise CellError(f"column {one.name!r} has no value at <row>; inputs are known at every step.", row)
        values.append(encoded.values)
        columns.append(encoded.column)
    return spread(np.stack(values, axis=-1), columns), tuple(columns)


def spread(values: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Numbers and codes of words, (..., column), as inputs, (..., input)."""
    parts = [
        values[..., i, None] == np.arange(column.size) if column.kind == "symbol" else values[..., i, None]
        for i, column in enumerate(columns)
    ]
    return np.concatenate([part.astype(np.float64) for part in parts], axis=-1)


def input_names(columns: Sequence[Column]) -> tuple[str, ...]:
    """The name of every input: that of its column, and of its word where it stands for one."""
    names: list[str] = []
    for column in columns:
        names += (
            [f"{column.name}={word}" for word in column.symbols or ()] if column.kind == "symbol" else [column.name]
        )
    return tuple(names)


def in_schema(columns: Sequence[Column]) -> dict[str, tuple | None]:
    """The fields of a schema that tell of these input columns."""
    words = any(column.kind == "symbol" for column in columns)
    return {"inputs": input_names(columns), "input_columns": tuple(columns) if words else None}
