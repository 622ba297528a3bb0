"""`hiddenstate compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenstate.cli.console import note, say
from hiddenstate.cli.options import MODELS, Seed, expanded
from hiddenstate.cli.reading import Reading, described, listed

if TYPE_CHECKING:
    from hiddenstate.core import Sequences

TASK = {"states": 4, "symbols": 6, "sequences": 200, "length": 50, "concentration": 0.2}
"""The task that --task hmm draws, unless told otherwise."""

DEFAULT = "sunspots"
"""The embedded set that is compared on if no data are given."""


@expanded(Reading, "reading")
def compare(
    reading: Reading,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="A file, or an embedded set (see `datasets`).", show_default=DEFAULT),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for table, plots and models.")] = Path(
        "comparison"
    ),
    models: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C", help=f"The models to compare, of: {MODELS}.", show_default="those for the data's kind"
        ),
    ] = None,
    hidden: Annotated[int, typer.Option(min=1, metavar="N", help="Hidden units of the networks.")] = 32,
    states: Annotated[int, typer.Option(min=1, metavar="N", help="Hidden states of the Markov models.")] = 5,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The most passes over the data.", show_default="by the data"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="hmm",
            help="In place of DATA: sequences from a random HMM, whose best possible prediction is known. "
            "Its sizes can follow: hmm:states=4,symbols=6,sequences=200,length=50,concentration=0.2.",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Say which model predicts your sequences best.

    Several models are fitted to one part of the data and scored on another,
    beside trivial baselines: in nats per step, with standard errors. The
    ranked table is printed, and written to a folder with plots and models.

    [bold]Example:[/bold] hiddenstate compare weather.csv --sequence town --time day
    """
    import jax.random as jr

    from hiddenstate.learn.compare import compare as run
    from hiddenstate.learn.compare import default_models
    from hiddenstate.report.comparison import make_folder, meaning, print_ranking, write_comparison

    make_folder(out)
    sequences, known, data = _data(data, task, reading, seed)
    names = listed(models) or list(default_models(sequences))
    begun: list[str] = []

    def announce(name: str) -> None:
        begun.append(name)
        note(f"  {name} ({len(begun)} of {len(names)})")

    if sequences.has_missing and not models:
        note("values are missing: networks and baselines, which need each one, take no part")
    note(f"fits {len(names)} models; seed {seed}")
    split_key, plot_key = jr.split(jr.key(seed))
    result = run(
        sequences,
        names,
        key=split_key,
        hidden=hidden,
        states=states,
        epochs=epochs,
        optimal=known,
        announce=announce,
    )
    note(result.split)
    print_ranking(result)
    say(meaning(result))
    about = {"data": data, "seed": seed, "hidden": hidden, "states": states, "epochs": epochs}
    write_comparison(result, out, about=about, key=plot_key)
    say(f"table, plots and models are in {out}/")


def _data(data: str | None, task: str | None, reading: Reading, seed: int) -> "tuple[Sequences, Any, str]":
    """The data, what knows the best prediction of them (or None), and what to call them."""
    import hiddenstate as hs

    if task is None:
        return reading.read(data or DEFAULT), None, data or DEFAULT
    if data is not None or reading != Reading():
        raise hs.HiddenStateError("--task makes the data; leave out DATA and how it is read.")
    made = _task(task, seed)
    note(f"--task {task}: {described(made.data)}; seed {seed}")
    return made.data, made, f"--task {task}"


def _task(words: str, seed: int) -> Any:
    """A task from words such as hmm:states=3,length=50."""
    import jax.random as jr

    import hiddenstate as hs

    name, _, rest = words.partition(":")
    if name != "hmm":
        raise hs.HiddenStateError(f"--task is {words!r}; it must be hmm, or hmm:states=3,length=50 and so on.")
    options: dict[str, Any] = dict(TASK)
    for pair in listed(rest) or ():
        option, _, value = (part.strip() for part in pair.partition("="))
        try:
            options[option] = type(TASK[option])(value)
        except (KeyError, ValueError):
            known = ", ".join(TASK)
            raise hs.HiddenStateError(f"--task is {words!r}; {pair!r} is none of {known} with a number.") from None
    return hs.tasks.hmm(**options, key=jr.fold_in(jr.key(seed), 1))
