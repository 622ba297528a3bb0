"""Rows of a table put together into sequences: one step a row, or one sequence a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hiddenstate.core import DataError, Kind, Schema, Sequences
from hiddenstate.data.encode import CellError, Encoded, abridged, encode_columns

_ISO = r"^\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?)?)?$"


@dataclass(frozen=True)
class Layout:
    """Which column of a table is what; a `schema`, where given, says what is observed and what is input."""

    sequence: str | None
    time: str | None
    columns: tuple[str, ...] | None
    inputs: tuple[str, ...]
    kinds: Kind | Mapping[str, Kind] | None
    schema: Schema | None

    def choose(self, path: Path, frame: pl.DataFrame) -> tuple[list[str], list[str]]:
        """The names of the observation columns and of the inputs, all checked to be there."""
        inputs = list(self.inputs if self.schema is None else self.schema.inputs)
        roles = [name for name in (self.sequence, self.time) if name is not None]
        if self.schema is not None:
            observed = [column.name for column in self.schema.columns]
        elif self.columns is not None:
            observed = list(self.columns)
        else:
            observed = [name for name in frame.columns if name not in roles and name not in inputs]
            if "" in observed:
                raise DataError(
                    f"column {frame.columns.index('') + 1} of {path} has no name; name the observations "
                    f"with columns=, among {abridged([name for name in observed if name])}."
                )
        for name in (*roles, *inputs, *observed):
            if name not in frame.columns:
                raise DataError(f"{path} has no column {name!r}; its columns are {abridged(frame.columns)}.")
        if not observed:
            raise DataError(f"{path} has no column left to observe beside {abridged([*roles, *inputs])}.")
        every = [*roles, *inputs, *observed]
        for i, name in enumerate(every):
            if name in every[:i]:
                raise DataError(f"column {name!r} is named twice; it is either sequence, time, input or observation.")
        return observed, inputs

    def kind_of(self, observed: list[str]) -> list[Kind | None]:
        """The kind asked for of each column, None where none is."""
        if self.kinds is None or isinstance(self.kinds, str):
            return [self.kinds] * len(observed)
        strange = [name for name in self.kinds if name not in observed]
        if strange:
            raise DataError(f"kinds names {strange[0]!r}, which is none of the observed columns {abridged(observed)}.")
        return [self.kinds.get(name) for name in observed]


# -- one step a row ------------------------------------------------------------------------------------------


def assemble_long(path: Path, frame: pl.DataFrame, layout: Layout, *, untyped: bool) -> Sequences:
    """Sequences whose steps are the rows of a table."""
    observed, inputs = layout.choose(path, frame)
    frame, sequence = _unroll_lists(frame, [*observed, *inputs], layout)
    schema = layout.schema
    encoded = encode_columns(
        [frame[name] for name in observed],
        layout.kind_of(observed),
        [None] * len(observed) if schema is None else schema.columns,
        untyped=untyped,
        vector=len(observed) > 1,
    )
    scalar = len(observed) == 1 if schema is None else schema.scalar
    values, missing = _stack(encoded, scalar)
    known = [_numbers(frame[name], untyped) for name in inputs]
    order, starts, names = arrange(frame, sequence, layout.time, untyped)
    if schema is None:
        columns = tuple(one.column for one in encoded)
        schema = Schema(columns, scalar, tuple(inputs), layout.sequence, layout.time)
    cuts = starts[1:]
    return Sequences.of(
        np.split(values[order], cuts),
        missing=np.split(missing[order], cuts) if missing.any() else None,
        inputs=np.split(np.stack(known, axis=1)[order], cuts) if known else None,
        names=names if sequence is not None else [path.stem],
        schema=schema,
    )


def _unroll_lists(frame: pl.DataFrame, cells: list[str], layout: Layout) -> tuple[pl.DataFrame, str | None]:
    """A table whose cells are lists, one sequence a row, as one with a row a step."""
    lists = [name for name in cells if isinstance(frame[name].dtype, pl.List | pl.Array)]
    if not lists:
        return frame, layout.sequence
    if len(lists) < len(cells) or layout.time is not None:
        other = next((name for name in cells if name not in lists), layout.time)
        raise DataError(f"column {lists[0]!r} holds lists, so each row is a sequence, but column {other!r} holds none.")
    sequence = layout.sequence
    if sequence is None:
        sequence = "row"
        while sequence in frame.columns:
            sequence += "_"
        frame = frame.with_row_index(sequence)
    elif frame[sequence].is_duplicated().any():
        raise DataError(f"column {sequence!r} names two rows alike, though each is a sequence.")
    sizes = [frame[name].list.len() if isinstance(frame[name].dtype, pl.List) else None for name in cells]
    for name, size in zip(cells, sizes, strict=True):
        if size is not None and (empty := (size.fill_null(0) == 0).arg_true()).len():
            raise DataError(
                f"row {empty[0] + 1} has no value in column {name!r}; every sequence needs at least 1 step."
            )
    try:
        return frame.select(sequence, *cells).explode(cells), sequence
    except pl.exceptions.PolarsError:
        raise DataError(f"the lists of {abridged(cells)} differ in length within a row.") from None


def arrange(
    frame: pl.DataFrame, sequence: str | None, time: str | None, untyped: bool
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The order of the rows, where each sequence starts in it, and the names of the sequences."""
    count = frame.height
    codes, names = np.zeros(count, np.int64), [""]
    if sequence is not None:
        ids = frame[sequence]
        if untyped:
            ids = ids.str.strip_chars()
            ids = ids.set(ids == "", None)
        if ids.null_count():
            raise DataError(f"row {ids.is_null().arg_true()[0] + 1} has no value in {sequence!r}, the sequence's name.")
        different = ids.unique(maintain_order=True)
        names = different.cast(pl.String).to_list()
        codes = ids.replace_strict(different, list(range(len(different))), return_dtype=pl.Int64).to_numpy()
    if time is None:
        order = np.argsort(codes, kind="stable")
    else:
        when = _times(frame[time], untyped)
        rank = when.rank("dense").to_numpy()
        order = np.lexsort((rank, codes))
        same = (np.diff(codes[order]) == 0) & (np.diff(rank[order]) == 0)
        if same.any():
            one, two = sorted(int(order[np.argmax(same) + i]) + 1 for i in (0, 1))
            at = repr(frame[time][one - 1])
            of = f" of sequence {names[codes[one - 1]]!r}" if sequence is not None else ""
            raise DataError(f"rows {one} and {two}{of} have the same {time}, {at}: their order is unknown.")
    starts = np.searchsorted(codes[order], np.arange(len(names)))
    return order, starts, names


def _times(series: pl.Series, untyped: bool) -> pl.Series:
    """Times that sort in the right order: numbers, or dates as ISO 8601 writes them."""
    name = series.name
    if series.null_count():
        raise DataError(f"row {series.is_null().arg_true()[0] + 1} has no value in {name!r}, which gives the order.")
    if series.dtype == pl.String:
        text = series.str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
        if untyped and not numbers.null_count():
            whole = text.cast(pl.Int64, strict=False)
            series = numbers if whole.null_count() else whole
        elif text.str.contains(_ISO).all() and text.str.len_chars().n_unique() == 1:
            return text
        else:
            return _datetimes(text)
    if series.dtype.is_float() and not series.is_finite().all():
        row = (~series.is_finite()).arg_true()[0]
        raise DataError(f"row {row + 1} holds {series[row]} in {name!r}, which gives the order.")
    if not (series.dtype.is_numeric() or series.dtype.is_temporal()):
        raise DataError(f"column {name!r} holds {series.dtype} values, whose order is unknown; give numbers or dates.")
    return series


def _datetimes(text: pl.Series) -> pl.Series:
    try:
        return text.str.to_datetime(time_zone="UTC")
    except (pl.exceptions.PolarsError, ValueError):
        raise DataError(
            f"column {text.name!r} holds {text[0]!r}, a time whose order is unknown; give numbers, or dates "
            "such as 2024-01-31 or 2024-01-31T12:00:00, all written alike."
        ) from None


def _numbers(series: pl.Series, untyped: bool) -> np.ndarray:
    return encode_columns([series], ["real"], [None], untyped=untyped, vector=False)[0].values


def _stack(encoded: list[Encoded], scalar: bool) -> tuple[np.ndarray, np.ndarray]:
    """The columns side by side, as floats with NaN unless all are whole numbers; and what is missing."""
    kinds = {one.column.kind for one in encoded}
    missing = np.stack([one.missing for one in encoded], axis=1)
    values: Any = np.stack([one.values for one in encoded], axis=1)
    if (not scalar and "symbol" in kinds) or "real" in kinds:
        values = np.where(missing, np.nan, values.astype(np.float64))
    return (values[:, 0], missing[:, 0]) if scalar else (values, missing)


# -- one sequence a row --------------------------------------------------------------------------------------


def assemble_wide(path: Path, frame: pl.DataFrame, layout: Layout, *, untyped: bool) -> Sequences:
    """Sequences of scalars, each a row of a table; empty cells at a row's end are no steps."""
    schema = layout.schema
    if schema is not None and (not schema.scalar or schema.inputs):
        raise DataError("the wide form holds scalar observations without inputs, which the schema does not describe.")
    if not (layout.kinds is None or isinstance(layout.kinds, str)):
        raise DataError("in the wide form all columns are steps of one kind; give kinds as one word.")
    steps, _ = Layout(layout.sequence, None, layout.columns, (), None, None).choose(path, frame)
    name = "x" if schema is None else schema.columns[0].name
    dtypes = {"numbers" if dtype.is_numeric() else dtype for dtype in frame.select(steps).dtypes} - {pl.Null}
    if len(dtypes) > 1:
        raise DataError(f"the columns of {path} are of different types, so they are no steps of one sequence.")
    cells = pl.concat([frame.select(pl.col(step).alias(name)) for step in steps], how="vertical_relaxed")[name]
    known = None if schema is None else schema.columns[0]
    try:
        encoded = encode_columns([cells], [layout.kinds], [known], untyped=untyped, vector=False)[0]
    except CellError as error:
        step, row = divmod(error.row, frame.height)
        raise DataError(error.sentence.replace("<row>", f"row {row + 1}, step {step + 1},")) from None
    # One column after the other: cell i is row i % height.
    values, missing = (a.reshape(len(steps), frame.height).T for a in (encoded.values, encoded.missing))
    lengths = len(steps) - np.argmin(missing[:, ::-1], axis=1)
    empty = missing.all(axis=1)
    if empty.any():
        raise DataError(f"row {int(np.argmax(empty)) + 1} of {path} is empty; every sequence needs at least 1 step.")
    names = None
    if layout.sequence is not None:
        _, _, names = arrange(frame, layout.sequence, None, untyped)
        if len(names) < frame.height:
            raise DataError(f"column {layout.sequence!r} names two rows alike, though each is a sequence.")
    longest = int(lengths.max())
    return Sequences.padded(
        values[:, :longest],
        lengths,
        missing=missing[:, :longest],
        names=names,
        schema=schema or Schema((encoded.column,), True, sequence=layout.sequence),
    )
