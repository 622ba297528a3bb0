"""The rows of a table file as they stand, and where each went when it was read as sequences."""

from pathlib import Path

import numpy as np
import polars as pl

from hiddenstate.core import Schema
from hiddenstate.data.assemble import Layout, arrange
from hiddenstate.data.read import as_before, open_file
from hiddenstate.data.tables import TABLES, read_table


def read_rows(
    path: str | Path,
    schema: Schema,
    *,
    sequence: str | None = None,
    time: str | None = None,
    header: bool | None = None,
    separator: str | None = None,
) -> tuple[pl.DataFrame, np.ndarray] | None:
    """The table in a file, and for the steps of all sequences, one behind the other, the row that each came from.

    `header` and `separator` are those of the schema unless said otherwise, as in `hs.read`.
    None where the file has no row for each step: text, arrays, and tables whose cells are lists.
    """
    path = Path(path)
    form = path.suffix.lower()
    if schema.text is not None or form not in TABLES:
        return None
    content = open_file(path)
    header, separator = as_before(schema, form, content, header, separator)
    frame, untyped = read_table(path, content, form=form, header=header, separator=separator, ragged=False)
    layout = Layout(sequence or schema.sequence, time or schema.time, None, (), None, schema)
    observed, inputs, _ = layout.choose(path, frame)
    if any(isinstance(frame[name].dtype, pl.List | pl.Array) for name in (*observed, *inputs)):
        return None
    order, _, _ = arrange(frame, layout.sequence, layout.time, untyped)
    return frame, order


def typed(frame: pl.DataFrame) -> pl.DataFrame:
    """The same table with columns of text that hold nothing but numbers as numbers."""
    made = []
    for series in frame:
        if series.dtype == pl.String:
            text = series.str.strip_chars().replace("", None)
            for dtype in (pl.Int64, pl.Float64):
                numbers = text.cast(dtype, strict=False)
                if numbers.null_count() == text.null_count():
                    series = numbers
                    break
        made.append(series)
    return pl.DataFrame(made)
