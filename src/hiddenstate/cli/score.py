"""`hiddenstate score`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenstate.cli.console import busy, note, plural, say
from hiddenstate.cli.options import Data, Given, ModelFile, Seed, expanded
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import Rereading, load_model

if TYPE_CHECKING:
    from hiddenstate.learn import Evaluation


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
    horizon: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="From 2 on: judge forecasts of so many steps, from many places in the data, "
            "in place of each step predicted from those before it.",
        ),
    ] = 1,
    samples: Annotated[
        int, typer.Option(min=2, metavar="N", help="Samples that numbers are judged by where no formula does.")
    ] = 200,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Draw calibration, or with --horizon the scores by steps ahead (.png, .pdf, .svg).",
        ),
    ] = None,
    given: Given = 0,
    seed: Seed = 0,
) -> None:
    """Say how well a model predicts sequences, step by step; or how well it answers them.

    Nats per step is minus the mean logarithm of the probability that the
    model gave each observation before it saw it: lower is better. Symbols
    and labels also have accuracy and calibration, numbers CRPS (lower is
    better, in their unit) and the share that fell into intervals. The data
    are read as those that the model was fitted to.

    [bold]Example:[/bold] hiddenstate score reviews.safetensors held-out.csv --plot calibration.png
    """
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.inference import data_for
    from hiddenstate.learn.compare import given_words
    from hiddenstate.report.style import check_ending
    from hiddenstate.report.tables import check_ending as check_table

    if plot is not None:
        check_ending(plot)
    if out is not None:
        check_table(out)
    check_outputs(out, plot, reads=[model, data])
    network = load_model(model)
    sequences = reading.read(data, network)
    if isinstance(sequences, hs.Pairs) and not sequences.scored_steps:
        names = ", ".join(repr(column.name) for column in sequences.targets.schema.columns)
        raise hs.DataError(f"{data} has no answers in {names} to score by; predict gives them.")
    if given:
        sequences = data_for(network, sequences, given)
        note(given_words(given))
    with busy("judging predictions"):
        found = hs.evaluate(network, sequences, key=jr.key(seed), horizon=horizon, n=samples)
    _nats(network, sequences, per_sequence, out)
    for name in found.unjudged:
        note(f"column {name!r} is not judged: all of it is missing, or has no prediction")
    _judgement(found, seed)
    if plot is not None and found.columns:
        from hiddenstate.report.evaluation import plot_evaluation

        plot_evaluation(found, plot)
        say(f"drawn in         {plot}")


def _nats(model: Any, data: Any, per_sequence: bool, out: Path | None) -> None:
    """Say the score in nats, and that of every sequence where it is asked for."""
    import hiddenstate as hs
    from hiddenstate.learn.scores import score_of, step_nats
    from hiddenstate.report.tables import print_table, score_table, write_table

    answers = isinstance(data, hs.Pairs)
    unit, schema = ("answer", data.targets.schema) if answers else ("step", data.schema)
    with busy("scoring"):
        nats = step_nats(model, data)
    whole = score_of(nats, data)
    error = " (standard error)" if math.isfinite(whole.standard_error) else ""
    say(f"{'nats per ' + unit:<16} {whole.rate(6)}{error}")
    say(f"{'bits per ' + unit:<16} {whole.nats_per_step / math.log(2):.6f}")
    if schema.kind == "symbol" and schema.scalar and not answers:
        symbols = plural(schema.columns[0].size, "symbol")
        say(f"perplexity       {math.exp(whole.nats_per_step):.6g} of {symbols}")
    say(f"log-probability  {-float(nats.sum()):.6f} of {plural(whole.steps, unit)}")
    table = score_table(nats, data) if per_sequence or out else None
    if table is not None and per_sequence:
        print_table(table)
    if table is not None and out:
        write_table(table, out)
        say(f"every sequence   {out}")


def _judgement(found: "Evaluation", seed: int) -> None:
    """Say what accuracy and calibration, or CRPS and coverage, come to."""
    from hiddenstate.learn import Classified
    from hiddenstate.report.evaluation import ahead_tables, evaluation_lines
    from hiddenstate.report.tables import print_table

    if found.horizon > 1:
        origins = next(iter(found.columns.values())).counts.max()
        note(f"forecasts of {found.horizon} steps from {plural(int(origins), 'place')} in the data; seed {seed}")
        for name, table in ahead_tables(found).items():
            if len(found.columns) > 1:
                say(f"{name}:")
            print_table(table)
        return
    for line in evaluation_lines(found):
        say(line)
    only = next(iter(found.columns.values())) if len(found.columns) == 1 else None
    if isinstance(only, Classified):
        print_table(only.reliability[0].frame())
