"""From the words of a command line to sequences and models, and what was read in words."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hiddenstate.cli.console import note, plural
from hiddenstate.cli.errors import in_flags

if TYPE_CHECKING:
    from hiddenstate.core import Column, ConditionalModel, Pairs, Schema, SequenceModel, Sequences

_PANEL = "How the data are read"
_SHOWN = 6
_AS_BEFORE = "as the model's data"

SequenceColumn = Annotated[
    str | None,
    typer.Option("--sequence", metavar="COL", rich_help_panel=_PANEL,
                 help="The column that says which sequence a row belongs to; without it all rows are one."),
]  # fmt: skip
TimeColumn = Annotated[
    str | None,
    typer.Option("--time", metavar="COL", rich_help_panel=_PANEL,
                 help="The column to sort a sequence's rows by; without it they stay in the file's order."),
]  # fmt: skip
Wide = Annotated[
    bool, typer.Option("--wide", rich_help_panel=_PANEL, help="Every row is a sequence, every column a step.")
]
Lines = Annotated[bool, typer.Option("--lines", rich_help_panel=_PANEL, help="Every line of a text is a sequence.")]
NoHeader = Annotated[
    bool, typer.Option("--no-header", rich_help_panel=_PANEL, help="A CSV file has no line of column names.")
]
Separator = Annotated[
    str | None,
    typer.Option(metavar="CHAR", rich_help_panel=_PANEL, help="What stands between the fields of a CSV file."),
]


@dataclass(frozen=True)
class Reading:
    """How new data are read: one command-line option a field."""

    sequence: SequenceColumn = None
    time: TimeColumn = None
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", rich_help_panel=_PANEL, help="The columns to model; without it all others."),
    ] = None
    inputs: Annotated[
        str | None,
        typer.Option(metavar="A,B", rich_help_panel=_PANEL, help="Columns that are known beforehand, not predicted."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", rich_help_panel=_PANEL,
                     help="What columns hold: real, count, bit, symbol; or by column: rain=real,sky=symbol."),
    ] = None  # fmt: skip
    text: Annotated[
        Literal["characters", "tokens"] | None,
        typer.Option(rich_help_panel=_PANEL, help="Read the file as text, cut into these."),
    ] = None
    lines: Lines = False
    wide: Wide = False
    no_header: NoHeader = False
    separator: Separator = None

    def read(self, data: str) -> Any:
        """The data, from a file or an embedded set, with a note of what they are."""
        import hiddenstate as hs

        embedded = _embedded(data, self)
        found = embedded or hs.read(data, **self.options())
        note(f"{data}: {described(found)}")
        if self.kind is None and embedded is None:
            _note_guesses(found)
            _note_separator(found)
        return found

    def options(self) -> dict[str, Any]:
        """The options of `hs.read`."""
        return {
            "sequence": self.sequence,
            "time": self.time,
            "columns": listed(self.columns),
            "inputs": listed(self.inputs) or (),
            "kinds": _kinds(self.kind),
            "text": self.text,
            "lines": self.lines,
            "wide": self.wide,
            "header": not self.no_header,
            "separator": self.separator,
        }


@dataclass(frozen=True)
class LabelledReading(Reading):
    """How new data are read that may have answers beside them."""

    target: Annotated[
        str | None,
        typer.Option(metavar="A,B", rich_help_panel=_PANEL,
                     help="The columns to answer with: a label of each sequence, or of each step."),
    ] = None  # fmt: skip
    outputs: Annotated[
        Literal["sequence", "step"] | None,
        typer.Option(rich_help_panel=_PANEL, help="What has one answer.",
                     show_default="sequence if no two answers of one differ"),
    ] = None  # fmt: skip

    def options(self) -> dict[str, Any]:
        """The options of `hs.read`, with the targets."""
        return {**super().options(), "target": listed(self.target), "outputs": self.outputs}


@dataclass(frozen=True)
class Rereading:
    """How data are read for a fitted model, which knows its columns, vocabularies and form of file."""

    sequence: SequenceColumn = None
    time: TimeColumn = None
    lines: Annotated[
        bool | None,
        typer.Option("--lines/--no-lines", rich_help_panel=_PANEL, help="Every line of a text is a sequence.",
                     show_default=_AS_BEFORE),
    ] = None  # fmt: skip
    wide: Annotated[
        bool | None,
        typer.Option("--wide/--long", rich_help_panel=_PANEL, help="Every row is a sequence, every column a step.",
                     show_default=_AS_BEFORE),
    ] = None  # fmt: skip
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", rich_help_panel=_PANEL, help="A CSV file has a line of column names.",
                     show_default=_AS_BEFORE),
    ] = None  # fmt: skip
    separator: Separator = None
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown", rich_help_panel=_PANEL, help="Leave out symbols of a text that the model lacks."
        ),
    ] = False

    def read(self, data: str, model: Any, *, judged: bool = True) -> Any:
        """The data as the model reads them, with a note of what they are: pairs for a model that answers.

        Where they are not `judged`, answers that the model does not know count as missing.
        """
        import hiddenstate as hs

        found = _embedded(data, self)
        if found is not None:
            _check_alike(data, found, model)
        else:
            found = hs.read(
                data,
                sequence=self.sequence,
                time=self.time,
                schema=model.schema,
                lines=self.lines,
                wide=self.wide,
                header=self.header,
                separator=self.separator,
                unknown="skip" if self.skip_unknown else "error",
                unknown_answers="error" if judged else "missing",
                **_answers_of(model),
            )
        note(f"{data}: {described(found)}")
        return found

    def is_wide(self, schema: "Schema") -> bool:
        """Whether every row of the file is a sequence."""
        return schema.wide if self.wide is None else self.wide


def _answers_of(model: Any) -> dict[str, Any]:
    """How the answers of a model that gives some are read."""
    import hiddenstate as hs

    if not isinstance(model, hs.ConditionalModel):
        return {}
    if model.schema is None or model.target_schema is None:
        raise hs.DataError(
            "the model does not know the columns of its data: it was built from arrays without a schema."
        )
    outputs = {"one": "sequence", "source": "step"}.get(model.target_length)
    return {"target_schema": model.target_schema, "outputs": outputs}


def load_model(path: Path) -> Any:
    """The model in a file: one of sequences, or one that answers."""
    import hiddenstate as hs

    model = hs.load(path)
    if not isinstance(model, hs.SequenceModel | hs.ConditionalModel):
        raise hs.FileError(f"{path} holds a {type(model).__name__}, which is no model of sequences.")
    return model


def load_sequence_model(path: Path, command: str) -> "SequenceModel":
    """The model of sequences in a file, for a command that only such a model can follow."""
    import hiddenstate as hs

    model = load_model(path)
    if isinstance(model, hs.ConditionalModel):
        raise hs.HiddenStateError(
            f"{path} answers what it reads, and says nothing of what comes next: {command} needs a model of sequences, "
            "fitted without --target. For answers use predict or score."
        )
    return model


def load_answering_model(path: Path) -> "ConditionalModel":
    """The model in a file, for a command that only a model that answers can follow."""
    import hiddenstate as hs

    model = load_model(path)
    if not isinstance(model, hs.ConditionalModel):
        raise hs.HiddenStateError(
            f"{path} is a model of sequences, which predicts what comes next: use forecast. predict needs a model that "
            "answers, fitted with --target."
        )
    return model


def listed(words: str | None) -> list[str] | None:
    """The words between commas; None where nothing was asked for."""
    import hiddenstate as hs

    if words is None:
        return None
    found = [word.strip() for word in words.split(",") if word.strip()]
    if not found:
        raise hs.HiddenStateError(f"{words!r} names nothing; give names with commas between them.")
    return found


def described(data: "Sequences | Pairs") -> str:
    """Sequences in words: 42 sequences of 20 to 131 steps, 1 column: sky (3 symbols: dry, rain, sun)."""
    import hiddenstate as hs

    if isinstance(data, hs.Pairs):
        answers = ", ".join(_column(column) for column in data.targets.schema.columns)
        each = "step" if data.aligned and not data.single else "sequence"
        unknown = int((~data.scored & data.targets.valid).sum())
        missing = "" if not unknown else "; no answer is known" if not data.scored.any() else f"; {unknown:,} unknown"
        return f"{described(data.sources)}; one answer for each {each}: {answers}{missing}"
    low, high = int(data.lengths.min()), int(data.lengths.max())
    steps = plural(low, "step") if low == high else f"{low:,} to {plural(high, 'step')}"
    columns = data.schema.columns
    shown = [_column(column) for column in columns[:_SHOWN]] + ["..."] * (len(columns) > _SHOWN)
    inputs = f"; inputs {', '.join(data.schema.inputs)}" if data.inputs is not None else ""
    missing = ""
    if data.observed is not None:
        missing = f"; {plural(int((~data.observed).sum()), 'value')} missing"
    said = f"{plural(len(data), 'sequence')} of {steps}, {plural(len(columns), 'column')}"
    return f"{said}: {', '.join(shown)}{inputs}{missing}"


def _note_guesses(data: "Sequences | Pairs") -> None:
    """Say that whole numbers may mean other things, where there are some."""
    import hiddenstate as hs

    parts = (data.sources, data.targets) if isinstance(data, hs.Pairs) else (data,)
    columns = [column for part in parts for column in part.schema.columns]
    guessed = [c.name for c in columns if c.kind != "real" and c.symbols is None]
    if guessed:
        which = "them" if len(guessed) == len(columns) else ", ".join(guessed)
        note(f"  (whole numbers may mean other things: --kind reads {which} as real, count, bit or symbol)")


def _note_separator(data: "Sequences | Pairs") -> None:
    """Say that a single column may be several, where its name holds what often stands between names."""
    import hiddenstate as hs
    from hiddenstate.data.tables import likely_separator

    schema = (data.sources if isinstance(data, hs.Pairs) else data).schema
    likely = likely_separator([column.name for column in schema.columns])
    if likely is not None and schema.text is None:
        note(in_flags(f"  (the first line holds {likely!r}: separator={likely!r} reads several columns)"))


def _column(column: "Column") -> str:
    if column.kind != "symbol":
        return f"{column.name} ({column.kind})"
    names = [repr(s) if s.isspace() else s for s in column.symbols or map(str, range(column.size))]
    some = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{column.name} ({plural(column.size, 'symbol')}: {some})"


def _embedded(data: str, reading: Any) -> "Sequences | None":
    """The embedded set of that name, unless there is such a file."""
    import hiddenstate as hs

    if Path(data).is_file():
        return None
    if data not in hs.datasets.names():
        if Path(data).suffix or Path(data).exists():
            return None
        known = ", ".join(hs.datasets.names())
        raise hs.FileError(f"there is no file {data}, nor an embedded set of that name; those are {known}.")
    given = [f.name for f in fields(reading) if getattr(reading, f.name) not in (None, False)]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise hs.DataError(f"{data} is an embedded set, which is read in its own way; leave out {flags}.")
    return hs.datasets.load(data)


def _check_alike(name: str, data: "Sequences", model: "SequenceModel") -> None:
    import hiddenstate as hs

    if model.schema is not None and model.schema.columns != data.schema.columns:
        theirs, ours = (", ".join(map(_column, s.columns)) for s in (data.schema, model.schema))
        raise hs.DataError(f"{name} holds {theirs}, but the model was made for {ours}.")


def _kinds(words: str | None) -> Any:
    if words is None or "=" not in words:
        return words
    pairs = [pair.partition("=") for pair in listed(words) or ()]
    return {name.strip(): kind.strip() for name, _, kind in pairs}
