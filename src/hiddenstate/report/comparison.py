"""A comparison of models on the screen and in a folder."""

import json
from collections.abc import Callable, Mapping
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import FileError, Pairs, Sequences
from hiddenstate.core.storage import VERSION
from hiddenstate.files import save
from hiddenstate.learn.compare import Comparison, Row
from hiddenstate.report.columns import print_columns
from hiddenstate.report.comparison_charts import gain_charts, learning_charts, ranking_charts
from hiddenstate.report.comparison_page import comparison_page
from hiddenstate.report.comparison_parts import unit_of
from hiddenstate.report.drawing import draw_charts
from hiddenstate.report.forecasts import symbol_names
from hiddenstate.report.page import Page, write_page
from hiddenstate.report.tables import to_csv, to_json, write_text
from hiddenstate.report.windows import observed_values

WIDE = 8.5
"""Inches."""

WORDS = ("model", "note")
"""The columns of the printed table that hold words, which can wrap."""

FEW = 5
"""So many symbols are named in a sentence."""


def make_folder(folder: str | Path) -> None:
    """Make the folder of a comparison before the work begins, so that a wrong path is known at once."""
    try:
        (Path(folder) / "models").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {error.strerror}.") from None


def write_comparison(
    comparison: Comparison,
    folder: str | Path,
    *,
    about: Mapping[str, Any],
    key: PRNGKeyArray,
    plots: Literal["png", "svg"] = "png",
    command: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Write table.csv, table.json, about.json, models, plots and report.html; the key is for what is sampled.

    Where models were learned from several seeds, seeds.csv has the score of each.
    `about` says what was compared, on which data and with which seed; `command` is what to type for the same;
    `announce` is told what is made next, where that takes time.
    """
    folder = Path(folder)
    make_folder(folder)
    frame = comparison.frame()
    write_text(to_csv(frame), folder / "table.csv")
    write_text(to_json(frame), folder / "table.json")
    if comparison.seed_scores is not None:
        seeds = {"seed": np.arange(len(next(iter(comparison.seed_scores.values())))), **comparison.seed_scores}
        write_text(to_csv(pl.DataFrame(seeds)), folder / "seeds.csv")
    written = {**about, "split": comparison.split, "hiddenstate": VERSION, "jax": jax.__version__}
    write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", folder / "about.json")
    for name, model in comparison.models.items():
        save(model, folder / "models" / f"{name}.safetensors")
    page = comparison_page(comparison, meaning(comparison), about=about, key=key, command=command, announce=announce)
    write_page(page, folder / "report.html")
    if np.isfinite(comparison.rows[0].nats_per_step):
        announce("Plots")
        _draw_plots(comparison, page, folder, plots)


def _draw_plots(comparison: Comparison, page: Page, folder: Path, form: str) -> None:
    """The charts of the page that most want to be shown, each kind in a file of its own."""
    predicted = [chart for section in page.sections if section.title == "Predictions" for chart in section.charts]
    draw_charts(ranking_charts(comparison), folder / f"ranking.{form}")
    for name, charts in (
        ("training", learning_charts(comparison)),
        ("predictions", predicted),
        ("cumulative", gain_charts(comparison)),
    ):
        if charts:
            draw_charts(charts, folder / f"{name}.{form}", columns=1, width=WIDE)


def print_ranking(comparison: Comparison) -> None:
    """Print the table, best first, baselines dimmed."""
    known = comparison.optimal_nats is not None
    measure = comparison.rows[0].measure
    extra = (["above optimal"] if known else []) + ([measure] if measure else [])
    names = ["model", f"nats per {unit_of(comparison)}", "to the best", *extra, "parameters", "sec", "note"]
    left_out: tuple[str, ...] = ("to the best", "sec") if known and measure else ()  # for lines of 80 characters
    if comparison.seed_scores is not None:  # one line of errors over seeds needs the room, and none has a note
        left_out = ("sec", "note")
    cells = [_cells(row, comparison.rows[0]) for row in comparison.rows]
    kept = [name not in left_out for name in names]
    columns = dict(compress(zip(names, zip(*cells, strict=True), strict=True), kept))
    baselines = [number for number, row in enumerate(comparison.rows) if row.baseline]
    print_columns(columns, WORDS, spare=("sec", "note"), dim=baselines)


def _cells(row: Row, best: Row) -> tuple[str, ...]:
    behind = "" if row is best else _with_error(row.difference, row.difference_error)
    notes = ["baseline"] if row.baseline else []
    if row.solved is not None:
        notes += ["solved" if row.solved else "not solved"]
    elif not row.converged:
        notes += ["not converged"]
    return (
        row.model,
        _with_error(row.nats_per_step, row.standard_error),
        behind,
        *([] if row.above_optimal is None else [f"{row.above_optimal:.4f}"]),
        *([] if row.quality is None else [f"{row.quality:.4f}"]),
        f"{row.parameters:,}",
        "<1" if row.seconds < 1 else f"{row.seconds:,.0f}",
        ", ".join(notes),
    )


def _with_error(value: float, error: float) -> str:
    """A number with its standard error, which a single step has not."""
    return f"{value:.4f} ± {error:.4f}" if np.isfinite(error) else f"{value:.4f}"


def _seed_by_seed(scores: Mapping[str, np.ndarray], order: list[str]) -> str:
    """How far each model is behind the one before it, in words."""
    said = []
    for ahead, behind in pairwise(order):
        apart = scores[behind] - scores[ahead]
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        said.append(f" {behind} is {apart.mean():.4f} ± {error:.4f} behind {ahead}.")
    return "".join(said)


def _answers(comparison: Comparison) -> str:
    """How the answers of models are, in words."""
    best, rival = comparison.rows[0], next((r for r in comparison.rows if r.baseline), None)
    said = f" {best.model} answers best"
    if best.quality is not None:
        said += f", with {_article(best)} of {best.quality:.4g}"
        said += f"; {rival.model}, which reads nothing, has {rival.quality:.4g}" if rival not in (None, best) else ""
    judged = [row for row in comparison.rows if row.solved is not None]
    for verdict, solved in (("solved", True), ("not solved", False)):
        names = [row.model for row in judged if row.solved is solved]
        said += f". The task is {verdict} by {'; '.join(names)}" if names else ""
    return f"{said}.{_above_optimal(comparison)}"


def _never_learned(comparison: Comparison) -> str:
    """A sentence on symbols that are held out and not in what was learned from, if there are any."""
    found = [
        symbol_names(column)[code]
        for i, column in enumerate(comparison.test.schema.columns)
        if column.kind == "symbol"
        for code in sorted(_codes(comparison.test, i) - _codes(comparison.train, i))
    ]
    if not found:
        return ""
    some = f"{', '.join(found[:FEW])}{', ...' if len(found) > FEW else ''}"
    those = "1 symbol" if len(found) == 1 else f"{len(found)} symbols"
    return (
        f" No model learned from {those} of the held-out part ({some}): one without a prior expects almost none of it."
    )


def _codes(data: Sequences, column: int) -> set[int]:
    """The codes of the symbols that occur in a column."""
    seen = np.concatenate([observed_values(data, i, column) for i in range(len(data))])
    return set(np.unique(seen[np.isfinite(seen)]).astype(int).tolist())


def _above_optimal(comparison: Comparison) -> str:
    """How far the best model is from the best possible, in words, where that is known."""
    best = comparison.rows[0]
    if best.above_optimal is None:
        return ""
    return (
        f" The best possible prediction needs {comparison.optimal_nats_per_step:.4f} nats per {unit_of(comparison)} "
        f"here, and {best.model} {best.above_optimal:.4f} more."
    )


def _article(row: Row) -> str:
    return f"{'an' if str(row.measure)[0] in 'aeiou' else 'a'} {row.measure}"


def meaning(comparison: Comparison) -> str:
    """The table in words."""
    best = comparison.rows[0]
    unit = unit_of(comparison)
    seeds = comparison.seed_scores
    over, pair = ("", unit) if seeds is None else (f" over {len(seeds[best.model])} seeds", "seed")
    said = (
        f"nats per {unit}: lower is better; ± is one standard error{over}, and differences are taken {pair} by {pair}."
    )
    if not np.isfinite(best.nats_per_step):
        return f"{said} No model gave the held-out data a finite probability."
    if isinstance(comparison.test, Pairs):
        return said + _answers(comparison)
    close = [r.model for r in comparison.rows[1:] if r.difference <= 2 * r.difference_error]
    said += f" {best.model} predicts best" if len(comparison.rows) > 1 else f" {best.model} was the only one"
    if close:
        listed = close[0] if len(close) == 1 else f"{', '.join(close[:-1])} and {close[-1]}"
        said += f", but {listed} {'is' if len(close) == 1 else 'are'} within two standard errors of it"
    said += "."
    said += "" if seeds is None else _seed_by_seed(seeds, [row.model for row in comparison.rows])
    said += _never_learned(comparison)
    said += _above_optimal(comparison)
    if best.baseline:
        return f"{said} No network beats this baseline here: fit longer, give more data, or there is no more to know."
    rival = next((r for r in comparison.rows if r.baseline), None)
    if rival is None:
        return said
    times = f"{np.exp(rival.difference):.3g} times as probable"
    return f"{said} Each held-out step is {times} under it as under {rival.model}, the best baseline."
