"""How long ago a network was reset, and how near its rule comes to exact inference in a switching model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect import Switching, SwitchingStudy
from hiddenstate.report import style
from hiddenstate.report.selection import make_folder
from hiddenstate.report.tables import to_csv, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULES = {
    "one_pass": "one pass, the rule of minGRU",
    "mean_field": "mean field, iterated",
    "resets_only": "one pass that learns from resets only",
}
BOUNDS = {"gate_bound": "gates that see one observation", "bound": "after coordinate ascent"}


def plot_ages(
    switching: Switching, data: Any, path: str | Path, *, sequence: int = 0, units: Sequence[int] = (0, 1, 2)
) -> None:
    """Draw the posterior over how long ago each of these units was reset, along one sequence, as a heat map a unit.

    Above the broken line there was no time for a reset: on it lies what is left of the initial state. Ages that are
    nowhere as probable as 0.02 are cut off.
    """
    ages = switching.ages(data)[sequence]
    count = ages.shape[-1]
    if not units:
        raise HiddenStateError("units names none; at least one must be drawn.")
    for unit in units:
        if not 0 <= unit < count:
            raise HiddenStateError(f"units names {unit}; the cell has {count}, numbered from 0.")
    steps = int((~np.isnan(ages[:, 0, 0])).sum())
    oldest = 1 + int(np.nonzero((ages[:steps, :, list(units)] > 0.02).any(axis=(0, 2)))[0].max())
    edges = (0.5, steps + 0.5)
    with style.canvas(path, 2.6 * len(units) + 1.2, 3.0) as figure:
        panels = figure.subplots(1, len(units), sharey=True, squeeze=False)[0]
        shown: Any = None
        for axes, unit in zip(panels, units, strict=True):
            shown = axes.imshow(
                ages[:steps, :steps, unit].T,
                origin="lower",
                extent=(*edges, *edges),
                aspect="auto",
                cmap=style.HEAT,
                vmin=0,
                vmax=1,
            )
            axes.plot(edges, edges, color=style.FAINT, linewidth=0.8, linestyle=style.DASHES[1])
            axes.set(xlabel="step", title=f"unit {unit}", xlim=edges, ylim=(0.5, max(oldest, 5) + 0.5))
            axes.tick_params(length=0)
        panels[0].set_ylabel("last reset, steps ago")
        bar = figure.colorbar(shown, ax=panels, label="probability", pad=0.02)
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
        bar.ax.tick_params(length=0)


def write_switching_study(study: SwitchingStudy, folder: str | Path) -> None:
    """Write switching.csv, one row a level, and switching.png into a folder that is made where there is none."""
    folder = Path(folder)
    make_folder(folder)
    write_text(to_csv(study.frame), folder / "switching.csv")
    plot_switching_study(study, folder / "switching.png")


def plot_switching_study(study: SwitchingStudy, path: str | Path) -> None:
    """Draw how far each rule is from exact inference against what an observation tells about the switch.

    Points are means over sequences, bars their standard errors.
    """
    with style.canvas(path, 9.4, 3.8) as figure:
        left, right = figure.subplots(1, 2)
        _draw_gaps(left, study, RULES, style.COLOURS[:3])
        left.set(title="From the exact belief over the state", ylabel="KL divergence, nats per step")
        _draw_gaps(right, study, BOUNDS, (style.COLOURS[0], style.COLOURS[3]))
        right.set(title="What a bound on log p(x) lacks", ylabel="nats per step")


def _draw_gaps(axes: "Axes", study: SwitchingStudy, names: Mapping[str, str], colours: Sequence[str]) -> None:
    information = study.frame["information"].to_numpy()
    for (name, label), colour in zip(names.items(), colours, strict=True):
        values, errors = study.frame[name].to_numpy(), study.frame[f"{name}_error"].to_numpy()
        axes.errorbar(information, values, errors, color=colour, label=label, marker="o", markersize=3.5, capsize=2)
    axes.axvline(information[-1], color=style.FAINT, linewidth=0.8, linestyle=style.DASHES[1])
    axes.annotate(
        "x tells z", (information[-1], 0.98), (-4, 0), ("data", "axes fraction"), "offset points", ha="right", va="top",
        color=style.FAINT, fontsize=8.5,
    )  # fmt: skip
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_xlabel("I(x; z), what an observation tells about the switch, nats")
    axes.legend(loc="upper right", bbox_to_anchor=(0.93, 0.93), handlelength=1.4)
    style.grid(axes)
