"""`read`: a file of any known form as `Sequences`, or as `Pairs` with answers, with full schemas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

from hiddenstate.core import KINDS, DataError, FileError, Kind, Pairs, Schema, Sequences
from hiddenstate.core.schema import Outputs
from hiddenstate.data.arrays import read_npz
from hiddenstate.data.assemble import Layout, assemble_long, assemble_wide
from hiddenstate.data.tables import SEPARATORS, TABLES, read_table
from hiddenstate.data.text import Cut, assemble_texts, read_text

FORMS = (*TABLES, ".npz", ".txt")


@overload
def read(path: str | Path, *, target: None = ..., target_schema: None = ..., **options: Any) -> Sequences: ...
@overload
def read(path: str | Path, *, target: str | Sequence[str], **options: Any) -> Pairs: ...
@overload
def read(path: str | Path, *, target_schema: Schema, **options: Any) -> Pairs: ...
def read(  # pyright: ignore[reportInconsistentOverload]
    path: str | Path,
    *,
    sequence: str | None = None,
    time: str | None = None,
    columns: str | Sequence[str] | None = None,
    inputs: str | Sequence[str] = (),
    target: str | Sequence[str] | None = None,
    outputs: Outputs | None = None,
    kinds: Kind | Mapping[str, Kind] | None = None,
    schema: Schema | None = None,
    target_schema: Schema | None = None,
    wide: bool | None = None,
    text: Cut | None = None,
    lines: bool | None = None,
    unknown: Literal["error", "skip"] = "error",
    unknown_answers: Literal["error", "missing"] = "error",
    header: bool | None = None,
    separator: str | None = None,
) -> Sequences | Pairs:
    """The sequences in a file: a table (.csv, .tsv, .parquet, .ndjson, .jsonl), arrays (.npz) or text (.txt).

    **Tables.** A row is a step. `sequence` names the column that tells which sequence a row belongs to
    (without it all rows are one sequence); `time` the column to sort by within a sequence (without it rows
    stay in the file's order); `inputs` the columns known beforehand, numbers or words (a column of words gives
    one input for each word, 1 where it stands); `columns` the observations, by default all others. One column
    gives scalar observations, several give vectors. A row whose cells are lists is a whole sequence. With `wide`
    every row is a sequence of scalars and every column a step; empty cells at the end of a row end the sequence,
    others are missing values. `header` is False for CSV files without one, and `separator` is theirs if it is no
    comma (or tab, for .tsv).

    **Answers.** With `target`, one column or several, the result is `Pairs`: the other columns are read, and the
    target is to be answered. There is one answer for each sequence where none has two different ones (it may stand
    in any of its rows, or in all), and there is a `sequence` column or every row is a sequence; otherwise one for each
    step. `outputs` (``"sequence"`` or ``"step"``) says otherwise. Answers that are missing count in no score.

    **Kinds.** ``real``, ``count``, ``bit`` or ``symbol``. Words are symbols, with a sorted vocabulary; truth
    values are bits; numbers with decimals are real. Several columns of nothing but whole numbers from 0 on
    are bits if all are 0 or 1, else counts. Any other column of whole numbers is symbols if there are at most
    20 different ones and the largest is less than twice their number, else counts, or real if one is
    negative. `kinds` says otherwise, for all columns that are read or, targets too, by name.

    **Missing values.** Nulls, empty cells and NaN are missing, and so are NA, N/A and null among numbers.
    They stay missing: they are never made zero.

    **Text.** Each character is a symbol, or each token between white space with ``text="tokens"``. The file
    is one sequence, or with `lines` each line that is not blank. ``unknown="skip"`` leaves out symbols that
    `schema` lacks. Of a table with a `target`, or one whose `columns` are named, `text` cuts the column of texts:
    ``read("reviews.csv", target="label", text="tokens")``.

    **A fitted model's data.** With `schema` (and `target_schema`) the file is read as the one the schema came
    from: the same columns, kinds and vocabularies, and with the same `lines`, `wide`, `header` and `separator`
    unless these say otherwise. A symbol that is not among them is an error that names it.
    Targets may be absent: then all answers are missing. ``unknown_answers="missing"`` takes labels that
    `target_schema` lacks as missing too.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "weather.csv"
    >>> _ = file.write_text("town,day,sky\\nA,2,wet\\nA,1,dry\\nB,1,dry\\n")
    >>> data = read(file, sequence="town", time="day")
    >>> data.values.tolist(), data.names, data.schema.columns[0].symbols
    ([[0, 1], [0, 0]], ('A', 'B'), ('dry', 'wet'))
    """
    asked = _Asked(
        Path(path), open_file(Path(path)), sequence, time, _names(columns), _names(inputs) or (), _names(target) or (),
        outputs, kinds, schema, target_schema, wide, text, lines, unknown, unknown_answers, header,
        separator,
    ).checked()  # fmt: skip
    return _remembering(_read(asked), asked)


@dataclass(frozen=True)
class _Asked:
    """What a caller of `read` asked for."""

    path: Path
    content: bytes
    sequence: str | None
    time: str | None
    columns: tuple[str, ...] | None
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    outputs: Outputs | None
    kinds: Kind | Mapping[str, Kind] | None
    schema: Schema | None
    target_schema: Schema | None
    wide: bool | None
    text: Cut | None
    lines: bool | None
    unknown: Literal["error", "skip"]
    unknown_answers: Literal["error", "missing"]
    header: bool | None
    separator: str | None

    @property
    def form(self) -> str:
        """The ending of the file."""
        return self.path.suffix.lower()

    @property
    def is_text(self) -> bool:
        """Whether the whole file is text, and no table with a column of texts."""
        return self.form == ".txt" or (self.text is not None and not self._has_text_column)

    @property
    def _has_text_column(self) -> bool:
        if self.form not in TABLES:
            return False
        if self.targets or self.columns is not None:
            return True
        fields = [
            field.strip() for field in first_line(self.content).split(self.separator or SEPARATORS.get(self.form, ","))
        ]
        return self.schema is not None and (self.form not in SEPARATORS or self.schema.columns[0].name in fields)

    def checked(self) -> "_Asked":
        """The same, with what the schemas say; DataError if that is not what else was asked for."""
        _check_options(self.kinds, self.text, self.unknown, self.outputs)
        if self.unknown_answers not in ("error", "missing"):
            raise DataError(f"unknown_answers is {self.unknown_answers!r}; it must be 'error' or 'missing'.")
        asked = self
        if self.schema is not None:
            asked = self._following(self.schema)
        elif self.target_schema is not None:
            raise DataError("target_schema is given without schema; give both, as a model has them.")
        if self.target_schema is not None:
            _refuse("target_schema already says which", target=self.targets)
            asked = replace(asked, targets=tuple(column.name for column in self.target_schema.columns))
        if asked.outputs is not None and not asked.targets:
            raise DataError(f"outputs is {asked.outputs!r}, but no target is named.")
        return asked._as_before()

    def _following(self, schema: Schema) -> "_Asked":
        _refuse("schema already says which", columns=self.columns, inputs=self.inputs, kinds=self.kinds)
        if self.text is not None and self.text != schema.text:
            raise DataError(f"text is {self.text!r}, but the schema says {schema.text!r}.")
        if schema.text is None and self.form == ".txt":
            shown = ", ".join(column.name for column in schema.columns)
            raise DataError(f"{self.path} is text, but the schema describes no text: its columns are {shown}.")
        return replace(self, text=schema.text)

    def _as_before(self) -> "_Asked":
        """The same, read as the file of the schema was, where nothing else was asked for and this one can be."""
        was = self.schema or Schema((), scalar=True)
        header, separator = as_before(was, self.form, self.content, self.header, self.separator)
        asked = replace(self, header=header, separator=separator)
        if asked.is_text:
            lines = was.lines if self.lines is None else self.lines
            return replace(self, lines=lines, wide=bool(self.wide), header=self.header is not False)
        wide = was.wide and self.form in TABLES and self.time is None
        return replace(asked, lines=bool(self.lines), wide=wide if self.wide is None else self.wide)

    @property
    def layout(self) -> Layout:
        """Which column is what."""
        schema = self.schema
        return Layout(
            sequence=self.sequence if self.sequence is not None or schema is None else schema.sequence,
            time=self.time if self.time is not None or schema is None else schema.time,
            columns=self.columns,
            inputs=self.inputs,
            kinds=self.kinds,
            schema=schema,
            targets=self.targets,
            target_schema=self.target_schema,
            outputs=self.outputs,
            lenient=self.unknown_answers == "missing",
        )


def first_line(content: bytes) -> str:
    """The first line of a file of text."""
    return content.split(b"\n", 1)[0].decode("utf-8", "replace")


def as_before(
    schema: Schema, form: str, content: bytes, header: bool | None, separator: str | None
) -> tuple[bool, str | None]:
    """Whether a table has a header and what stands between its fields: as in the schema's file, where not given."""
    delimited = form in SEPARATORS
    if separator is None and delimited and schema.separator is not None and schema.separator in first_line(content):
        separator = schema.separator
    return (schema.header or not delimited) if header is None else header, separator


def _read(asked: _Asked) -> Sequences | Pairs:
    if asked.is_text:
        return _read_text(asked)
    if asked.form not in (*TABLES, ".npz"):
        raise FileError(
            f"{asked.path} ends in {asked.form!r}; the forms known are {', '.join(FORMS)}. Text of any ending is read "
            "with text='characters' or text='tokens'."
        )
    return _read_npz(asked) if asked.form == ".npz" else _read_table(asked)


def _remembering(found: Sequences | Pairs, asked: _Asked) -> Sequences | Pairs:
    """The data with a schema that knows how their file was read, so that another is read alike."""
    if asked.schema is not None:
        return found
    if isinstance(found, Pairs):
        return replace(found, sources=_remembering(found.sources, asked))
    how = {"lines": asked.lines, "wide": asked.wide, "header": asked.header, "separator": asked.separator}
    return replace(found, schema=replace(found.schema, **how))


def _read_text(asked: _Asked) -> Sequences:
    _refuse(
        "text takes no", sequence=asked.sequence, time=asked.time, columns=asked.columns, inputs=asked.inputs,
        target=asked.targets, kinds=asked.kinds, wide=asked.wide, separator=asked.separator, header=not asked.header,
    )  # fmt: skip
    cut = asked.text or "characters"
    return read_text(
        asked.path, asked.content, cut=cut, lines=bool(asked.lines), schema=asked.schema, unknown=asked.unknown
    )


def _read_npz(asked: _Asked) -> Sequences:
    _refuse_text_options(asked)
    _refuse(
        "an NPZ file takes no", sequence=asked.sequence, time=asked.time, columns=asked.columns, inputs=asked.inputs,
        target=asked.targets, wide=asked.wide, separator=asked.separator, header=not asked.header,
    )  # fmt: skip
    return read_npz(asked.path, asked.content, kinds=asked.kinds, schema=asked.schema)


def _read_table(asked: _Asked) -> Sequences | Pairs:
    path, layout = asked.path, asked.layout
    if asked.text is None:
        _refuse_text_options(asked)
    frame, untyped = read_table(
        path,
        asked.content,
        form=asked.form,
        header=asked.header is not False,
        separator=asked.separator,
        ragged=bool(asked.wide),
    )
    if asked.text is not None:
        _refuse("a table of texts takes no", time=asked.time, inputs=asked.inputs, wide=asked.wide, lines=asked.lines)
        return assemble_texts(path, frame, layout, cut=asked.text, unknown=asked.unknown, untyped=untyped)
    if asked.wide:
        _refuse("the wide form takes no", time=asked.time, inputs=asked.inputs)
        return assemble_wide(path, frame, layout, untyped=untyped)
    return assemble_long(path, frame, layout, untyped=untyped)


def _refuse_text_options(asked: _Asked) -> None:
    why = f"only text takes (text='characters' reads {asked.path.name} as text)"
    _refuse(why, lines=asked.lines, unknown=asked.unknown != "error")


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


def _names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return (given,) if isinstance(given, str) else None if given is None else tuple(given)


def _check_options(kinds: Any, text: Any, unknown: Any, outputs: Any) -> None:
    if not (kinds is None or isinstance(kinds, str | Mapping)):
        raise DataError(f"kinds is {kinds!r}; it must be one kind, or a mapping from column names to kinds.")
    for kind in [kinds] if isinstance(kinds, str) else (kinds or {}).values():
        if kind not in KINDS:
            raise DataError(f"kinds names {kind!r}; a kind is one of {', '.join(KINDS)}.")
    if text not in (None, "characters", "tokens"):
        raise DataError(f"text is {text!r}; it must be 'characters' or 'tokens'.")
    if unknown not in ("error", "skip"):
        raise DataError(f"unknown is {unknown!r}; it must be 'error' or 'skip'.")
    if outputs not in (None, "sequence", "step"):
        raise DataError(f"outputs is {outputs!r}; it must be 'sequence' or 'step'.")


def _refuse(why: str, **options: Any) -> None:
    """DataError that names the options given, if any is."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != ()]
    if given:
        raise DataError(f"{why} {', '.join(given)}.")
