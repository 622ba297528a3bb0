"""Table files as polars frames: CSV and TSV as they are written, Parquet, and JSON line by line."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hiddenstate.core import DataError, FileError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHER_SEPARATORS = ";\t|"
TABLES = (*SEPARATORS, ".parquet", ".ndjson", ".jsonl")


def read_table(
    path: Path, content: bytes, *, form: str, header: bool, separator: str | None, ragged: bool
) -> tuple[pl.DataFrame, bool]:
    """The frame of a table file, and whether its values are still text whose types are to be found.

    `ragged` allows rows that end before the last column, as the wide form has them.
    """
    if form in SEPARATORS:
        return _read_delimited(path, content, separator or SEPARATORS[form], header, ragged), True
    if separator is not None or not header:
        raise DataError(f"header and separator are options of CSV and TSV files; {path.name} is neither.")
    frame = _read_parquet(path, content) if form == ".parquet" else _read_json_lines(path, content)
    if not frame.height:
        raise FileError(f"{path} holds no row.")
    return frame, False


# -- CSV and TSV ---------------------------------------------------------------------------------------------


def _read_delimited(path: Path, content: bytes, separator: str, header: bool, ragged: bool) -> pl.DataFrame:
    if len(separator) != 1 or not separator.isascii():
        raise DataError(f"the separator is {separator!r}; it must be one ASCII character.")
    text = decode(path, content).replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    names: list[str] = []
    try:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        first = next(records, [])
        if not any(field.strip() for field in first):
            raise FileError(f"{path} is empty.")
        if header:
            names = [name.strip() for name in first]
            _check_names(path, names, numbers=ragged)
        else:
            width = max(len(first), max(map(len, records), default=0)) if ragged else len(first)
            names = [f"x{i}" for i in range(width)] if width > 1 else ["x"]
            text = separator.join(names) + "\n" + text
        frame = pl.read_csv(
            io.BytesIO(text.encode()),
            separator=separator,
            infer_schema=False,
            new_columns=names,
            encoding="utf8",
        )
        if len(names) > 1 and frame.height and frame[names[-1]].null_count():
            # A row that ends early reads as one with missing values: only the file itself tells them apart.
            sizes = _row_sizes(text, separator)
            if not ragged:
                _check_sizes(path, sizes, names)
            if len(sizes) != frame.height:
                raise FileError(f"{path} is no readable table: its quotes do not match.")
            frame = frame.filter(pl.Series(sizes) > 0)
    except csv.Error as error:
        raise FileError(f"{path} is no readable table: {error}.") from None
    except pl.exceptions.PolarsError as error:
        if "more fields" in str(error):
            _check_sizes(path, _row_sizes(text, separator), names, most=ragged)
        raise FileError(f"{path} is no readable table: {_first_line(error)}.") from None
    if not frame.height:
        raise FileError(f"{path} has a header but no row.")
    return frame


def _check_names(path: Path, names: list[str], numbers: bool) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise FileError(f"{path} has two columns called {name!r}; every column needs a name of its own.")
    if not numbers and all(_is_number(name) for name in names):
        raise FileError(
            f"the first line of {path} holds numbers ({', '.join(names[:3])}), not column names; "
            "add a header, or read it with header=False."
        )


def _row_sizes(text: str, separator: str) -> list[int]:
    """How many fields each row has; a blank line has none."""
    return [len(record) for record in csv.reader(io.StringIO(text, newline=""), delimiter=separator)][1:]


def likely_separator(names: Sequence[str]) -> str | None:
    """What seems to stand between the names of columns, where all were read as one."""
    return next((one for one in OTHER_SEPARATORS if one in names[0]), None) if len(names) == 1 else None


def _check_sizes(path: Path, sizes: list[int], names: list[str], most: bool = False) -> None:
    """FileError that names the first row which has not as many fields as `names`, or with `most`, which has more."""
    width = len(names)
    likely = likely_separator(names)
    hint = "" if likely is None else f" Its first line holds {likely!r}: read it with separator={likely!r}."
    for row, size in enumerate(sizes, 1):
        if size > width or (0 < size < width and not most):
            fields = "field" if size == 1 else "fields"
            columns = "is 1 column" if width == 1 else f"are {width} columns"
            raise FileError(f"{path}: row {row} has {size} {fields}, but there {columns}.{hint}")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


# -- Parquet -------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, content: bytes) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError as error:
        raise FileError(f"{path} is no readable Parquet file, or is truncated: {_first_line(error)}.") from None
    except BaseException as error:
        # A damaged page can panic inside the decoder; that exception is no subclass of Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise FileError(f"{path} is a damaged Parquet file: {_first_line(error)}.") from None


# -- JSON, one object a line ---------------------------------------------------------------------------------


def _read_json_lines(path: Path, content: bytes) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(decode(path, content).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise FileError(f"line {number} of {path} is no JSON: {error}.") from None
        if not isinstance(row, dict):
            raise FileError(
                f'line {number} of {path} is no JSON object such as {{"x": 1.5}}, but {line.strip()[:40]!r}.'
            )
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame([_json_column(name, [row.get(name) for row in rows]) for name in names])


def _json_column(name: str, values: list[Any]) -> pl.Series:
    kinds = [_json_kind(name, row, value) for row, value in enumerate(values, 1)]
    known = [kind for kind in kinds if kind != "null"]
    if not known:
        return pl.Series(name, values, dtype=pl.Null)
    if set(known) == {"list"}:
        inner = [_json_list(name, row, value) for row, value in enumerate(values, 1)]
        dtypes = {column.dtype for column in inner if column is not None and column.dtype != pl.Null}
        if dtypes == {pl.Int64, pl.Float64}:
            dtypes = {pl.Float64}
        if len(dtypes) > 1:
            raise DataError(
                f"the lists of column {name!r} hold different types: {', '.join(sorted(map(str, dtypes)))}."
            )
        return pl.Series(name, values, dtype=pl.List(dtypes.pop() if dtypes else pl.Null), strict=False)
    for row, kind in enumerate(kinds, 1):
        if kind not in ("null", known[0]) and {kind, known[0]} != {"whole number", "number"}:
            odd = f"row {row} holds the {kind} {values[row - 1]!r}"
            raise DataError(f"column {name!r} mixes types: a {known[0]} at first, but {odd}.")
    dtypes = {"truth value": pl.Boolean, "text": pl.String, "whole number": pl.Int64, "number": pl.Float64}
    kind = "number" if "number" in known else known[0]
    try:
        return pl.Series(name, values, dtype=dtypes[kind], strict=kind != "number")
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if v is None else float(v) for v in values], dtype=pl.Float64)


def _json_list(name: str, row: int, value: list[Any] | None) -> pl.Series | None:
    try:
        return None if value is None else _json_column(name, value)
    except DataError as error:
        raise DataError(f"the list at row {row}: {error}") from None


def _json_kind(name: str, row: int, value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "truth value"
        case int():
            return "whole number"
        case float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    raise DataError(f"column {name!r} holds an object at row {row}; observations are numbers, words or truth values.")


# -- the file itself -----------------------------------------------------------------------------------------


def decode(path: Path, content: bytes) -> str:
    """The text of a UTF-8 file, without its byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not UTF-8 text: byte {error.start} is {content[error.start]:#04x}.") from None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
