"""Tables: made of sequences and scores, printed, and written to files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

from hiddenstate.core import Column, FileError, Pairs, Schema, Sequences
from hiddenstate.core.storage import write_bytes
from hiddenstate.data import decode_symbols

_FORMS = (".csv", ".json", ".parquet")


def score_table(nats: np.ndarray, data: Sequences | Pairs) -> pl.DataFrame:
    """The score of every sequence, out of the nats of every step (of its answers, in pairs)."""
    if isinstance(data, Pairs):
        steps = data.scored.sum(axis=1)
    else:
        steps = data.lengths - (0 if data.context is None else data.context)
    totals = nats.sum(axis=1)
    return pl.DataFrame(
        {
            "sequence": list(data.names),
            "steps": steps,
            "nats_per_step": totals / np.where(steps, steps, np.nan),
            "log_prob": -totals,
        }
    )


def sequence_table(data: Sequences) -> pl.DataFrame:
    """A row a step: the names of sequence and step, then the observation, with symbols by their names."""
    schema = data.schema
    sequence, time = step_names(schema, schema.columns)
    table: dict[str, Any] = {
        sequence: [name for name, n in zip(data.names, data.lengths, strict=True) for _ in range(n)],
        time: np.concatenate([np.arange(1, n + 1) for n in data.lengths]),
    }
    named = decode_symbols(data) if "symbol" in schema.kinds else None
    for i, column in enumerate(schema.columns):
        if named is not None:
            cells = [step if schema.scalar else step[i] for row in named for step in row]
        else:
            cells = np.concatenate([row if schema.scalar else row[:, i] for row in data])
        table[column.name] = cells
    return pl.DataFrame(table, strict=False)


def table_as_read(data: Sequences) -> pl.DataFrame:
    """The table in the form that the data's own file had: a row a sequence where that was wide, else a row a step."""
    schema = data.schema
    if not schema.wide:
        return sequence_table(data)
    rows = decode_symbols(data) if "symbol" in schema.kinds else [row.tolist() for row in data]
    names = {schema.sequence: list(data.names)} if schema.sequence is not None else {}
    steps = {
        f"t{step + 1}": [row[step] if step < len(row) else None for row in rows]
        for step in range(int(data.lengths.max()))
    }
    return pl.DataFrame(names | steps, strict=False)


def step_names(schema: Schema, columns: Iterable[Column]) -> tuple[str, str]:
    """What the columns of sequence and time are called, beside others."""
    taken = [column.name for column in columns]
    return _free(schema.sequence or "sequence", taken), _free(schema.time or "step", taken)


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


# -- writing -------------------------------------------------------------------------------------------------


def write_table(table: pl.DataFrame, path: str | Path, separator: str | None = None) -> None:
    """Write a table in the form that the path's ending says, whole or not at all; CSV with this separator."""
    path = Path(path)
    check_ending(path)
    match path.suffix.lower():
        case ".csv":
            write_text(to_csv(table, separator), path)
        case ".json":
            write_text(to_json(table), path)
        case _:
            import io

            buffer = io.BytesIO()
            table.write_parquet(buffer)
            write_bytes(path, buffer.getvalue())


def check_ending(path: Path) -> None:
    """FileError if a table cannot be written in the form that the path's ending says."""
    if path.suffix.lower() not in _FORMS:
        raise FileError(f"cannot write {path}: a table is written as {', '.join(_FORMS)}.")


def write_text(text: str, path: str | Path) -> None:
    """Write text as UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def to_csv(table: pl.DataFrame, separator: str | None = None) -> str:
    """The table as CSV, with commas where no other separator is given."""
    return table.write_csv(separator=separator or ",")


def to_json(table: pl.DataFrame) -> str:
    """The table as a JSON list of rows; numbers that are not finite are null."""
    import json

    rows = [{name: _plain(value) for name, value in row.items()} for row in table.iter_rows(named=True)]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


# -- printing ------------------------------------------------------------------------------------------------


WIDE = 200
"""Letters in a line of a table that nobody reads on a terminal."""


def print_table(table: pl.DataFrame, cut: int = 0) -> None:
    """Print a table for reading, columns that hold nothing left out; `cut` is how many rows are not shown."""
    table = table[[s.name for s in table if s.null_count() < len(s)]]
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for series in table:
        number = series.dtype.is_numeric()
        shown.add_column(series.name, justify="right" if number else "left", no_wrap=number)
    for row in table.iter_rows():
        shown.add_row(*(_cell(value) for value in row))
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:  # files and pipes have room for whole numbers
        console.width = max(console.width, WIDE)
    console.print(shown)
    if cut > 0:
        console.print(f"... and {cut:,} rows more", style="dim")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}" if np.isfinite(value) else str(value)
    return visible(value) if isinstance(value, str) else str(value)


def visible(symbol: str) -> str:
    """A symbol's name with white space made visible."""
    return symbol.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") if symbol.isspace() else symbol
