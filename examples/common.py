"""What the examples share: their arguments, and the table that each prints and keeps."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.random as jr


@dataclass(frozen=True)
class Settings:
    """How an example is run: where its results go, whether it is only tried out, and its source of chance."""

    out: Path
    quick: bool
    key: jax.Array


def settings(script: str, said: str | None, arguments: Sequence[str] | None) -> Settings:
    """The settings on the command line of the example in the file `script`, whose docstring is `said`."""
    parser = argparse.ArgumentParser(description=said, formatter_class=argparse.RawDescriptionHelpFormatter)
    place = Path(script).parent / "out" / Path(script).stem
    parser.add_argument("--out", type=Path, default=place, help="folder for the plot and the summary (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="run in seconds, on too little data to show anything")
    parser.add_argument("--seed", type=int, default=0, help="where all random numbers start (%(default)s)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    return Settings(given.out, given.quick, jr.key(given.seed))


def report(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Print rows of the same columns as a table, and keep them in `summary.json` beside the plot."""
    cells = [list(rows[0]), *([_written(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join([first, *others]))
    (out / "summary.json").write_text(json.dumps(list(rows), indent=2) + "\n")
    print(f"\nIn {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


def _written(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
