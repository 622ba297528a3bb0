"""What one observation is made of: the columns, their kinds and their vocabularies."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from hiddenstate.core.errors import DataError

Kind = Literal["real", "count", "bit", "symbol"]
KINDS: tuple[str, ...] = get_args(Kind)
Outputs = Literal["sequence", "step"]


@dataclass(frozen=True)
class Column:
    """One entry of an observation.

    `size` is the number of different symbols of a ``symbol`` column (0 for other kinds); `symbols` are their
    names, where they have any, in the order of their codes.
    """

    name: str
    kind: Kind
    size: int = 0
    symbols: tuple[str, ...] | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise DataError(f"kind of column {self.name!r} is {self.kind!r}; it must be one of {', '.join(KINDS)}.")
        if self.symbols is not None and self.size != len(self.symbols):
            raise DataError(f"column {self.name!r} has size {self.size} but {len(self.symbols)} symbol names.")
        if self.kind == "symbol" and self.size < 1:
            raise DataError(f"column {self.name!r} holds symbols, so its size must be at least 1.")


@dataclass(frozen=True)
class Schema:
    """What a data set's observations and inputs are, so that a model can read a new file the same way.

    `scalar` tells an observation that is one number from a vector of one number. `text` says how text was cut
    into symbols: ``"characters"`` or ``"tokens"``. `sequence` and `time` are the names of the columns that said
    which sequence a row belongs to and in which order.

    `inputs` names every number that is known beforehand. Where some of them stand for words, `input_columns` are the
    columns of the file that they come from: a column of words gives one number for each word, 1 where it stands.
    `outputs` tells, of targets, whether there is one for each sequence or one for each step.

    `lines`, `wide`, `header` and `separator` are how the file was read: see `hs.read`.
    """

    columns: tuple[Column, ...]
    scalar: bool
    inputs: tuple[str, ...] = ()
    sequence: str | None = None
    time: str | None = None
    text: Literal["characters", "tokens"] | None = None
    input_columns: tuple[Column, ...] | None = None
    outputs: Outputs | None = None
    lines: bool = False
    wide: bool = False
    header: bool = True
    separator: str | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each column."""
        return tuple(column.kind for column in self.columns)

    @property
    def kind(self) -> str:
        """The one kind of all columns, or ``"mixed"``."""
        kinds = set(self.kinds)
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return () if self.scalar else (len(self.columns),)


def contradiction(made_for: Schema, given: Schema) -> str | None:
    """Why data of one schema are not what a model was made for by another, or None where they may be.

    Plain arrays have neither names nor symbols of their own, and a kind that follows from their numbers: what such data
    do not say is no contradiction. A name that stands at another place is one, and so are other symbols.
    """
    if made_for.columns == given.columns:
        return None
    places = {column.name: number for number, column in enumerate(made_for.columns)}
    for number, (own, other) in enumerate(zip(made_for.columns, given.columns, strict=False)):
        if places.get(other.name, number) != number:
            return f"column {number + 1} is {other.name!r}, but the model was made for {own.name!r} there"
        if other.symbols is not None and own.kind != "symbol":
            return f"{other.name!r} holds symbols ({_some(other)}), but the model was made for {_NUMBERS[own.kind]}"
        if other.symbols is not None and own.symbols is not None and other.symbols != own.symbols[: other.size]:
            return f"{other.name!r} holds the symbols {_some(other)}, but the model was made for {_some(own)}"
    return None


_SHOWN = 5
_NUMBERS = {"real": "real numbers", "count": "counts", "bit": "bits"}


def _some(column: Column) -> str:
    symbols = column.symbols or ()
    return ", ".join(repr(s) for s in symbols[:_SHOWN]) + (", ..." if len(symbols) > _SHOWN else "")


def infer_schema(values: np.ndarray, lengths: np.ndarray, observed: np.ndarray | None = None) -> Schema:
    """The schema that plain arrays imply.

    Floats are real. Whole numbers that stand alone are symbols 0 .. max; a vector of whole numbers is bits where
    all are 0 or 1, else counts; with a negative number among them they are real. `values` is padded
    (sequence, time, ...), `lengths` says how far each sequence goes, `observed` is False where a value is missing.
    """
    scalar = values.ndim == 2
    width = 1 if scalar else values.shape[2]
    inside = np.arange(values.shape[1]) < np.asarray(lengths)[:, None]
    table = values.reshape(*values.shape[:2], width)
    seen = np.broadcast_to(inside[..., None], table.shape)
    if observed is not None:
        seen = seen & np.broadcast_to(observed.reshape(*observed.shape[:2], -1), table.shape)
    kind: Kind = "real"
    size = 0
    if values.dtype == bool:
        kind = "bit"
    elif np.issubdtype(values.dtype, np.integer):
        known = table[seen]
        low, high = (int(known.min()), int(known.max())) if known.size else (0, 0)
        if low < 0:
            kind = "real"
        elif scalar:
            kind, size = "symbol", high + 1
        else:
            kind = "bit" if high <= 1 else "count"
    return Schema(tuple(Column(f"x{i}" if width > 1 else "x", kind, size) for i in range(width)), scalar)
