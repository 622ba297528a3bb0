"""Inputs of steps to come, read from a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from hiddenstate.core import SequenceModel


def read_future(path: Path | None, model: "SequenceModel", names: Sequence[str] = ()) -> "np.ndarray | None":
    """Inputs (time, inputs) for all sequences alike, or (sequence, time, inputs) where there are several."""
    import hiddenstate as hs
    from hiddenstate.data.inputs import file_columns, spread

    schema = model.schema
    if path is None and model.inputs:
        columns = f" ({', '.join(schema.inputs)})" if schema is not None and schema.inputs else ""
        raise hs.DataError(f"the model takes {model.inputs} inputs{columns} at every step; give them with --future.")
    if path is None:
        return None
    if not model.inputs or schema is None:
        raise hs.DataError("the model takes no inputs; leave out --future.")
    named = schema.sequence if len(names) > 1 else None
    known = hs.Schema(file_columns(schema), scalar=False, header=schema.header, separator=schema.separator)
    table = hs.read(path, schema=known, sequence=named, time=schema.time)
    values = spread(table.values, known.columns)
    if table.ragged or table.has_missing:
        raise hs.DataError(f"{path} must have every input of every step, and as many steps for each sequence.")
    if named is None:
        return values[0]
    for name in names:
        if name not in table.names:
            raise hs.DataError(f"{path} has no inputs for sequence {name!r}.")
    return values[[table.names.index(name) for name in names]]
