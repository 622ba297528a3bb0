"""Columns of a table as numbers: which kind each is, its vocabulary, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hiddenstate.core import Column, DataError, Kind

# In a column whose other values are numbers or truth values, these words mark a missing one.
MISSING_WORDS = ("NA", "N/A", "na", "n/a", "NaN", "nan", "null", "NULL", "None")
TRUTH = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}

# Whole numbers are symbols where few different ones occur and those fill most of 0 .. max.
MOST_SYMBOLS = 20


@dataclass(frozen=True)
class Encoded:
    """A column as an array of whole numbers or of floats, and a mask that is True where one is missing."""

    column: Column
    values: np.ndarray
    missing: np.ndarray


class CellError(DataError):
    """A cell that cannot be read; `sentence` has ``<row>`` where the number of its row (from 0) belongs."""

    def __init__(self, sentence: str, row: int):
        super().__init__(sentence.replace("<row>", f"row {row + 1}"))
        self.sentence, self.row = sentence, row


def encode_columns(
    series: Sequence[pl.Series],
    kinds: Sequence[Kind | None],
    known: Sequence[Column | None],
    *,
    untyped: bool,
    vector: bool,
) -> list[Encoded]:
    """Each column as numbers, of the kind asked for, or of the kind its values suggest.

    `known` are the columns of a schema to follow, `untyped` says that the values are text from a CSV file,
    and `vector` that several columns make one observation.
    """
    asked: list[Kind | None] = [
        kind if column is None else column.kind for kind, column in zip(kinds, known, strict=True)
    ]
    typed = [
        typed_column(s, kind, named=column is not None and column.symbols is not None, untyped=untyped)
        for s, kind, column in zip(series, asked, known, strict=True)
    ]
    guessed = _suggest(typed, vector)
    return [
        _encode(s, kind or guess, column) for s, kind, guess, column in zip(typed, asked, guessed, known, strict=True)
    ]


def stack(encoded: Sequence[Encoded], scalar: bool) -> tuple[np.ndarray, np.ndarray]:
    """The columns side by side, as floats with NaN unless all are whole numbers; and what is missing."""
    kinds = {one.column.kind for one in encoded}
    missing = np.stack([one.missing for one in encoded], axis=1)
    values = np.stack([one.values for one in encoded], axis=1)
    if (not scalar and "symbol" in kinds) or "real" in kinds:
        values = np.where(missing, np.nan, values.astype(np.float64))
    return (values[:, 0], missing[:, 0]) if scalar else (values, missing)


# -- types ---------------------------------------------------------------------------------------------------


def typed_column(series: pl.Series, kind: Kind | None = None, *, named: bool = False, untyped: bool) -> pl.Series:
    """The column as Boolean, Int64, Float64 or String, NaN made null; DataError for any other type."""
    dtype = series.dtype
    if dtype == pl.Null:
        return series.cast(pl.String if kind == "symbol" else pl.Float64)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return series.cast(pl.String)
    if dtype == pl.String:
        return _from_text(series, kind, named) if untyped else series
    if dtype == pl.Boolean:
        return series
    if dtype.is_integer():
        if dtype in (pl.UInt64, pl.Int128) and (series > np.iinfo(np.int64).max).any():
            return series.cast(pl.Float64)
        return series.cast(pl.Int64)
    if dtype.is_float() or dtype.is_decimal():
        return series.cast(pl.Float64).fill_nan(None)
    if dtype.is_temporal():
        raise DataError(_dates(series.name))
    raise DataError(f"column {series.name!r} holds {dtype} values; observations are numbers, words or truth values.")


def _from_text(series: pl.Series, kind: Kind | None, named: bool) -> pl.Series:
    """The type that the written values of a CSV column have."""
    name = series.name
    text = series.str.strip_chars()
    text = text.set(text == "", None)
    if kind == "symbol" and named:
        return text
    numbers = text.cast(pl.Float64, strict=False)
    word = numbers.is_null() & text.is_not_null()
    meant = word & ~text.is_in(MISSING_WORDS)
    if not meant.any() and (numbers.is_not_null().any() or (kind != "symbol" and not word.any())):
        return _from_numbers(text, numbers)
    if not meant.any() and kind in ("real", "count", "bit"):
        return numbers
    if kind == "symbol":
        return text
    if numbers.is_not_null().any() or (kind is not None and not _truths(text.filter(meant))):
        row = meant.arg_true()[0]
        if kind is not None:
            raise CellError(f"column {name!r} is to be read as {kind}, but <row> holds {text[row]!r}.", row)
        raise CellError(
            f"column {name!r} mixes numbers and words: <row> holds {text[row]!r}. Mark missing values by an "
            "empty field or NA, or read the column as words with kinds='symbol'.",
            row,
        )
    if _truths(text.filter(meant)):
        return text.replace_strict(TRUTH, default=None, return_dtype=pl.Boolean)
    if text.drop_nulls().str.contains(r"^\d{4}-\d{2}-\d{2}([T ].*)?$").all():
        raise DataError(_dates(name))
    if text.drop_nulls().str.contains(r"^[+-]?\d[\d.,' ]*$").all():
        raise DataError(
            f"column {name!r} holds {text.drop_nulls()[0]!r}, a number that is not written with a "
            "decimal point alone; write it so, or read the column as words with kinds='symbol'."
        )
    return text


def _from_numbers(text: pl.Series, numbers: pl.Series) -> pl.Series:
    numbers = numbers.fill_nan(None)
    whole = text.cast(pl.Int64, strict=False)
    return whole if len(whole) > whole.null_count() == numbers.null_count() else numbers


def _truths(words: pl.Series) -> bool:
    return len(words) > 0 and words.is_in(list(TRUTH)).all()


def _dates(name: str) -> str:
    return (
        f"column {name!r} holds dates, which are no observations; name it as time={name!r}, or name the "
        "observations with columns=."
    )


# -- kinds ---------------------------------------------------------------------------------------------------


def _suggest(typed: Sequence[pl.Series], vector: bool) -> list[Kind]:
    """The kind that each column's values suggest.

    Words are symbols, truth values bits, floats real. A vector of nothing but whole numbers from 0 on is bits
    if all are 0 or 1, else counts. Any other column of whole numbers is symbols where at most `MOST_SYMBOLS`
    different ones occur and the largest is less than twice their number; else counts; with a negative one
    among them, real.
    """
    integers = [s for s in typed if s.dtype == pl.Int64]
    if vector and len(integers) == len(typed) and all(_low(s) >= 0 for s in typed):
        return ["bit" if all(_high(s) <= 1 for s in typed) else "count"] * len(typed)
    return [_suggest_one(s) for s in typed]


def _suggest_one(series: pl.Series) -> Kind:
    if series.dtype == pl.String:
        return "symbol"
    if series.dtype == pl.Boolean:
        return "bit"
    if series.dtype == pl.Float64 or _low(series) < 0:
        return "real"
    return "symbol" if _dense(series) else "count"


def _dense(series: pl.Series) -> bool:
    distinct = series.drop_nulls().n_unique()
    return distinct <= MOST_SYMBOLS and _low(series) >= 0 and _high(series) < 2 * max(distinct, 1)


def _low(series: pl.Series) -> int:
    low = series.min()
    return 0 if low is None else int(low)  # pyright: ignore[reportArgumentType]


def _high(series: pl.Series) -> int:
    high = series.max()
    return 0 if high is None else int(high)  # pyright: ignore[reportArgumentType]


# -- numbers -------------------------------------------------------------------------------------------------


def _encode(series: pl.Series, kind: Kind, known: Column | None) -> Encoded:
    missing = series.is_null().to_numpy()
    if kind == "symbol":
        column, codes = _encode_symbols(series, known)
        return Encoded(column, codes, missing)
    if series.dtype == pl.String and series.null_count() < len(series):
        row = series.is_not_null().arg_true()[0]
        raise CellError(f"column {series.name!r} is to be read as {kind}, but <row> holds {series[row]!r}.", row)
    column = Column(series.name, kind)
    if kind == "real":
        return Encoded(column, series.cast(pl.Float64).to_numpy().astype(np.float64), missing)
    return Encoded(column, _whole(series, kind, 1) if kind == "bit" else _whole(series, kind), missing)


def _whole(series: pl.Series, kind: Kind, high: int = np.iinfo(np.int32).max) -> np.ndarray:
    """Whole numbers from 0 to `high`, zero where missing; DataError names the first value that is none."""
    numbers = series.cast(pl.Float64).fill_null(0.0).to_numpy()
    wrong = (numbers < 0) | (numbers != np.floor(numbers)) | (numbers > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        due = "0 or 1" if kind == "bit" else "a whole number from 0 " + ("on" if high is None else f"to {high}")
        raise CellError(
            f"column {series.name!r} is to be read as {kind}, but <row> holds {series[row]!r}; due is {due}.",
            row,
        )
    return series.cast(pl.Int64).fill_null(0).to_numpy()


def _encode_symbols(series: pl.Series, known: Column | None) -> tuple[Column, np.ndarray]:
    """Codes 0 .. size - 1: a dense column of whole numbers is its own codes, any other gets a vocabulary."""
    name = series.name
    if known is not None and known.symbols is None:
        if series.dtype == pl.String and series.null_count() < len(series):
            row = series.is_not_null().arg_true()[0]
            due = f"whole numbers from 0 to {known.size - 1}"
            raise CellError(f"column {name!r} holds {due}, but <row> holds {series[row]!r}.", row)
        return known, _whole(series, "symbol", known.size - 1)
    series = _drop_decimals(series)
    if known is None and series.dtype == pl.Int64 and _dense(series):
        return Column(name, "symbol", _high(series) + 1), series.fill_null(0).to_numpy()
    if known is not None and known.symbols is not None:
        symbols = known.symbols
    else:
        symbols = tuple(_words(series.drop_nulls().unique().sort()).to_list()) or ("",)
    words = _words(series)
    codes = words.replace_strict(list(symbols), list(range(len(symbols))), default=None, return_dtype=pl.Int64)
    strange = (codes.is_null() & words.is_not_null()).arg_true()
    if len(strange):
        row = strange[0]
        raise CellError(
            f"column {name!r} holds {words[row]!r} at <row>, a symbol that is not in its vocabulary: "
            f"{abridged(symbols)}.",
            row,
        )
    return Column(name, "symbol", len(symbols), symbols), codes.fill_null(0).to_numpy()


def _words(series: pl.Series) -> pl.Series:
    if series.dtype == pl.Boolean:
        return series.cast(pl.Int64).replace_strict([0, 1], ["false", "true"], default=None, return_dtype=pl.String)
    return series.cast(pl.String)


def _drop_decimals(series: pl.Series) -> pl.Series:
    """Floats that are all whole as whole numbers, so that 1.0 and 1 are one symbol."""
    if series.dtype != pl.Float64:
        return series
    known = series.drop_nulls()
    # Beyond 2^53 floats are no exact whole numbers.
    return series.cast(pl.Int64) if ((known == known.floor()) & (known.abs() <= 2**53)).all() else series


def abridged(words: Sequence[str], most: int = 12) -> str:
    """Words in quotes, the first ones if there are many."""
    shown = ", ".join(repr(word) for word in words[:most])
    return shown if len(words) <= most else f"{shown}, ... ({len(words)} in all)"
