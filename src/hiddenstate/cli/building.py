"""Which model is fitted: one command-line option a field."""

import json
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hiddenstate.cli.options import MODELS

if TYPE_CHECKING:
    from hiddenstate.core import Pairs, Sequences

DESCRIPTIONS = (".yaml", ".yml", ".toml")
"""How the names of files end that describe a model."""

_DEFAULT = "gru"


@dataclass(frozen=True)
class Building:
    """What to fit, by the name of a model and its options, or by a file that describes it."""

    model: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help=f"What to fit: {MODELS}; or a description of a model (.yaml, .toml)."),
    ] = _DEFAULT
    hidden: Annotated[
        int | None, typer.Option(min=1, help="Hidden units of a network.", show_default="32", metavar="N")
    ] = None
    layers: Annotated[
        int | None, typer.Option(min=1, help="Layers of a network, one above the other.", show_default="1", metavar="N")
    ] = None
    dropout: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=0.99, metavar="SHARE", help="The share of units left out between layers in learning."
        ),
    ] = None
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="Read from both ends, to answer (with --target).")
    ] = False
    pooling: Annotated[
        Literal["last", "mean", "attention"] | None,
        typer.Option(help="What of a whole sequence is answered from (with --target).", show_default="last"),
    ] = None
    states: Annotated[
        int | None, typer.Option(min=1, help="Hidden states of a Markov model.", show_default="4", metavar="N")
    ] = None
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The distribution of what is predicted, such as student-t or mixture-gaussian.",
            show_default="by the data",
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the model, such as reset=before; may be repeated."),
    ] = None

    @property
    def described(self) -> bool:
        """Whether a file describes the model."""
        return Path(self.model).suffix in DESCRIPTIONS

    def build(self, data: "Sequences | Pairs", key: Any) -> Any:
        """The model, with what the data say of its sizes."""
        import hiddenstate as hs

        named = {
            "hidden": self.hidden,
            "layers": self.layers,
            "dropout": self.dropout,
            "bidirectional": self.bidirectional or None,
            "pooling": self.pooling,
            "states": self.states,
            "head": self.head,
        }
        if self.bidirectional and not isinstance(data, hs.Pairs):
            raise hs.HiddenStateError(
                "--bidirectional needs --target: a network that reads a sequence from its end as well has seen what it "
                "would have to predict, so it can answer but not say what comes next."
            )
        if not self.described:
            return hs.build(self.model, data, key=key, **recipe_options(self.model, named, self.option or ()))
        given = [f"--{name}" for name, value in named.items() if value is not None] + ["--option"] * bool(self.option)
        if given:
            raise hs.HiddenStateError(f"{self.model} describes the model; leave out {', '.join(given)}.")
        return hs.build(self.model, data, key=key)


def recipe_options(model: str, named: dict[str, Any], pairs: Any) -> dict[str, Any]:
    """The options of a recipe, checked to be some of its own."""
    import hiddenstate as hs
    from hiddenstate.catalogue import recipe_named

    options = {name: value for name, value in named.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise hs.HiddenStateError(f"--option is {pair!r}; it must be KEY=VALUE, such as reset=before.")
        options[name.strip()] = option_value(value.strip())
    known = signature(recipe_named(model)).parameters.values()
    if not any(p.kind is Parameter.VAR_KEYWORD for p in known):
        names = [p.name for p in known if p.kind is Parameter.KEYWORD_ONLY and p.name != "key"]
        for name in options:
            if name not in names:
                raise hs.HiddenStateError(f"{model!r} has no option {name!r}; it takes {', '.join(names) or 'none'}.")
    return options


def option_value(text: str) -> Any:
    """A value as in JSON; numbers between commas as a tuple; anything else as a word."""
    for written in (text, f"[{text}]" if "," in text else text):
        try:
            value = json.loads(written)
        except ValueError:
            continue
        return value if written == text else tuple(value)
    return text
