"""`hiddenstate decode`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenstate.cli.console import busy, plural, say
from hiddenstate.cli.options import Data, ModelFile, expanded
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import Rereading, load_sequence_model

if TYPE_CHECKING:
    import polars as pl

    from hiddenstate.core import SequenceModel, Sequences


@expanded(Rereading, "reading")
def decode(
    model: ModelFile,
    data: Data,
    reading: Rereading,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Where to write rows and states (.csv, .json, .parquet).",
            show_default="decoded.csv; decoded.parquet for .parquet",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Where to draw them (.png, .pdf, .svg); without it not at all."),
    ] = None,
) -> None:
    """Say which hidden state each observation came from.

    Beside the rows of the data, in their order, it writes the most likely
    states (Viterbi) and the probability of every state given all data. For
    a linear Gaussian model these are mean and standard deviation instead.

    [bold]Example:[/bold] hiddenstate decode hmm.safetensors weather.csv --plot states.png
    """
    from hiddenstate.report.style import check_ending as check_plot
    from hiddenstate.report.tables import check_ending, print_table, write_table

    if out is None:
        out = Path("decoded.parquet" if Path(data).suffix.lower() == ".parquet" else "decoded.csv")
    check_ending(out)
    if plot is not None:
        check_plot(plot)
    check_outputs(out, plot, reads=[model, data])
    network = load_sequence_model(model, "decode")
    _check_decodes(model, network)
    sequences = reading.read(data, network)
    with busy("decoding"):
        found = _decoded(network, sequences)
        write_table(_beside(found, data, sequences, reading, plain=out.suffix.lower() == ".csv"), out)
    if "states" in found:
        from hiddenstate.report.decoding import state_summary

        print_table(state_summary(found["states"], found["marginals"], sequences))
        say(f"log-probability of the most likely states and the data: {found['log_prob']:.4f}")
    if plot is not None:
        _draw(found, sequences, plot)
    said = f"; {_drawn(sequences)} in {plot}" if plot else ""
    say(f"{plural(sequences.steps, 'step')} with their states in {out}{said}")


def _check_decodes(path: Path, model: "SequenceModel") -> None:
    """The sentence that says why there is nothing to decode, where the model is a network."""
    import hiddenstate as hs
    from hiddenstate.core import has, name_of

    if not has(model, "smooth"):
        raise hs.HiddenStateError(
            f"{path} holds a network ({name_of(model)}), whose hidden state is computed from the data, not inferred: "
            "there is nothing to decode. Fit --model hmm, hsmm, hamilton or linear-gaussian."
        )


def _decoded(model: "SequenceModel", data: "Sequences") -> dict[str, Any]:
    """What all data say of the hidden states, as arrays."""
    import numpy as np

    import hiddenstate as hs

    smoothed = hs.smooth(model, data)
    marginals = getattr(smoothed, "marginals", None)
    if marginals is None:
        return {"mean": np.asarray(smoothed.mean), "covariance": np.asarray(smoothed.covariance)}
    path = hs.most_likely_states(model, data)
    total = float(np.asarray(path.log_prob, np.float64).sum())
    return {"states": np.asarray(path.states), "marginals": np.asarray(marginals), "log_prob": total}


def _beside(
    found: dict[str, Any], data: str, sequences: "Sequences", reading: Rereading, *, plain: bool
) -> "pl.DataFrame":
    """The rows of the data in their own order, with columns for the states."""
    import numpy as np

    from hiddenstate.data.rows import read_rows, typed
    from hiddenstate.report.decoding import belief_columns, state_columns
    from hiddenstate.report.tables import sequence_table

    rows = None
    if Path(data).is_file() and not reading.is_wide(sequences.schema):
        rows = read_rows(
            data,
            sequences.schema,
            sequence=reading.sequence,
            time=reading.time,
            header=reading.header,
            separator=reading.separator,
        )
    table = sequence_table(sequences) if rows is None else rows[0]
    if "states" in found:
        columns = state_columns(found["states"], found["marginals"], sequences, table.columns)
    else:
        columns = belief_columns(found["mean"], found["covariance"], sequences, table.columns)
    if rows is not None:
        columns = columns[np.argsort(rows[1])]
        table = table if plain else typed(table)
    return table.hstack(columns)


def _drawn(sequences: "Sequences") -> str:
    """What of the data is drawn, in words."""
    from hiddenstate.report.decoding import MOST_COLUMNS, MOST_SEQUENCES

    counts = (len(sequences), MOST_SEQUENCES, "sequences"), (len(sequences.schema.columns), MOST_COLUMNS, "columns")
    cut = [f"the first {most} of {count} {what}" for count, most, what in counts if count > most]
    return f"{' and '.join(cut)} drawn" if cut else "drawn"


def _draw(found: dict[str, Any], sequences: "Sequences", plot: Path) -> None:
    from hiddenstate.report.decoding import plot_beliefs, plot_states

    if "states" in found:
        plot_states(found["states"], found["marginals"], sequences, plot)
    else:
        plot_beliefs(found["mean"], found["covariance"], sequences, plot)
