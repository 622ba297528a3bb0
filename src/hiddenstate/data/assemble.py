"""Rows of a table put together into sequences: one step a row, or one sequence a row, with their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from hiddenstate.core import DataError, Kind, Pairs, Schema, Sequences
from hiddenstate.core.schema import Outputs
from hiddenstate.data.encode import CellError, Encoded, abridged, encode_columns, stack
from hiddenstate.data.inputs import encode_inputs, file_columns, in_schema
from hiddenstate.data.targets import Answers, arrange_targets, encode_targets

_ISO = r"^\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?)?)?$"


class Chosen(NamedTuple):
    """The names of the columns of a table, by what they are."""

    observed: list[str]
    inputs: list[str]
    targets: list[str]


@dataclass(frozen=True)
class Layout:
    """Which column of a table is what; a `schema`, where given, says what is observed and what is input.

    `targets` are the columns of answers, which a `target_schema` knows, and `outputs` says what has one answer.
    """

    sequence: str | None
    time: str | None
    columns: tuple[str, ...] | None
    inputs: tuple[str, ...]
    kinds: Kind | Mapping[str, Kind] | None
    schema: Schema | None
    targets: tuple[str, ...] = ()
    target_schema: Schema | None = None
    outputs: Outputs | None = None
    lenient: bool = False
    """Whether answers that the `target_schema` does not know are taken as missing."""

    def answers(self, frame: pl.DataFrame, *, untyped: bool) -> Answers:
        """The target columns of a table as numbers."""
        return encode_targets(
            frame, self.targets, self.target_kinds, self.target_schema, untyped=untyped, lenient=self.lenient
        )

    def choose(self, path: Path, frame: pl.DataFrame) -> Chosen:
        """The names of observation columns, inputs and targets, all checked to be there.

        Targets that a known schema names may be absent all together: then they are not known yet.
        """
        inputs = list(self.inputs) if self.schema is None else [column.name for column in file_columns(self.schema)]
        roles = [name for name in (self.sequence, self.time) if name is not None]
        absent = self.target_schema is not None and not any(name in frame.columns for name in self.targets)
        targets = [] if absent else list(self.targets)
        if self.schema is not None:
            observed = [column.name for column in self.schema.columns]
        elif self.columns is not None:
            observed = list(self.columns)
        else:
            observed = [name for name in frame.columns if name not in (*roles, *inputs, *targets)]
            if "" in observed:
                raise DataError(
                    f"column {frame.columns.index('') + 1} of {path} has no name; name the observations "
                    f"with columns=, among {abridged([name for name in observed if name])}."
                )
        every = [*roles, *inputs, *observed, *targets]
        for name in every:
            if name not in frame.columns:
                known = ", which the schema of the model asks for" if self.schema is not None else ""
                raise DataError(f"{path} has no column {name!r}{known}; its columns are {abridged(frame.columns)}.")
        if not observed:
            raise DataError(f"{path} has no column left to observe beside {abridged([*roles, *inputs, *targets])}.")
        for i, name in enumerate(every):
            if name in every[:i]:
                ways = (
                    "sequence, time, input, observation or target"
                    if targets
                    else "sequence, time, input or observation"
                )
                raise DataError(f"column {name!r} is named twice; it is either {ways}.")
        return Chosen(observed, inputs, targets)

    def kind_of(self, names: list[str], others: Sequence[str] = ()) -> list[Kind | None]:
        """The kind asked for of each column, None where none is; `others` may have kinds too."""
        if self.kinds is None or isinstance(self.kinds, str):
            return [self.kinds] * len(names)
        strange = [name for name in self.kinds if name not in (*names, *others)]
        if strange:
            raise DataError(f"kinds names {strange[0]!r}, which is none of the observed columns {abridged(names)}.")
        return [self.kinds.get(name) for name in names]

    @property
    def target_kinds(self) -> list[Kind | None]:
        """The kind asked for of each target: one word for all columns is for the observations alone."""
        named = {} if self.kinds is None or isinstance(self.kinds, str) else self.kinds
        return [named.get(name) for name in self.targets]

    @property
    def due(self) -> Outputs | None:
        """What has one answer, sequence or step, where that is known."""
        return self.outputs or (None if self.target_schema is None else self.target_schema.outputs)


# -- one step a row ------------------------------------------------------------------------------------------


def assemble_long(path: Path, frame: pl.DataFrame, layout: Layout, *, untyped: bool) -> Sequences | Pairs:
    """Sequences whose steps are the rows of a table, with their targets where the layout names some."""
    chosen = layout.choose(path, frame)
    frame, sequence, layout = _unroll_lists(frame, chosen, layout)
    order, starts, names = arrange(frame, sequence, layout.time, untyped)
    names = names if sequence is not None else [path.stem]
    sources = _sources(frame, chosen, layout, order, starts, names, untyped=untyped)
    if not layout.targets:
        return sources
    answers = layout.answers(frame, untyped=untyped)
    targets = arrange_targets(
        path, answers, order, starts, names,
        outputs=layout.due, grouped=sequence is not None, schema=layout.target_schema,
    )  # fmt: skip
    return Pairs(sources, targets)


def _sources(
    frame: pl.DataFrame,
    chosen: Chosen,
    layout: Layout,
    order: np.ndarray,
    starts: np.ndarray,
    names: list[str],
    *,
    untyped: bool,
) -> Sequences:
    """The observations and inputs, in the order of the steps of all sequences."""
    schema = layout.schema
    encoded = encode_columns(
        [frame[name] for name in chosen.observed],
        layout.kind_of(chosen.observed, chosen.targets),
        [None] * len(chosen.observed) if schema is None else schema.columns,
        untyped=untyped,
        vector=len(chosen.observed) > 1,
    )
    scalar = len(chosen.observed) == 1 if schema is None else schema.scalar
    values, missing = stack(encoded, scalar)
    inputs, columns = None, ()
    if chosen.inputs:
        known = [None] * len(chosen.inputs) if schema is None else file_columns(schema)
        inputs, columns = encode_inputs([frame[name] for name in chosen.inputs], known, untyped=untyped)
    if schema is None:
        schema = Schema(
            tuple(one.column for one in encoded), scalar, sequence=layout.sequence, time=layout.time,
            **in_schema(columns),  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
    cuts = starts[1:]
    return Sequences.of(
        np.split(values[order], cuts),
        missing=np.split(missing[order], cuts) if missing.any() else None,
        inputs=None if inputs is None else np.split(inputs[order], cuts),
        names=names,
        schema=schema,
    )


def _unroll_lists(frame: pl.DataFrame, chosen: Chosen, layout: Layout) -> tuple[pl.DataFrame, str | None, Layout]:
    """A table whose cells are lists, one sequence a row, as one with a row a step.

    Targets may be lists as well; those that are none are one for each sequence.
    """
    listed = [name for name in chosen.targets if _holds_lists(frame[name])]
    cells = [*chosen.observed, *chosen.inputs, *listed]
    lists = [name for name in cells if _holds_lists(frame[name])]
    if not lists:
        return frame, layout.sequence, layout
    if len(lists) < len(cells) or layout.time is not None:
        other = next((name for name in cells if name not in lists), layout.time)
        raise DataError(f"column {lists[0]!r} holds lists, so each row is a sequence, but column {other!r} holds none.")
    single = [name for name in chosen.targets if name not in listed]
    if single and listed:
        raise DataError(f"target {listed[0]!r} holds lists, one answer for each step, but target {single[0]!r} none.")
    if single and layout.due == "step":
        raise DataError(
            f"target {single[0]!r} holds no lists, so there is one answer for each sequence, not each step."
        )
    if single:
        layout = replace(layout, outputs="sequence")
    frame, sequence = _named_rows(frame, layout.sequence)
    sizes = [frame[name].list.len() if isinstance(frame[name].dtype, pl.List) else None for name in cells]
    for name, size in zip(cells, sizes, strict=True):
        if size is not None and (empty := (size.fill_null(0) == 0).arg_true()).len():
            raise DataError(
                f"row {empty[0] + 1} has no value in column {name!r}; every sequence needs at least 1 step."
            )
    try:
        return frame.select(sequence, *cells, *single).explode(cells), sequence, layout
    except pl.exceptions.PolarsError:
        raise DataError(f"the lists of {abridged(cells)} differ in length within a row.") from None


def _holds_lists(series: pl.Series) -> bool:
    return isinstance(series.dtype, pl.List | pl.Array)


def _named_rows(frame: pl.DataFrame, sequence: str | None) -> tuple[pl.DataFrame, str]:
    """A table in which every row is a sequence, with the column that names them: its own, or the rows' numbers."""
    if sequence is None:
        sequence = "row"
        while sequence in frame.columns:
            sequence += "_"
        return frame.with_row_index(sequence), sequence
    if frame[sequence].is_duplicated().any():
        raise DataError(f"column {sequence!r} names two rows alike, though each is a sequence.")
    return frame, sequence


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
            raise DataError(
                f"rows {one} and {two}{of} have the same {time}, {at}: their order is unknown; give each row a time of "
                "its own, or take rows in the order of the file, without a column for time."
            )
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


# -- one sequence a row --------------------------------------------------------------------------------------


def assemble_wide(path: Path, frame: pl.DataFrame, layout: Layout, *, untyped: bool) -> Sequences | Pairs:
    """Sequences of scalars, each a row of a table; empty cells at a row's end are no steps."""
    schema = layout.schema
    if schema is not None and (not schema.scalar or schema.inputs):
        raise DataError("the wide form holds scalar observations without inputs, which the schema does not describe.")
    if not (layout.kinds is None or isinstance(layout.kinds, str) or layout.targets):
        raise DataError("in the wide form all columns are steps of one kind; give kinds as one word.")
    if layout.due == "step":
        raise DataError("in the wide form there is one answer for each sequence; outputs='step' needs one row a step.")
    steps = replace(layout, time=None, inputs=(), kinds=None, schema=None).choose(path, frame).observed
    name = "x" if schema is None else schema.columns[0].name
    encoded = _encode_wide(path, frame, steps, name, layout, untyped=untyped)
    # One column after the other: cell i is row i % height.
    values, missing = (a.reshape(len(steps), frame.height).T for a in (encoded.values, encoded.missing))
    lengths = len(steps) - np.argmin(missing[:, ::-1], axis=1)
    empty = missing.all(axis=1)
    if empty.any():
        raise DataError(f"row {int(np.argmax(empty)) + 1} of {path} is empty; every sequence needs at least 1 step.")
    longest = int(lengths.max())
    sources = Sequences.padded(
        values[:, :longest],
        lengths,
        missing=missing[:, :longest],
        names=row_names(frame, layout.sequence, untyped),
        schema=schema or Schema((encoded.column,), True, sequence=layout.sequence),
    )
    return sources if not layout.targets else Pairs(sources, row_targets(path, frame, layout, sources, untyped=untyped))


def _encode_wide(
    path: Path, frame: pl.DataFrame, steps: list[str], name: str, layout: Layout, *, untyped: bool
) -> Encoded:
    """All cells as one column, one step after the other."""
    dtypes = {"numbers" if dtype.is_numeric() else dtype for dtype in frame.select(steps).dtypes} - {pl.Null}
    if len(dtypes) > 1:
        raise DataError(f"the columns of {path} are of different types, so they are no steps of one sequence.")
    cells = pl.concat([frame.select(pl.col(step).alias(name)) for step in steps], how="vertical_relaxed")[name]
    known = None if layout.schema is None else layout.schema.columns[0]
    kind = layout.kinds if layout.kinds is None or isinstance(layout.kinds, str) else layout.kinds.get(name)
    try:
        return encode_columns([cells], [kind], [known], untyped=untyped, vector=False)[0]
    except CellError as error:
        step, row = divmod(error.row, frame.height)
        raise DataError(error.sentence.replace("<row>", f"row {row + 1}, step {step + 1},")) from None


def row_names(frame: pl.DataFrame, sequence: str | None, untyped: bool) -> list[str] | None:
    """The names of the rows of a table in which each is a sequence, or None where no column names them."""
    if sequence is None:
        return None
    _, _, names = arrange(frame, sequence, None, untyped)
    if len(names) < frame.height:
        raise DataError(f"column {sequence!r} names two rows alike, though each is a sequence.")
    return names


def row_targets(path: Path, frame: pl.DataFrame, layout: Layout, sources: Sequences, *, untyped: bool) -> Sequences:
    """The answers of a table in which every row is a sequence: one each."""
    answers = layout.answers(frame, untyped=untyped)
    rows = np.arange(frame.height)
    return arrange_targets(
        path, answers, rows, rows, list(sources.names),
        outputs="sequence", grouped=True, schema=layout.target_schema,
    )  # fmt: skip
