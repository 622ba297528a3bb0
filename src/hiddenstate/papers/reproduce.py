"""Run a paper's figure or claim, and write what came out."""

import importlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import jax
import jax.random as jr
import polars as pl

from hiddenstate.core import FileError, HiddenStateError
from hiddenstate.core.storage import VERSION
from hiddenstate.papers.paper import Claim, Notebook, Paper, Tables, identity_of
from hiddenstate.report.charts import Chart
from hiddenstate.report.drawing import draw_charts
from hiddenstate.report.tables import to_csv, write_text

PAPERS: dict[str, str] = {
    "choe2017-fig5": "choe2017_fig5",
    "choe2017-fig6": "choe2017_fig6",
    "choe2017-fig7": "choe2017_fig7",
    "choe2017-next": "choe2017_next",
    "andreas2016": "andreas2016",
    "sohldickstein2015": "sohldickstein2015",
    "feng2024": "feng2024",
    "switching2024": "switching2024",
    "linderman": "linderman",
    "tripp": "tripp",
}
"""The module of each figure or claim, by the name it has on the command line."""

Size = Literal["quick", "full", "custom"]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What a run gave: the claims with their figures, the tables behind them, charts, and what it was run with."""

    name: str
    title: str
    source: str
    size: Size
    seed: int
    config: dict[str, Any]
    claims: tuple[Claim, ...]
    tables: Tables
    charts: tuple[Chart, ...]
    seconds: dict[str, float]

    @property
    def command(self) -> str:
        """What to type for the same run; nothing where its sizes were made in Python."""
        return "" if self.size == "custom" else f"hiddenstate reproduce {self.name} --{self.size} --seed {self.seed}"


def paper(name: str) -> Paper:
    """The module of a figure or claim."""
    if name not in PAPERS:
        raise HiddenStateError(f"{name!r} is no figure or claim that is known; there are {', '.join(PAPERS)}.")
    return cast(Paper, importlib.import_module(f"hiddenstate.papers.{PAPERS[name]}"))


def reproduce(
    name: str,
    size: Literal["quick", "full"] = "quick",
    *,
    seed: int = 0,
    folder: str | Path | None = None,
    config: Any = None,
    announce: Callable[[str], None] | None = None,
) -> Reproduction:
    """Run the figure or claim of that name, and check what was claimed.

    `size` is ``"quick"`` or ``"full"``, the sizes of the paper; `config`, a `Config` of its module, takes its place.
    With a `folder`, parts are kept there as they become ready, and a run that was killed goes on from there.
    """
    if size not in ("quick", "full"):
        raise HiddenStateError(f"size is {size!r}; it must be 'quick' or 'full'.")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise HiddenStateError(f"seed is {seed!r}; it must be a whole number.")
    module = paper(name)
    run: Size = size if config is None else "custom"
    config = (module.QUICK if size == "quick" else module.FULL) if config is None else config
    if type(config) is not type(module.QUICK):
        raise HiddenStateError(
            f"config is {config!r}; for {name} it must be a Config of hiddenstate.papers.{PAPERS[name]}."
        )
    notebook = Notebook(folder, identity_of(name, config, seed), announce)
    tables = module.run(config, notebook, key=jr.key(seed))
    return Reproduction(
        name,
        module.TITLE,
        module.SOURCE,
        run,
        seed,
        asdict(config),
        tuple(module.claims(tables)),
        tables,
        tuple(module.plot(tables)),
        notebook.seconds,
    )


def write_reproduction(found: Reproduction, folder: str | Path, *, plots: Literal["png", "svg"] = "png") -> None:
    """Write result.json, a CSV file for each table, and plot.png (or plot.svg) into a folder."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {error.strerror}.") from None
    for name, rows in found.tables.items():
        write_text(to_csv(pl.DataFrame(rows, infer_schema_length=None)), folder / f"{name}.csv")
    about = {
        **{name: getattr(found, name) for name in ("name", "title", "source", "size", "seed", "config", "command")},
        "claims": [asdict(claim) for claim in found.claims],
        "tables": found.tables,
        "seconds": found.seconds,
        "hiddenstate": VERSION,
        "jax": jax.__version__,
    }
    write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", folder / "result.json")
    draw_charts(found.charts, folder / f"plot.{plots}")
