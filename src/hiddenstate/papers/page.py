"""Figures and claims that were run, as one page."""

from collections.abc import Sequence

import jax

from hiddenstate.core.storage import VERSION
from hiddenstate.papers.reproduce import Reproduction
from hiddenstate.report.page import Page, Section, Table, Verdict

MOST_ROWS = 12
"""Longer tables are folded."""


def reproduction_page(found: Sequence[Reproduction], command: str = "") -> Page:
    """All that was run: claims with their verdicts, charts, tables, sizes, commands and seeds."""
    claims = [claim for one in found for claim in one.claims]
    held = sum(claim.holds for claim in claims)
    summary = (
        f"{held} of {len(claims)} claims hold in this run. Every figure below was computed in it; where the run shows "
        f"why a claim does not hold, the line below says so. hiddenstate {VERSION}, jax {jax.__version__}."
    )
    sections = [_section(one) for one in found]
    overview = [_overview(found)] if len(found) > 1 else []
    return Page("Reproduced", summary, [*overview, *sections], [command] if command else [])


def _overview(found: Sequence[Reproduction]) -> Section:
    rows = [
        {
            "name": one.name,
            "what": one.title,
            "claims": len(one.claims),
            "hold": sum(claim.holds for claim in one.claims),
            "seconds": round(sum(one.seconds.values()), 1),
        }
        for one in found
    ]
    return Section("Overview", tables=[Table(rows)])


def _section(found: Reproduction) -> Section:
    verdicts = [Verdict(claim.statement, claim.measured, claim.holds, claim.note) for claim in found.claims]
    tables = [Table(rows, name, folded=len(rows) > MOST_ROWS) for name, rows in found.tables.items()]
    sizes = Table(
        [{"size": name, "value": str(value)} for name, value in found.config.items()],
        "what it was run with",
        folded=True,
    )
    seconds = Table(
        [{"part": name, "seconds": round(took, 1)} for name, took in found.seconds.items()],
        "seconds of every part",
        folded=True,
    )
    return Section(
        found.name,
        f"{found.title}: {found.source}. Seed {found.seed}, {found.size} sizes.",
        found.charts,
        [*tables, sizes, seconds],
        verdicts=verdicts,
        commands=[found.command] if found.command else [],
    )
