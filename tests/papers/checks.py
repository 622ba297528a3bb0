"""What every figure and claim must do, whatever it is about."""

from pathlib import Path
from typing import Any

import hiddenstate as hs


def run_and_resume(name: str, config: Any, folder: Path) -> hs.papers.Reproduction:
    """Run it, check that what is kept gives the same again, and that claims and charts were made and can be written."""
    said: list[str] = []
    found = hs.papers.reproduce(name, config=config, folder=folder)
    again = hs.papers.reproduce(name, config=config, folder=folder, announce=said.append)
    assert said and all(part.endswith("done before") for part in said)
    assert again.tables == found.tables and again.claims == found.claims
    assert all(claim.statement and claim.measured for claim in found.claims)
    assert 2 <= len(found.charts) <= 4
    hs.papers.write_reproduction(found, folder)
    assert (folder / "plot.png").stat().st_size > 0
    assert {f"{table}.csv" for table in found.tables} <= {path.name for path in folder.iterdir()}
    return found
