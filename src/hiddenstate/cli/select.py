"""`hiddenstate select`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hiddenstate.cli.console import note, say
from hiddenstate.cli.options import MODELS, Data, Seed, expanded
from hiddenstate.cli.reading import Reading, listed


@expanded(Reading, "reading")
def select(
    data: Data,
    reading: Reading,
    model: Annotated[
        str, typer.Option(metavar="A,B,C", help=f"The model, or several to choose between, of: {MODELS}.")
    ] = "hmm",
    states: Annotated[
        str,
        typer.Option(metavar="1-6", help="Numbers of hidden states to choose from, such as 1-6 or 2,4,8."),
    ] = "1-6",
    hidden: Annotated[
        str, typer.Option(metavar="8,16", help="Numbers of hidden units to choose from, for networks.")
    ] = "32",
    criterion: Annotated[
        Literal["bic", "aic", "cv"],
        typer.Option(help="What decides: BIC, AIC, or cross-validated nats per step."),
    ] = "bic",
    folds: Annotated[int, typer.Option(min=2, metavar="N", help="Parts of the cross-validation.")] = 5,
    restarts: Annotated[int, typer.Option(min=1, metavar="N", help="Starts of EM; the best counts.")] = 5,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the models, such as emission=poisson; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for table, plot and the best model.")] = Path(
        "selection"
    ),
    seed: Seed = 0,
) -> None:
    """Choose the number of hidden states, or between models.

    All candidates are fitted to the data; the lowest BIC or AIC is chosen,
    or with cv the one that predicts held-out data best: whole sequences, or
    the later parts of few long ones.

    [bold]Example:[/bold] hiddenstate select weather.csv --sequence town --states 1-6 --criterion bic
    """
    import jax.random as jr

    from hiddenstate.learn.select import select as run
    from hiddenstate.report.selection import make_folder, meaning, print_selection, write_selection

    make_folder(out)
    candidates = _candidates(model, states, hidden, option or ())
    sequences = reading.read(data)
    begun: list[str] = []

    def announce(name: str) -> None:
        begun.append(name)
        note(f"  {name} ({len(begun)} of {len(candidates)})")

    note(f"fits {len(candidates)} candidates; seed {seed}")
    result = run(
        candidates, sequences, criterion=criterion, folds=folds, restarts=restarts, key=jr.key(seed), announce=announce
    )
    print_selection(result)
    say(meaning(result))
    about = {"data": data, "seed": seed, "folds": folds if criterion == "cv" else None, "restarts": restarts}
    write_selection(result, out, about=about)
    say(f"table, plot and the best model are in {out}/")


def _candidates(models: str, states: str, hidden: str, pairs: Any) -> list[tuple[str, dict[str, Any]]]:
    """A pair of name and options for each model and each of its sizes."""
    import hiddenstate as hs
    from hiddenstate.cli.building import recipe_options
    from hiddenstate.learn.compare import takes

    sizes = {"states": numbers(states, "--states"), "hidden": numbers(hidden, "--hidden")}
    found = []
    for name in listed(models) or ():
        options = recipe_options(name, {}, pairs)
        axis = next((axis for axis in sizes if takes(name, axis) and axis not in options), None)
        found += [(name, options)] if axis is None else [(name, {axis: n, **options}) for n in sizes[axis]]
    if not found:
        raise hs.HiddenStateError("--model names no model.")
    return found


def numbers(text: str, name: str) -> list[int]:
    """Whole numbers as a person writes them: 1-6, or 2,4,8."""
    import hiddenstate as hs

    found: list[int] = []
    for part in (listed(text) or []) if text.strip(" ,") else [""]:
        low, dash, high = part.partition("-")
        if not low.strip().isdigit() or (dash and not high.strip().isdigit()):
            raise hs.HiddenStateError(f"{name} is {text!r}; it must be whole numbers such as 1-6 or 2,4,8.")
        found += range(int(low), int(high or low) + 1)
    if not found or min(found) < 1:
        raise hs.HiddenStateError(f"{name} is {text!r}; it must be whole numbers from 1 on, such as 1-6 or 2,4,8.")
    return list(dict.fromkeys(found))
