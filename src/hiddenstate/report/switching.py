"""How long ago a network was reset, and how near its rule comes to exact inference in a switching model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect import Switching
from hiddenstate.report import style


def plot_ages(
    switching: Switching, data: Any, path: str | Path, *, sequence: int = 0, units: Sequence[int] = (0, 1, 2)
) -> None:
    """Draw the posterior over how long ago each of these units was reset, along one sequence, as a heat map a unit.

    Above the broken line there was no time for a reset: on it lies what is left of the initial state.
    """
    ages = switching.ages(data)[sequence]
    count = ages.shape[-1]
    if not units:
        raise HiddenStateError("units names none; at least one must be drawn.")
    for unit in units:
        if not 0 <= unit < count:
            raise HiddenStateError(f"units names {unit}; the cell has {count}, numbered from 0.")
    steps = int((~np.isnan(ages[:, 0, 0])).sum())
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
            axes.set(xlabel="step", title=f"unit {unit}", xlim=edges, ylim=edges)
            axes.tick_params(length=0)
        panels[0].set_ylabel("last reset, steps ago")
        bar = figure.colorbar(shown, ax=panels, label="probability", pad=0.02)
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
        bar.ax.tick_params(length=0)
