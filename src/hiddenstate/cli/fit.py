"""`hiddenstate fit`."""

import json
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hiddenstate.cli.console import note, notes, plural, say
from hiddenstate.cli.options import MODELS, Data, Hidden, Restarts, Seed, States, expanded
from hiddenstate.cli.reading import Reading

if TYPE_CHECKING:
    from hiddenstate.core import Sequences
    from hiddenstate.learn import SGD, Fit

WHOLE = 10
"""From so many sequences on whole ones are held out for validation; fewer are cut in time."""

LONG = 512
"""Longer sequences are learned from in chunks of half as many steps, unless --truncate says otherwise."""

UPDATES = 1500
"""Without --epochs a run may take at least this many updates, and at least 100 epochs."""

_TRAINING = "Training"


@expanded(Reading, "reading")
def fit(
    data: Data,
    reading: Reading,
    model: Annotated[str, typer.Option(metavar="NAME", help=f"What to fit: {MODELS}.")] = "gru",
    hidden: Hidden = None,
    states: States = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The distribution of an observation, such as student-t or mixture-gaussian.",
            show_default="by the data",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the model, such as reset=before; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="PATH", help="Where to save the model.")] = Path("model.safetensors"),
    seed: Seed = 0,
    method: Annotated[
        Literal["sgd", "em", "lbfgs"] | None,
        typer.Option(
            rich_help_panel=_TRAINING,
            help="Gradient steps, expectation maximisation (for latent-state models), or quasi-Newton steps.",
            show_default="em where the model can, else sgd",
        ),
    ] = None,
    restarts: Restarts = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=_TRAINING,
            help="The most passes over the data (iterations of EM).",
            show_default="100, or as many as give 1500 updates",
        ),
    ] = None,
    learning_rate: Annotated[float, typer.Option(rich_help_panel=_TRAINING, help="Adam's step size.")] = 5e-3,
    batch_size: Annotated[int, typer.Option(min=1, rich_help_panel=_TRAINING, help="Sequences in an update.")] = 32,
    truncate: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            rich_help_panel=_TRAINING,
            help="Steps that a gradient flows back through; 0 is all.",
            show_default="256 if longer than 512",
        ),
    ] = None,
    patience: Annotated[
        int,
        typer.Option(min=1, rich_help_panel=_TRAINING, help="Evaluations without improvement before it stops."),
    ] = 20,
    validation: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            metavar="SHARE",
            rich_help_panel=_TRAINING,
            help="The share of the data that decides when to stop; 0 is none.",
            show_default="0.1; none for em",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel=_TRAINING,
            show_default="OUT.checkpoint",
            help="Where a run is kept while it lasts, so that a killed one goes on.",
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option("--restart", rich_help_panel=_TRAINING, help="Begin anew even if there is a checkpoint."),
    ] = False,
) -> None:
    """Fit a model to sequences and save it.

    A run that was killed goes on where it was, if the same command is given
    again.

    [bold]Example:[/bold] hiddenstate fit weather.csv --sequence town --time day --hidden 16
    """  # fmt: skip
    import jax.random as jr

    import hiddenstate as hs

    sequences = reading.read(data)
    split_key, build_key, fit_key = jr.split(jr.key(seed), 3)
    options = _options(model, {"hidden": hidden, "head": head, "states": states}, option or ())
    method = method or ("em" if learns_by_em(model) else "sgd")
    if restarts is not None and method != "em":
        raise hs.HiddenStateError(f"--restarts is for --method em; {model} learns by {method}.")
    share = (0.0 if method == "em" else 0.1) if validation is None else validation
    train, held = _parts(sequences, share, split_key)
    network = hs.build(model, train, key=build_key, **options)
    note(f"{model} by {method}, {plural(hs.parameter_count(network), 'parameter')}; seed {seed}")
    how: Any
    if method == "sgd":
        how = _method(train, epochs, learning_rate, batch_size, truncate, patience)
    else:
        how = _iterative(method, epochs, restarts)
    kept = checkpoint or out.with_name(out.name + ".checkpoint")
    if restart:
        kept.unlink(missing_ok=True)
    try:
        stored = kept if method == "sgd" else None
        result = hs.fit(network, train, how, key=fit_key, validation=held, checkpoint=stored)
    except KeyboardInterrupt:
        again = f"The same command goes on from {kept}; --restart begins anew." if method == "sgd" else ""
        notes.print(f"interrupted. {again}".strip(), soft_wrap=True)
        raise typer.Exit(130) from None
    hs.save(result.model, out)
    kept.unlink(missing_ok=True)
    _summary(result, train, held, out, data)


def _parts(data: "Sequences", share: float, key: Any) -> "tuple[Sequences, Sequences | None]":
    """What is learned from, and what decides when to stop."""
    if share == 0:
        return data, None
    if len(data) >= WHOLE:
        train, held = data.split(1 - share, key=key)
        note(f"{plural(len(train), 'sequence')} to learn from, {len(held)} to stop by")
    else:
        train, held = data.split_time(1 - share, context=True)
        note(f"{plural(train.steps, 'step')} to learn from, the last {held.scored_steps} to stop by")
    return train, held


def learns_by_em(model: str) -> bool:
    """Whether the models of that name have what EM needs, by what their recipe says that it returns."""
    from hiddenstate.catalogue import recipe_named

    return hasattr(signature(recipe_named(model)).return_annotation, "expected_statistics")


def _iterative(method: str, iterations: int | None, restarts: int | None) -> Any:
    """A method that takes all data at every iteration."""
    import hiddenstate as hs
    from hiddenstate.learn import EM

    if method == "em":
        return EM(iterations=iterations or 200, restarts=restarts or 1)
    return hs.LBFGS(iterations=iterations or 200)


def _options(model: str, named: dict[str, Any], pairs: Any) -> dict[str, Any]:
    """The options of a recipe, checked to be some of its own."""
    import hiddenstate as hs
    from hiddenstate.catalogue import recipe_named

    options = {name: value for name, value in named.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise hs.HiddenStateError(f"--option is {pair!r}; it must be KEY=VALUE, such as reset=before.")
        options[name.strip()] = _value(value.strip())
    known = signature(recipe_named(model)).parameters.values()
    if not any(p.kind is Parameter.VAR_KEYWORD for p in known):
        names = [p.name for p in known if p.kind is Parameter.KEYWORD_ONLY and p.name != "key"]
        for name in options:
            if name not in names:
                raise hs.HiddenStateError(f"{model!r} has no option {name!r}; it takes {', '.join(names) or 'none'}.")
    return options


def _value(text: str) -> Any:
    """A value as in JSON; numbers between commas as a tuple; anything else as a word."""
    for written in (text, f"[{text}]" if "," in text else text):
        try:
            value = json.loads(written)
        except ValueError:
            continue
        return value if written == text else tuple(value)
    return text


def _method(
    train: "Sequences", epochs: int | None, rate: float, size: int, truncate: int | None, patience: int
) -> "SGD":
    """Gradient steps with a budget that fits the data: one short sequence is not starved of updates."""
    import hiddenstate as hs

    chunk = (LONG // 2 if train.length > LONG else None) if truncate is None else (truncate or None)
    updates = -(-len(train) // size) * (1 if chunk is None else -(-train.length // chunk))
    return hs.SGD(
        epochs=epochs or max(100, -(-UPDATES // updates)),
        learning_rate=rate,
        batch_size=size,
        truncate=chunk,
        patience=patience,
        evaluate_steps=max(10, updates),
    )


def _summary(result: "Fit", train: "Sequences", held: "Sequences | None", out: Path, data: str) -> None:
    from hiddenstate.learn.scores import score

    say(f"train        {score(result.model, train)}")
    if held is not None:
        say(f"validation   {score(result.model, held)}")
    say(f"{'converged' if result.converged else 'not converged'}: {result.reason}")
    say(f"saved to {out} after {plural(result.history.height, 'update')}")
    note(f"next: hiddenstate score {out} NEW_DATA, or hiddenstate forecast {out} {data} --plot forecast.png")
