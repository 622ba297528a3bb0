"""`hiddenstate compare`."""

from pathlib import Path
from typing import Annotated

import typer

from hiddenstate.cli.console import note, say
from hiddenstate.cli.options import MODELS, Seed, expanded
from hiddenstate.cli.reading import Reading, listed

DEFAULT = "sunspots"
"""The embedded set that is compared on if no data are given."""


@expanded(Reading, "reading")
def compare(
    reading: Reading,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A file, or an embedded set (see `datasets`)."),
    ] = DEFAULT,
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
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The most passes over the data.", show_default="by the data"),
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
    sequences = reading.read(data)
    names = listed(models) or list(default_models(sequences))
    begun: list[str] = []

    def announce(name: str) -> None:
        begun.append(name)
        note(f"  {name} ({len(begun)} of {len(names)})")

    note(f"fits {len(names)} models; seed {seed}")
    split_key, plot_key = jr.split(jr.key(seed))
    result = run(sequences, names, key=split_key, hidden=hidden, epochs=epochs, announce=announce)
    note(result.split)
    print_ranking(result)
    say(meaning(result))
    about = {"data": data, "seed": seed, "hidden": hidden, "epochs": epochs}
    write_comparison(result, out, about=about, key=plot_key)
    say(f"table, plots and models are in {out}/")
