"""`hiddenstate sample`."""

from pathlib import Path
from typing import Annotated

import typer

from hiddenstate.cli.console import busy, note, plural, say
from hiddenstate.cli.options import ModelFile, Seed
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import load_sequence_model


def sample(
    model: ModelFile,
    length: Annotated[int, typer.Option(min=1, help="Steps of each sequence.")] = 100,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many sequences.")] = 1,
    future: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of the inputs at every step, for a model that takes inputs."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Where to write them (.csv, .json, .parquet; .txt for text).",
            show_default="the screen",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Draw new sequences from a model.

    Models of text write text; all others a table with a row for each step, or for
    each sequence where the data that the model learned from had one.

    [bold]Example:[/bold] hiddenstate sample alice.safetensors --length 300 --n 3
    """  # fmt: skip
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.cli.future import read_future
    from hiddenstate.data import to_text
    from hiddenstate.report.tables import check_ending, table_as_read, to_csv, write_table, write_text

    check_outputs(out, reads=[model, future])
    network = load_sequence_model(model, "sample")
    is_text = network.schema is not None and network.schema.text is not None
    as_text = is_text and out is not None and out.suffix == ".txt"
    if out is not None and not as_text:
        check_ending(out)
    inputs = read_future(future, network)
    note(f"{plural(n, 'sequence')} of {plural(length, 'step')}; seed {seed}")
    with busy("drawing"):
        drawn = hs.sample(network, length, key=jr.key(seed), n=n, inputs=inputs)
    if out is None:
        say(
            "\n\n".join(to_text(drawn))
            if is_text
            else to_csv(table_as_read(drawn), drawn.schema.separator).rstrip("\n")
        )
        return
    if as_text:
        write_text("\n".join(to_text(drawn)) + "\n", out)
        say(f"{plural(n, 'sequence')} in {out}")
        return
    with busy("writing"):
        table = table_as_read(drawn)
        write_table(table, out, drawn.schema.separator)
    say(f"{plural(n, 'sequence')} in {out}")
    if n > 1 and drawn.schema.sequence is None and not drawn.schema.wide:
        note(f"give --sequence {table.columns[0]} to commands that read them, or they take all rows for one sequence")
