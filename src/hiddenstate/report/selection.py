"""A selection on the screen, in a folder, and as a plot."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from hiddenstate.core import FileError
from hiddenstate.core.storage import VERSION
from hiddenstate.files import save
from hiddenstate.learn.select import Candidate, Selection
from hiddenstate.report import style
from hiddenstate.report.columns import print_columns
from hiddenstate.report.tables import to_csv, to_json, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = {
    "bic": ("BIC", "minus twice the log-probability"),
    "aic": ("AIC", "minus twice the log-probability"),
    "cv": ("held-out nats per step", "nats per step on what was learned from"),
}


def make_folder(folder: str | Path) -> None:
    """Make the folder of a selection before the work begins, so that a wrong path is known at once."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {error.strerror}.") from None


def write_selection(selection: Selection, folder: str | Path, *, about: Mapping[str, Any]) -> None:
    """Write table.csv, table.json, about.json, the best model and the plot."""
    folder = Path(folder)
    make_folder(folder)
    write_text(to_csv(selection.table), folder / "table.csv")
    write_text(to_json(selection.table), folder / "table.json")
    written = {
        **about,
        "criterion": selection.criterion,
        "chosen": selection.chosen,
        "how": selection.said,
        "hiddenstate": VERSION,
        "jax": jax.__version__,
    }
    write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", folder / "about.json")
    save(selection.best, folder / "best.safetensors")
    if np.isfinite(selection.candidates[0].criterion):
        plot_selection(selection, folder / "selection.png")


def print_selection(selection: Selection) -> None:
    """Print the table, best first."""
    judged = "held out" if selection.criterion == "cv" else selection.criterion.upper()
    names = ["model", judged, "to the best", "log-prob", "parameters", "seconds"]
    cells = [_cells(row, selection) for row in selection.candidates]
    if not all(row.converged for row in selection.candidates):
        names.append("note")
        cells = [
            (*each, "" if row.converged else "not converged")
            for each, row in zip(cells, selection.candidates, strict=True)
        ]
    columns = dict(zip(names, zip(*cells, strict=True), strict=True))
    print_columns(columns, ("model", "note"), spare=("log-prob", "seconds"))


def _cells(row: Candidate, selection: Selection) -> tuple[str, ...]:
    digits = 4 if selection.criterion == "cv" else 2
    error = "" if row.criterion_error is None else f" ± {row.criterion_error:.4f}"
    apart = "" if row.difference_error is None else f" ± {row.difference_error:.4f}"
    return (
        row.model,
        f"{row.criterion:.{digits}f}{error}",
        "" if row is selection.candidates[0] else f"{row.difference:.{digits}f}{apart}",
        f"{row.log_prob:.2f}",
        f"{row.parameters:,}",
        f"{row.seconds:.1f}",
    )


def meaning(selection: Selection) -> str:
    """The table in words."""
    best = selection.candidates[0]
    said = f"{selection.said} Lower is better."
    if not np.isfinite(best.criterion):
        return f"{said} No candidate gave the data a finite probability."
    said += f" Chosen: {best.model}"
    if selection.criterion == "cv":
        close = [r.model for r in selection.candidates[1:] if r.difference < 2 * (r.difference_error or 0)]
        return said + (f"; within two standard errors of it: {', '.join(close)}." if close else ".")
    if len(selection.candidates) > 1:
        said += f", by {selection.candidates[1].difference:.1f} before {selection.candidates[1].model}"
    return f"{said}."


# -- the plot ------------------------------------------------------------------------------------------------


def plot_selection(selection: Selection, path: str | Path) -> None:
    """Draw the criterion over the size of the candidates, or candidates without a size one below the other."""
    rows = [row for row in selection.candidates if np.isfinite(row.criterion)]
    lines, axis = _lines(selection, rows)
    if lines:
        with style.canvas(path, 6.4, 4.0) as figure:
            _draw_lines(figure.subplots(), selection, lines, axis)
    else:
        with style.canvas(path, 6.4, 0.9 + 0.32 * len(rows)) as figure:
            _draw_dots(figure.subplots(), selection, rows)


def _lines(selection: Selection, rows: list[Candidate]) -> tuple[dict[str, list[tuple[float, Candidate]]], str]:
    """The candidates of each family by the one number that varies among them; nothing where there is none."""
    options = {row.model: selection.options.get(row.model, {}) for row in rows}
    families = {str(chosen.get("model", "")) for chosen in options.values()}
    names = {name for chosen in options.values() for name in chosen if name != "model"}
    varying = [n for n in sorted(names) if len({str(chosen.get(n)) for chosen in options.values()}) > 1]
    if len(varying) != 1 or "" in families:
        return {}, ""
    axis, lines = varying[0], {family: [] for family in sorted(families)}
    for row in rows:
        size = options[row.model].get(axis)
        if isinstance(size, bool) or not isinstance(size, int | float):
            return {}, ""
        lines[str(options[row.model]["model"])].append((size, row))
    return {family: sorted(points, key=lambda point: point[0]) for family, points in lines.items()}, axis


def _draw_lines(axes: "Axes", selection: Selection, lines: dict[str, list[tuple[float, Candidate]]], axis: str) -> None:
    from matplotlib.ticker import MaxNLocator

    held, fitted = _UNITS[selection.criterion]
    colour = style.colours(lines)
    for family, points in lines.items():
        sizes = [size for size, _ in points]
        values = [row.criterion for _, row in points]
        errors = [row.criterion_error or 0.0 for _, row in points]
        fits = [row.nats_per_step if selection.criterion == "cv" else -2 * row.log_prob for _, row in points]
        label = held if len(lines) == 1 else f"{family}: {held}"
        axes.plot(sizes, fits, color=colour[family], alpha=0.45, linewidth=1.2, linestyle=(0, (4, 3)), label=fitted)
        axes.errorbar(
            sizes, values, yerr=errors if any(errors) else None, color=colour[family], marker="o", markersize=4.5,
            linewidth=1.6, elinewidth=1.0, label=label,
        )  # fmt: skip
    best = selection.candidates[0]
    size = selection.options[best.model][axis]
    axes.plot(size, best.criterion, "o", markersize=12, markerfacecolor="none", color=style.ACCENT, markeredgewidth=1.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.06, y=0.12)
    axes.set_xlabel(axis)
    axes.set_ylabel(f"{held} (lower is better)")
    style.grid(axes)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    order = [name for name in once if name != fitted] + [fitted]
    axes.legend([once[name] for name in order], order, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0)


def _draw_dots(axes: "Axes", selection: Selection, rows: list[Candidate]) -> None:
    places = np.arange(len(rows))
    for place, row in zip(places, rows, strict=True):
        error = row.difference_error if selection.criterion == "cv" else None
        colour = style.ACCENT if place == 0 else style.MAIN
        axes.errorbar(row.difference, place, xerr=error, fmt="o", color=colour, markersize=6, elinewidth=1.6)
    axes.axvline(0, color="#b5b5b5", linewidth=0.8, zorder=0)
    axes.set_yticks(places, [row.model for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"{_UNITS[selection.criterion][0]}, difference to the best")
    axes.spines["left"].set_visible(False)
    style.grid(axes, "x")
