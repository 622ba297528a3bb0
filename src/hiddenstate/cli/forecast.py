"""`hiddenstate forecast`."""

from pathlib import Path
from typing import Annotated

import typer

from hiddenstate.cli.console import busy, note, plural, say
from hiddenstate.cli.options import Data, ModelFile, Seed, expanded
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import Rereading, load_sequence_model

SHOWN = 12
"""So many rows of the table are printed."""

WIDEST = 10
"""A wider table is printed without the probabilities of symbols, which are all in the file."""


@expanded(Rereading, "reading")
def forecast(
    model: ModelFile,
    data: Data,
    reading: Rereading,
    horizon: Annotated[int, typer.Option(min=1, help="Steps ahead.")] = 20,
    samples: Annotated[int, typer.Option(min=1, help="Sampled futures of each sequence.")] = 1000,
    future: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of the inputs at the steps to come, for a model that takes inputs."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="Where to write the forecasts (.csv, .json, .parquet).")
    ] = Path("forecast.csv"),
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Where to draw them (.png, .pdf, .svg); without it not at all."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Forecast what comes after each sequence, with quantiles at every step ahead.

    Symbols get the probability of each in place of quantiles.

    [bold]Example:[/bold] hiddenstate forecast sunspots.safetensors sunspots --horizon 22 --plot forecast.png
    """
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.cli.future import read_future
    from hiddenstate.report.forecasts import MOST_PANELS, forecast_table, plot_forecast
    from hiddenstate.report.style import check_ending as check_plot
    from hiddenstate.report.tables import check_ending, print_table, write_table

    check_ending(out)
    if plot is not None:
        check_plot(plot)
    check_outputs(out, plot, reads=[model, data, future])
    network = load_sequence_model(model, "forecast")
    sequences = reading.read(data, network)
    inputs = read_future(future, network, sequences.names)
    note(f"{plural(samples, 'sampled future')} of {plural(horizon, 'step')}; seed {seed}")
    with busy("forecasting"):
        found = hs.forecast(network, sequences, horizon, key=jr.key(seed), n=samples, inputs=inputs)
        table = forecast_table(found, sequences)
        write_table(table, out)
        if plot is not None:
            plot_forecast(found, sequences, plot)
    shown = table if table.width <= WIDEST else table.select([c for c in table.columns if not c.startswith("p(")])
    print_table(shown.head(SHOWN), cut=table.height - SHOWN)
    if shown.width < table.width:
        say(f"the probabilities of all symbols are in {out}")
    charts = len(sequences) * len(sequences.schema.columns)
    drawn = "drawn" if charts <= MOST_PANELS else f"the first {MOST_PANELS} of {charts} charts"
    said = f"; {drawn} in {plot}" if plot else ""
    say(f"forecasts of {plural(len(sequences), 'sequence')} in {out}{said}")
