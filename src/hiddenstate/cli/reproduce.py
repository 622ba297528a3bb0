"""`hiddenstate reproduce`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hiddenstate.cli.console import note, say
from hiddenstate.cli.errors import command_line
from hiddenstate.cli.options import Seed

if TYPE_CHECKING:
    from hiddenstate.papers import Reproduction


def reproduce(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A figure or claim, `all` of them, or `list` to see their names.")
    ] = "list",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, a minute or so each: the default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The sizes of the papers.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for claims, tables and plots.")] = Path(
        "reproduced"
    ),
    plots: Annotated[Literal["png", "svg"], typer.Option(help="How plots are written.")] = "png",
    seed: Seed = 0,
) -> None:
    """Run the figures and claims of the source papers, and say which of them hold.

    Every claim is printed with the figures of this run. Tables, plots and
    claims go to a folder, with report.html, a page for the browser. A run
    that was interrupted goes on with the part that was not ready.

    [bold]Example:[/bold] hiddenstate reproduce list

    [bold]Example:[/bold] hiddenstate reproduce choe2017-fig5 --quick
    """
    import hiddenstate as hs
    from hiddenstate import papers
    from hiddenstate.papers.page import reproduction_page
    from hiddenstate.report.page import write_page

    if quick and full:
        raise hs.HiddenStateError("--quick and --full were both given; take one of them.")
    if name == "list":
        for one in papers.PAPERS:
            module = papers.paper(one)
            say(f"{one:<20}{module.TITLE} ({module.SOURCE})")
        return
    chosen = list(papers.PAPERS) if name == "all" else [name]
    for one in chosen:
        papers.paper(one)
    began, done = time.perf_counter(), []
    for number, one in enumerate(chosen, 1):
        counted = f" ({number} of {len(chosen)})" if len(chosen) > 1 else ""
        note(f"{one}{counted}: {papers.paper(one).TITLE}; seed {seed}")
        found = papers.reproduce(
            one,
            "full" if full else "quick",
            seed=seed,
            folder=out / one,
            announce=lambda part: note(f"  {part}"),
        )
        papers.write_reproduction(found, out / one, plots=plots)
        _say_claims(found)
        done.append(found)
        write_page(reproduction_page(done, command_line(ctx, seed=seed)), out / "report.html")
    claims = [claim for found in done for claim in found.claims]
    minutes = (time.perf_counter() - began) / 60
    say(f"{sum(claim.holds for claim in claims)} of {len(claims)} claims hold; {minutes:.1f} minutes")
    say(f"tables and plots are in {out}/; open {out / 'report.html'} in a browser")


def _say_claims(found: "Reproduction") -> None:
    say(f"{found.name}: {found.title} ({found.source})")
    for claim in found.claims:
        say(f"  {'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.statement}")
        say(f"    {claim.measured}")
        if claim.note:
            say(f"    {claim.note}")
