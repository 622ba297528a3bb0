"""`hiddenstate fit`."""

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenstate.cli.building import Building
from hiddenstate.cli.console import note, notes, plural, say
from hiddenstate.cli.options import Data, Given, Seed, expanded
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import LabelledReading
from hiddenstate.cli.training import Training, parts

if TYPE_CHECKING:
    from hiddenstate.learn import Fit


@expanded(LabelledReading, "reading")
@expanded(Training, "training")
@expanded(Building, "building")
def fit(
    data: Data,
    reading: LabelledReading,
    building: Building,
    training: Training,
    out: Annotated[Path, typer.Option(metavar="PATH", help="Where to save the model.")] = Path("model.safetensors"),
    given: Given = 0,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel="Training",
            show_default="OUT.checkpoint",
            help="Where a run is kept while it lasts, so that a killed one goes on.",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", rich_help_panel="Training", help="Begin anew even if there is a checkpoint.")
    ] = False,
) -> None:
    """Fit a model to sequences and save it.

    With --target it learns to answer: to tell the label of a sequence, or
    of each of its steps. A run that was killed goes on where it was, if the
    same command is given again.

    [bold]Example:[/bold] hiddenstate fit weather.csv --sequence town --time day --hidden 16
    """  # fmt: skip
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.learn.compare import given_words

    check_outputs(out, checkpoint, reads=[data])
    sequences = reading.read(data)
    split_key, build_key, fit_key = jr.split(jr.key(seed), 3)
    training, rest = training.following(_described(building))
    method = training.method or ("em" if not building.described and learns_by_em(building.model) else "sgd")
    train, held = parts(sequences, training.share(method), split_key)
    network = building.build(train, build_key)
    how = training.how(method, building.model, train, **rest)
    note(f"{building.model} by {method}, {plural(hs.parameter_count(network), 'parameter')}; seed {seed}")
    kept = checkpoint or out.with_name(out.name + ".checkpoint")
    if restart:
        kept.unlink(missing_ok=True)
    if given:
        note(given_words(given))
    result = _run(network, train, how, fit_key, held, kept if method == "sgd" else None, given)
    hs.save(result.model, out)
    kept.unlink(missing_ok=True)
    _summary(result, train, held, out, data, given)


def _described(building: Building) -> dict[str, Any]:
    """What the description of a model says of its training."""
    if not building.described:
        return {}
    from hiddenstate.learn.described import training_of

    return training_of(building.model)


def learns_by_em(model: str) -> bool:
    """Whether the models of that name have what EM needs, by what their recipe says that it returns."""
    from hiddenstate.catalogue import recipe_named

    return hasattr(signature(recipe_named(model)).return_annotation, "expected_statistics")


def _run(network: Any, train: Any, how: Any, key: Any, held: Any, kept: Path | None, given: int) -> "Fit":
    import hiddenstate as hs

    try:
        return hs.fit(network, train, how, key=key, validation=held, checkpoint=kept, given=given)
    except KeyboardInterrupt:
        again = "" if kept is None else f"The same command goes on from {kept}; --restart begins anew."
        notes.print(f"interrupted. {again}".strip(), soft_wrap=True)
        raise typer.Exit(130) from None


def _summary(result: "Fit", train: Any, held: Any, out: Path, data: str, given: int) -> None:
    say(f"train        {_score(result.model, train, given)}")
    if held is not None:
        say(f"validation   {_score(result.model, held, given)}")
    say(f"{'converged' if result.converged else 'not converged'}: {result.reason}")
    say(f"saved to {out} after {plural(result.history.height, 'update')}")
    gaps = getattr(train, "observed", None) is not None
    note(f"next: hiddenstate score {out} NEW_DATA, or {_next(result.model, out, data, gaps)}")


def _score(model: Any, data: Any, given: int) -> str:
    """The score in words, of a classifier with its accuracy."""
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.core import has
    from hiddenstate.report.evaluation import score_words

    score = hs.score(model, data, given=given)
    if not isinstance(data, hs.Pairs):
        return str(score)
    if not has(model, "answers") or not set(data.targets.schema.kinds) <= {"symbol", "bit"}:
        return score_words(score)
    found = hs.evaluate(model, data, key=jr.key(0))
    shares = [f"{column.accuracy[0]:.3f}" for column in found.columns.values() if hasattr(column, "accuracy")]  # pyright: ignore[reportAttributeAccessIssue]
    return f"{score_words(score)}, accuracy {', '.join(shares)}"


def _next(model: Any, out: Path, data: str, gaps: bool) -> str:
    """What to do with a model of this kind."""
    import hiddenstate as hs
    from hiddenstate.core import has

    if isinstance(model, hs.ConditionalModel):
        return f"hiddenstate predict {out} NEW_DATA --out answers.csv"
    if has(model, "smooth") and not (gaps and has(model, "with_key")):  # particles are not smoothed over gaps
        return f"hiddenstate decode {out} {data} --plot states.png"
    return f"hiddenstate forecast {out} {data} --plot forecast.png"
