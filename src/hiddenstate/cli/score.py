"""`hiddenstate score`."""

import math
from pathlib import Path
from typing import Annotated

import typer

from hiddenstate.cli.console import plural, say
from hiddenstate.cli.options import Data, ModelFile, expanded
from hiddenstate.cli.reading import Rereading, load_model


@expanded(Rereading, "reading")
def score(
    model: ModelFile,
    data: Data,
    reading: Rereading,
    per_sequence: Annotated[bool, typer.Option("--per-sequence", help="Show the score of every sequence.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write the score of every sequence (.csv, .json, .parquet)."),
    ] = None,
) -> None:
    """Say how well a model predicts sequences, step by step.

    Nats per step is minus the mean logarithm of the probability that the
    model gave each observation before it saw it: lower is better. The data
    are read as those that the model was fitted to.

    [bold]Example:[/bold] hiddenstate score weather.safetensors new-weather.csv --per-sequence
    """
    from hiddenstate.learn.scores import score_of, step_nats
    from hiddenstate.report.tables import print_table, score_table, write_table

    network = load_model(model)
    sequences = reading.read(data, network)
    nats = step_nats(network, sequences)
    whole = score_of(nats, sequences)
    say(f"nats per step    {whole.nats_per_step:.6f} ± {whole.standard_error:.6f} (standard error)")
    say(f"bits per step    {whole.nats_per_step / math.log(2):.6f}")
    if sequences.schema.kind == "symbol" and sequences.schema.scalar:
        symbols = plural(sequences.schema.columns[0].size, "symbol")
        say(f"perplexity       {math.exp(whole.nats_per_step):.6g} of {symbols}")
    say(f"log-probability  {-float(nats.sum()):.6f} of {plural(whole.steps, 'step')}")
    table = score_table(nats, sequences) if per_sequence or out else None
    if table is not None and per_sequence:
        print_table(table)
    if table is not None and out:
        write_table(table, out)
        say(f"every sequence   {out}")
