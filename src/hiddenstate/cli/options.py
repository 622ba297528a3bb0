"""Arguments and options that several commands share, each defined once."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

MODELS = (
    "vanilla, leaky, skip, gated-leaky, output-feedback, gru, lstm, mingru, minlstm, linear, turning, hmm, hsmm, "
    "hamilton, "
    "switch-copy, linear-gaussian, slds, encoder-decoder, multi-particle, noisy, "
    "or a baseline: unigram, last, bigram, ar1, majority"
)
"""The names of models, written out so that help texts need not load the library; a test compares them with it."""


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (.csv, .tsv, .parquet, .ndjson, .npz, .txt) or an embedded set (see `datasets`).",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model that `fit` or `compare` has saved.", show_default=False),
]
Given = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Read the first so many steps of each sequence without scoring them: the likelihood given these.",
    ),
]
Plots = Annotated[Literal["png", "svg"], typer.Option(help="How plots are written, beside the page.")]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**32 - 1, metavar="N", help="Where all random numbers come from: same seed, same result."),
]


def expanded(options: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command, in place of its argument `name`, one option for each field of a dataclass."""
    parts = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(options)
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = signature(command)
        kept = [parameter for parameter in own.parameters.values() if parameter.name != name]

        @wraps(command)
        def run(**given: Any) -> Any:
            made = options(**{part.name: given.pop(part.name) for part in parts})
            return command(**given, **{name: made})

        run.__signature__ = own.replace(  # pyright: ignore[reportAttributeAccessIssue]
            parameters=[part.replace(kind=Parameter.KEYWORD_ONLY) for part in kept] + parts
        )
        return run

    return decorate
