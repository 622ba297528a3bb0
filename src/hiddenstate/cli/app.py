"""The commands, put together."""

import sys
from typing import Annotated

import typer

from hiddenstate import __version__
from hiddenstate.cli.bench import bench
from hiddenstate.cli.compare import compare
from hiddenstate.cli.datasets import datasets
from hiddenstate.cli.decode import decode
from hiddenstate.cli.errors import Commands
from hiddenstate.cli.fit import fit
from hiddenstate.cli.forecast import forecast
from hiddenstate.cli.inspect import inspect
from hiddenstate.cli.predict import predict
from hiddenstate.cli.programs import keep_programs
from hiddenstate.cli.reproduce import reproduce
from hiddenstate.cli.sample import sample
from hiddenstate.cli.score import score
from hiddenstate.cli.select import select
from hiddenstate.cli.stream import stream

app = typer.Typer(
    cls=Commands,
    name="hiddenstate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hiddenstate {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Probabilistic models of sequences: compare them, fit one, score, predict, forecast, sample and stream.

    [bold]hiddenstate compare data.csv[/bold] says which model predicts your sequences best.
    """


for command in (compare, select, fit, score, predict, forecast, decode, sample, stream, datasets, reproduce, bench):
    app.command()(command)
app.add_typer(inspect)


def main() -> None:
    """Run the command line."""
    keep_programs()
    sys.exit(app())
