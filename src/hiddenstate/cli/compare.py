"""`hiddenstate compare`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenstate.cli.console import note, plural, say
from hiddenstate.cli.errors import command_line
from hiddenstate.cli.options import MODELS, Given, Plots, Seed, expanded
from hiddenstate.cli.reading import LabelledReading, described, listed

if TYPE_CHECKING:
    from hiddenstate.learn import Comparison

TASK = {"states": 4, "symbols": 6, "sequences": 200, "length": 50, "concentration": 0.2}
"""The task that --task hmm draws, unless told otherwise."""

TASKS = "adding, parity, selective-copying, reversing, clock"
"""The tasks of memory, `hiddenstate.learn.challenges.CHALLENGES`, said here so that help needs no JAX."""

CONTESTS = "multimodal"
"""The tasks of prediction that are tried from several seeds, `hiddenstate.learn.contests.CONTESTS`."""

DEFAULT = "sunspots"
"""The embedded set that is compared on if no data are given."""


@expanded(LabelledReading, "reading")
def compare(
    ctx: typer.Context,
    reading: LabelledReading,
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
        typer.Option(min=1, metavar="N", help="The most passes of networks over the data.", show_default="by the data"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="In place of DATA: hmm, sequences from a random HMM, whose best possible prediction is known "
            "(its sizes can follow: hmm:states=4,symbols=6,sequences=200,length=50,concentration=0.2); or a task "
            f"of memory, with examples of its own and a mark that says who has solved it: {TASKS}; or {CONTESTS}, "
            "where every model learns from five seeds and the best possible prediction is known, too.",
        ),
    ] = None,
    given: Given = 0,
    plots: Plots = "png",
    seed: Seed = 0,
) -> None:
    """Say which model predicts your sequences best.

    Several models are fitted to one part of the data and scored on another,
    beside trivial baselines: in nats per step, with standard errors. The
    ranked table is printed, and written to a folder with models, plots and
    report.html, a page for the browser.

    With --target models are compared by how they answer: a label of each
    sequence, or of each step.

    [bold]Example:[/bold] hiddenstate compare weather.csv --sequence town --time day

    [bold]Example:[/bold] hiddenstate compare --task parity
    """
    import jax.random as jr

    from hiddenstate.report.comparison import make_folder, meaning, print_ranking, write_comparison

    run_key, plot_key = jr.split(jr.key(seed))
    if task in (*TASKS.split(", "), *CONTESTS.split(", ")):
        _refuse_reading(data, reading)
        _refuse_given(given)
        make_folder(out)
        result = _attempt(task, listed(models), run_key, seed)
        about: dict[str, Any] = {"data": f"--task {task}", "seed": seed}
    else:
        sequences, known, data = _data(data, task, reading, seed)
        make_folder(out)
        sizes = {"hidden": hidden, "states": states, "epochs": epochs, "given": given}
        result = _compare(sequences, known, listed(models), run_key, seed, **sizes)
        about = {"data": data, "seed": seed, **sizes}
    note(result.split)
    print_ranking(result)
    say(meaning(result))
    note("makes the page and plots")
    write_comparison(
        result,
        out,
        about=about,
        key=plot_key,
        plots=plots,
        command=command_line(ctx, seed=seed),
        announce=lambda title: note(f"  {title}"),
    )
    say(f"table, plots and models are in {out}/; open {out / 'report.html'} in a browser")


def _compare(sequences: Any, known: Any, models: list[str] | None, key: Any, seed: int, **sizes: Any) -> "Comparison":
    """The models fitted to the data, with a note before each."""
    from hiddenstate.catalogue import recipe_named
    from hiddenstate.core import Pairs
    from hiddenstate.learn.compare import compare, default_models

    names = list(dict.fromkeys(models or default_models(sequences)))
    for name in names:
        recipe_named(name)  # a name that is wrong is told before anything is said to be fitted
    if not isinstance(sequences, Pairs) and sequences.has_missing and not models:
        note("values are missing: networks and baselines, which need each one, take no part")
    note(f"fits {plural(len(names), 'model')}; seed {seed}")
    return compare(sequences, names, key=key, optimal=known, announce=_announcer(len(names)), **sizes)


def _attempt(task: str, models: list[str] | None, key: Any, seed: int) -> "Comparison":
    """The networks that try a task of memory, or one of prediction from several seeds, with a note before each."""
    from hiddenstate.learn.challenges import CHALLENGES, attempt
    from hiddenstate.learn.contests import CONTESTS, contest

    tried = CHALLENGES.get(task) or CONTESTS[task]
    run = attempt if task in CHALLENGES else contest
    note(f"--task {task}: {tried.about}; seed {seed}")
    return run(task, models, key=key, announce=_announcer(len(models or tried.contenders)))


def _refuse_given(given: int) -> None:
    import hiddenstate as hs

    if given:
        raise hs.HiddenStateError(f"--given is {given}, but --task says which steps are scored; leave out --given.")


def _announcer(count: int) -> Callable[[str], None]:
    begun: list[str] = []

    def announce(name: str) -> None:
        begun.append(name)
        note(f"  {name} ({len(begun)} of {count})")

    return announce


def _refuse_reading(data: str | None, reading: LabelledReading) -> None:
    import hiddenstate as hs

    if data is not None or reading != LabelledReading():
        raise hs.HiddenStateError("--task makes the data; leave out DATA and how it is read.")


def _data(data: str | None, task: str | None, reading: LabelledReading, seed: int) -> "tuple[Any, Any, str]":
    """The data, what knows the best prediction of them (or None), and what to call them."""
    if task is None:
        return reading.read(data or DEFAULT), None, data or DEFAULT
    _refuse_reading(data, reading)
    made = _task(task, seed)
    note(f"--task {task}: {described(made.data)}; seed {seed}")
    return made.data, made, f"--task {task}"


def _task(words: str, seed: int) -> Any:
    """A task from words such as hmm:states=3,length=50."""
    import jax.random as jr

    import hiddenstate as hs

    name, _, rest = words.partition(":")
    if name != "hmm":
        raise hs.HiddenStateError(
            f"--task is {words!r}; it must be hmm, hmm:states=3,length=50 and so on, {TASKS}, or {CONTESTS}."
        )
    options: dict[str, Any] = dict(TASK)
    for pair in listed(rest or None) or ():
        option, _, value = (part.strip() for part in pair.partition("="))
        try:
            options[option] = type(TASK[option])(value)
        except (KeyError, ValueError):
            known = ", ".join(TASK)
            raise hs.HiddenStateError(f"--task is {words!r}; {pair!r} is none of {known} with a number.") from None
    return hs.tasks.hmm(**options, key=jr.fold_in(jr.key(seed), 1))
