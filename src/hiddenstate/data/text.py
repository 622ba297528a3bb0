"""Text as sequences of symbols, and symbols back as text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from hiddenstate.core import Column, DataError, FileError, Pairs, Schema, Sequences
from hiddenstate.data.assemble import Layout, row_names, row_targets
from hiddenstate.data.encode import abridged
from hiddenstate.data.tables import decode

Cut = Literal["characters", "tokens"]


def read_text(
    path: Path,
    content: bytes,
    *,
    cut: Cut,
    lines: bool,
    schema: Schema | None,
    unknown: Literal["error", "skip"],
) -> Sequences:
    """The symbols of a text file: one sequence, or one for each line that is not blank."""
    text = decode(path, content).replace("\r\n", "\n")
    parts = [line for line in text.split("\n") if line.strip()] if lines else [text]
    names = [str(i) for i, line in enumerate(text.split("\n"), 1) if line.strip()] if lines else [path.stem]
    pieces = [_cut(part, cut) for part in parts]
    if not any(pieces):
        raise FileError(f"{path} holds no text.")
    arrays, schema = _coded(path, pieces, "text", cut, schema, unknown)
    kept = [i for i, array in enumerate(arrays) if len(array)]
    if not kept:
        raise DataError(f"{path} holds no symbol of the vocabulary: {abridged(schema.columns[0].symbols or ())}.")
    return Sequences.of([arrays[i] for i in kept], names=[names[i] for i in kept], schema=schema)


def assemble_texts(
    path: Path,
    frame: pl.DataFrame,
    layout: Layout,
    *,
    cut: Cut,
    unknown: Literal["error", "skip"],
    untyped: bool,
) -> Sequences | Pairs:
    """The texts in a column of a table, each row a sequence, with their targets where the layout names some."""
    if layout.due == "step":
        raise DataError("each text has one answer: outputs='step' is for tables with a row for each step.")
    observed = layout.choose(path, frame).observed
    if len(observed) > 1:
        raise DataError(f"{path} has the columns {abridged(observed)}; name the one that holds the text with columns=.")
    texts = frame[observed[0]]
    if texts.dtype != pl.String:
        raise DataError(f"column {observed[0]!r} of {path} holds {texts.dtype} values, which are no text.")
    pieces = [_cut(text or "", cut) for text in texts]
    _refuse_empty(pieces, f"has no text in column {observed[0]!r}")
    arrays, schema = _coded(path, pieces, observed[0], cut, layout.schema, unknown, layout.sequence)
    _refuse_empty(arrays, "holds no symbol of the vocabulary")
    sources = Sequences.of(arrays, names=row_names(frame, layout.sequence, untyped), schema=schema)
    return sources if not layout.targets else Pairs(sources, row_targets(path, frame, layout, sources, untyped=untyped))


def _cut(text: str, cut: Cut) -> list[str]:
    return list(text) if cut == "characters" else text.split()


def _coded(
    path: Path,
    pieces: list[list[str]],
    column: str,
    cut: Cut,
    schema: Schema | None,
    unknown: Literal["error", "skip"],
    sequence: str | None = None,
) -> tuple[list[np.ndarray], Schema]:
    """The codes of all symbols, in the vocabulary of the schema or in a new one."""
    known = None if schema is None else schema.columns[0].symbols
    if schema is not None and (not schema.scalar or known is None):
        raise DataError("the schema describes no text: it needs a single column of named symbols.")
    symbols = known or tuple(sorted({symbol for piece in pieces for symbol in piece}))
    codes = {symbol: code for code, symbol in enumerate(symbols)}
    strange = sorted({symbol for piece in pieces for symbol in piece} - codes.keys())
    if strange and unknown == "error":
        raise DataError(
            f"{path} holds symbols that are not in the vocabulary of {len(symbols)}: {abridged(strange)}. "
            "Read with unknown='skip' to leave them out."
        )
    arrays = [np.array([codes[s] for s in piece if s in codes], np.int32) for piece in pieces]
    if schema is None:
        schema = Schema((Column(column, "symbol", len(symbols), symbols),), scalar=True, sequence=sequence, text=cut)
    return arrays, schema


def _refuse_empty(pieces: Sequence[Any], what: str) -> None:
    for row, piece in enumerate(pieces, 1):
        if not len(piece):
            raise DataError(f"row {row} {what}; every sequence needs at least 1 step.")


def decode_symbols(sequences: Any, schema: Schema | None = None) -> list[list[Any]]:
    """The names of symbols, one list a sequence, with None where an observation is missing.

    `sequences` are `Sequences` or arrays of codes; `schema` is theirs by default. An observation of several
    columns becomes a tuple: names for its symbols, numbers for the rest.

    >>> from hiddenstate.core import Column, Schema, Sequences
    >>> schema = Schema((Column("weather", "symbol", 2, ("dry", "wet")),), scalar=True)
    >>> decode_symbols(Sequences.of([[0, 1, 1]], schema=schema))
    [['dry', 'wet', 'wet']]
    """
    data = _as_sequences(sequences, schema)
    schema = schema or data.schema
    if "symbol" not in schema.kinds:
        raise DataError(f"the columns are {', '.join(schema.kinds)}: there are no symbols to name.")
    if schema.event_shape != data.event_shape:
        raise DataError(f"observations have shape {data.event_shape} but the schema says {schema.event_shape}.")
    width = len(schema.columns)
    values = data.values.reshape(len(data), data.length, width)
    observed = np.ones(values.shape, bool) if data.observed is None else data.observed.reshape(values.shape)
    names = []
    for i, column in enumerate(schema.columns):
        names.append(_name_column(column, values[..., i], observed[..., i] & data.valid))
    decoded = []
    for n, length in enumerate(data.lengths):
        steps = list(zip(*(column[n, :length].tolist() for column in names), strict=True))
        decoded.append([step[0] for step in steps] if schema.scalar else steps)
    return decoded


def to_text(sequences: Any, schema: Schema | None = None) -> list[str]:
    """Symbols as text, one string a sequence: characters as they are, tokens and other names with spaces.

    >>> from hiddenstate.core import Column, Schema
    >>> schema = Schema((Column("text", "symbol", 3, ("a", "b", "c")),), scalar=True, text="characters")
    >>> to_text([[2, 0, 1], [1, 1]], schema)
    ['cab', 'bb']
    """
    data = _as_sequences(sequences, schema)
    schema = schema or data.schema
    decoded = decode_symbols(data, schema)
    if not schema.scalar:
        raise DataError(f"an observation has {len(schema.columns)} columns, which make no text; use decode_symbols.")
    if any(symbol is None for line in decoded for symbol in line):
        raise DataError("some symbols are missing, so there is no text; use decode_symbols, which gives None for them.")
    joint = "" if schema.text == "characters" else " "
    return [joint.join(line) for line in decoded]


def _as_sequences(data: Any, schema: Schema | None) -> Sequences:
    """`data` as sequences; an array with two axes more than an observation holds several."""
    if isinstance(data, Sequences):
        return data
    if schema is not None and not isinstance(data, list | tuple) and np.ndim(data) == len(schema.event_shape) + 2:
        return Sequences.padded(data, schema=schema)
    return Sequences.of(data, schema=schema)


def _name_column(column: Column, values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    out = np.full(values.shape, None, dtype=object)
    if column.kind == "real":
        out[observed] = values[observed].astype(float)
        return out
    known = np.where(observed, values, 0)
    codes = known.astype(int)
    if column.kind != "symbol":
        out[observed] = codes[observed]
        return out
    wrong = (codes < 0) | (codes >= column.size) | (codes != known)
    if wrong.any():
        sequence, step = np.argwhere(wrong)[0]
        raise DataError(
            f"sequence {sequence} holds {known[sequence, step]} at step {step + 1}, but column {column.name!r} "
            f"has symbols 0 to {column.size - 1}."
        )
    vocabulary = np.array(column.symbols or [str(i) for i in range(column.size)], dtype=object)
    out[observed] = vocabulary[codes[observed]]
    return out
