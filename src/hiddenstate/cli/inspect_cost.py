"""`hiddenstate inspect cost`: what models cost in time and memory."""

from pathlib import Path
from typing import Annotated

import typer

from hiddenstate.cli.console import note, say
from hiddenstate.cli.options import Seed
from hiddenstate.cli.reading import listed


def cost(
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where costs.csv, exponents.csv and cost.png go.", show_default=False),
    ],
    models: Annotated[
        str, typer.Option(metavar="NAMES", help="Which models, separated by commas.")
    ] = "vanilla,gru,lstm,mingru,hmm",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller sizes.")] = False,
    seed: Seed = 0,
) -> None:
    """Measure time and memory of models against length, units and sequences.

    It evaluates log-probabilities and gradients at growing sizes, one step
    after the other, in chunks and as a parallel scan where a model can,
    and prints the powers of the sizes that they grow with, beside the
    theory. Times need a quiet machine.

    [bold]Example:[/bold] hiddenstate inspect cost --models gru,hmm --quick --out cost
    """
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.core import recipe_named
    from hiddenstate.inspect.costs import FULL, QUICK
    from hiddenstate.report.costs import write_cost
    from hiddenstate.report.selection import make_folder

    names = listed(models) or []
    for name in names:
        recipe_named(name)
    make_folder(out)
    found = hs.inspect.cost(names, key=jr.key(seed), sizes=QUICK if quick else FULL, announce=note)
    write_cost(found, out)
    say(f"seed {seed}")
    say(str(found))
    say(f"written to {out / 'costs.csv'}, {out / 'exponents.csv'} and {out / 'cost.png'}")
