"""`read`: a file of any known form as `Sequences` with a full schema."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hiddenstate.core import KINDS, DataError, FileError, Kind, Schema, Sequences
from hiddenstate.data.arrays import read_npz
from hiddenstate.data.assemble import Layout, assemble_long, assemble_wide
from hiddenstate.data.tables import TABLES, read_table
from hiddenstate.data.text import Cut, read_text

FORMS = (*TABLES, ".npz", ".txt")


def read(
    path: str | Path,
    *,
    sequence: str | None = None,
    time: str | None = None,
    columns: str | Sequence[str] | None = None,
    inputs: str | Sequence[str] = (),
    kinds: Kind | Mapping[str, Kind] | None = None,
    schema: Schema | None = None,
    wide: bool = False,
    text: Cut | None = None,
    lines: bool = False,
    unknown: Literal["error", "skip"] = "error",
    header: bool = True,
    separator: str | None = None,
) -> Sequences:
    """The sequences in a file: a table (.csv, .tsv, .parquet, .ndjson, .jsonl), arrays (.npz) or text (.txt).

    **Tables.** A row is a step. `sequence` names the column that tells which sequence a row belongs to
    (without it all rows are one sequence); `time` the column to sort by within a sequence (without it rows
    stay in the file's order); `inputs` the columns known beforehand; `columns` the observations, by default
    all others. One column gives scalar observations, several give vectors. A row whose cells are lists is a
    whole sequence. With `wide` every row is a sequence of scalars and every column a step; empty cells at the
    end of a row end the sequence, others are missing values. `header` is False for CSV files without one, and
    `separator` is theirs if it is no comma (or tab, for .tsv).

    **Kinds.** ``real``, ``count``, ``bit`` or ``symbol``. Words are symbols, with a sorted vocabulary; truth
    values are bits; numbers with decimals are real. Several columns of nothing but whole numbers from 0 on
    are bits if all are 0 or 1, else counts. Any other column of whole numbers is symbols if there are at most
    20 different ones and the largest is less than twice their number, else counts, or real if one is
    negative. `kinds` says otherwise, for all columns or by name.

    **Missing values.** Nulls, empty cells and NaN are missing, and so are NA, N/A and null among numbers.
    They stay missing: they are never made zero.

    **Text.** Each character is a symbol, or each token between white space with ``text="tokens"``. The file
    is one sequence, or with `lines` each line that is not blank. ``unknown="skip"`` leaves out symbols that
    `schema` lacks.

    **A fitted model's data.** With `schema` the file is read as the one the schema came from: the same
    columns, kinds and vocabularies. A symbol that is not among them is an error that names it.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "weather.csv"
    >>> _ = file.write_text("town,day,sky\\nA,2,wet\\nA,1,dry\\nB,1,dry\\n")
    >>> data = read(file, sequence="town", time="day")
    >>> data.values.tolist(), data.names, data.schema.columns[0].symbols
    ([[0, 1], [0, 0]], ('A', 'B'), ('dry', 'wet'))
    """
    path = Path(path)
    content, form = open_file(path), path.suffix.lower()
    if schema is not None:
        _refuse("schema already says which", columns=columns, inputs=inputs, kinds=kinds)
        if text is not None and text != schema.text:
            raise DataError(f"text is {text!r}, but the schema says {schema.text!r}.")
        text = schema.text
        if text is None and form == ".txt":
            raise DataError(f"{path} is text, but the schema describes no text: its columns are {_names(schema)}.")
    _check_options(kinds, text, unknown)
    if text is not None or form == ".txt":
        _refuse(
            "text takes no", sequence=sequence, time=time, columns=columns, inputs=inputs, kinds=kinds,
            wide=wide, separator=separator, header=not header,
        )  # fmt: skip
        return read_text(path, content, cut=text or "characters", lines=lines, schema=schema, unknown=unknown)
    _refuse(
        f"only text takes (text='characters' reads {path.name} as text)",
        lines=lines,
        unknown=unknown != "error",
    )
    if form == ".npz":
        _refuse(
            "an NPZ file takes no", sequence=sequence, time=time, columns=columns, inputs=inputs, wide=wide,
            separator=separator, header=not header,
        )  # fmt: skip
        return read_npz(path, content, kinds=kinds, schema=schema)
    if form not in TABLES:
        raise FileError(
            f"{path} ends in {form!r}; the forms known are {', '.join(FORMS)}. Text of any ending is read "
            "with text='characters' or text='tokens'."
        )
    frame, untyped = read_table(path, content, form=form, header=header, separator=separator, ragged=wide)
    layout = Layout(
        sequence=sequence if sequence is not None or schema is None else schema.sequence,
        time=time if time is not None or schema is None else schema.time,
        columns=(columns,) if isinstance(columns, str) else None if columns is None else tuple(columns),
        inputs=(inputs,) if isinstance(inputs, str) else tuple(inputs),
        kinds=kinds,
        schema=schema,
    )
    if wide:
        _refuse("the wide form takes no", time=time, inputs=inputs)
        return assemble_wide(path, frame, layout, untyped=untyped)
    return assemble_long(path, frame, layout, untyped=untyped)


def open_file(path: Path) -> bytes:
    """The bytes of a file that is there and not empty."""
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"there is no file {path}.") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}.") from None
    if not content:
        raise FileError(f"{path} is empty.")
    return content


def _check_options(kinds: Any, text: Any, unknown: Any) -> None:
    if not (kinds is None or isinstance(kinds, str | Mapping)):
        raise DataError(f"kinds is {kinds!r}; it must be one kind, or a mapping from column names to kinds.")
    for kind in [kinds] if isinstance(kinds, str) else (kinds or {}).values():
        if kind not in KINDS:
            raise DataError(f"kinds names {kind!r}; a kind is one of {', '.join(KINDS)}.")
    if text not in (None, "characters", "tokens"):
        raise DataError(f"text is {text!r}; it must be 'characters' or 'tokens'.")
    if unknown not in ("error", "skip"):
        raise DataError(f"unknown is {unknown!r}; it must be 'error' or 'skip'.")


def _refuse(why: str, **options: Any) -> None:
    """DataError that names the options given, if any is."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != ()]
    if given:
        raise DataError(f"{why} {', '.join(given)}.")


def _names(schema: Schema) -> str:
    return ", ".join(column.name for column in schema.columns)
