"""NPZ files as sequences: one padded array with its lengths, or one array a sequence."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from hiddenstate.core import Column, DataError, FileError, Kind, Schema, Sequences

PARTS = ("values", "lengths", "inputs", "missing", "names")


def read_npz(
    path: Path, content: bytes, *, kinds: Kind | Mapping[str, Kind] | None, schema: Schema | None
) -> Sequences:
    """The sequences of an NPZ file, never unpickling anything.

    With a key `values`, that is the padded array (sequence, time) or (sequence, time, columns) and `lengths`,
    `inputs`, `missing` and `names` go with it; otherwise each key names one sequence.
    """
    arrays = _load(path, content)
    if "values" not in arrays:
        data = Sequences.of([_numeric(path, key, array) for key, array in arrays.items()], names=list(arrays))
        truths = all(array.dtype == bool for array in arrays.values())
    else:
        strange = [key for key in arrays if key not in PARTS]
        if strange:
            raise DataError(f"{path} holds {', '.join(strange)} beside 'values', which takes {', '.join(PARTS)}.")
        values = _numeric(path, "values", arrays["values"])
        single = values.ndim == 1
        parts = {key: arrays[key][None] if single and key in ("inputs", "missing") else arrays[key] for key in arrays}
        data = Sequences.padded(
            values[None] if single else values,
            parts.get("lengths"),
            missing=parts.get("missing"),
            inputs=parts.get("inputs"),
            names=[str(name) for name in parts["names"]] if "names" in parts else None,
        )
        truths = arrays["values"].dtype == bool
    if schema is not None:
        return _follow(path, data, schema)
    if kinds is None and truths:
        kinds = "bit"
    return data if kinds is None else _with_kinds(data, kinds)


def _load(path: Path, content: bytes) -> dict[str, np.ndarray]:
    try:
        file = np.load(io.BytesIO(content), allow_pickle=False)
        named = isinstance(file, np.lib.npyio.NpzFile)
        arrays = {key: file[key] for key in file.files} if named else {}
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
    ) as error:
        raise FileError(f"{path} is no readable NPZ file of plain arrays, or is truncated.") from error
    if not named:
        raise FileError(f"{path} holds one plain array, not named arrays; write it with numpy.savez.")
    if not arrays:
        raise FileError(f"{path} holds no array.")
    return arrays


def _numeric(path: Path, key: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise DataError(f"array {key!r} of {path} holds {array.dtype} values; observations are numbers.")
    return array


def _with_kinds(data: Sequences, kinds: Kind | Mapping[str, Kind]) -> Sequences:
    """The same values read as other kinds, checked to be of them."""
    columns = data.schema.columns
    if isinstance(kinds, str):
        kinds = {column.name: kinds for column in columns}
    names = [column.name for column in columns]
    strange = [name for name in kinds if name not in names]
    if strange:
        raise DataError(f"kinds names {strange[0]!r}, which is none of the columns {', '.join(names)}.")
    table, seen = _table(data)
    made = []
    for i, column in enumerate(columns):
        kind = kinds.get(column.name, column.kind)
        known = table[..., i][seen[..., i]]
        high = int(known.max()) if known.size else 0
        made.append(Column(column.name, kind, high + 1 if kind == "symbol" else 0))
    return _follow(None, data, replace(data.schema, columns=tuple(made)))


def _table(data: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """The values (sequence, time, column), and which of them are real and observed."""
    table = data.values.reshape(len(data), data.length, -1)
    seen = np.broadcast_to(data.valid[..., None], table.shape)
    return table, seen if data.observed is None else seen & data.observed.reshape(table.shape)


def _follow(path: Path | None, data: Sequences, schema: Schema) -> Sequences:
    """`data` under `schema`: DataError where a value is not of its column's kind."""
    if schema.event_shape != data.event_shape:
        raise DataError(
            f"{path or 'the data'}: an observation has shape {data.event_shape}, but the schema says "
            f"{schema.event_shape}."
        )
    width = 0 if data.inputs is None else data.inputs.shape[2]
    if width != len(schema.inputs):
        raise DataError(f"{path or 'the data'}: there are {width} inputs, but the schema says {len(schema.inputs)}.")
    table, seen = _table(data)
    for i, column in enumerate(schema.columns):
        if column.kind == "real":
            continue
        high = {"bit": 1, "count": np.inf, "symbol": column.size - 1}[column.kind]
        known = np.where(seen[..., i], table[..., i], 0)
        wrong = (known < 0) | (known != np.floor(known)) | (known > high)
        if wrong.any():
            sequence, step = np.argwhere(wrong)[0]
            due = "whole numbers from 0 on" if column.kind == "count" else f"whole numbers from 0 to {high}"
            raise DataError(
                f"sequence {sequence} holds {known[sequence, step]} at step {step + 1} of column "
                f"{column.name!r}, which is {column.kind}: {due}."
            )
    floats = "real" in schema.kinds or (not schema.scalar and "symbol" in schema.kinds)
    values = np.where(seen.reshape(data.values.shape), data.values, 0).astype(np.float64 if floats else np.int32)
    observed = None if data.observed is None else ~data.observed
    return Sequences.padded(values, data.lengths, missing=observed, inputs=data.inputs, names=data.names, schema=schema)
