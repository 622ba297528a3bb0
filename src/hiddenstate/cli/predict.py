"""`hiddenstate predict`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hiddenstate.cli.console import busy, note, plural, say
from hiddenstate.cli.options import Data, ModelFile, Seed, expanded
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import Rereading, load_answering_model

SHOWN = 12
"""So many rows of the table are printed."""

WIDEST = 10
"""A wider table is printed without the probabilities of labels, which are all in the file."""


@expanded(Rereading, "reading")
def predict(
    model: ModelFile,
    data: Data,
    reading: Rereading,
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="Where to write the answers (.csv, .json, .parquet).")
    ] = Path("answers.csv"),
    seed: Seed = 0,
) -> None:
    """Answer new sequences with a model that was fitted with --target.

    Labels come by name with the probability of each, numbers as mean and an
    interval of 90%. The answers need not be in the data; where they are, they
    stand beside, but for labels that the model never saw.

    [bold]Example:[/bold] hiddenstate predict reviews.safetensors new-reviews.csv --out labels.csv
    """
    from hiddenstate.report.tables import check_ending, print_table, write_table

    check_ending(out)
    check_outputs(out, reads=[model, data])
    network = load_answering_model(model)
    pairs = reading.read(data, network, judged=False)
    with busy("answering"):
        table = _table(network, pairs, seed)
    write_table(table, out)
    shown = table if table.width <= WIDEST else table.select([c for c in table.columns if not c.startswith("p(")])
    print_table(shown.head(SHOWN), cut=table.height - SHOWN)
    if shown.width < table.width:
        note(f"the probabilities of all labels are in {out}")
    say(f"{plural(table.height, 'answer')} to {plural(len(pairs), 'sequence')} in {out}")


def _table(model: Any, pairs: Any, seed: int) -> Any:
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.core import has, name_of
    from hiddenstate.report.answers import answer_table

    if not has(model, "answers"):
        raise hs.HiddenStateError(
            f"{name_of(model)} writes answers of any length; those come from hs.generate, in Python."
        )
    return answer_table(hs.predictive(model, pairs), pairs, key=jr.key(seed))
