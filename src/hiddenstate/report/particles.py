"""How many particles count and how far apart they are, over time."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hiddenstate.inspect import Diversity
from hiddenstate.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_particles(found: Mapping[str, Diversity], path: str | Path) -> None:
    """Draw the effective number of particles and the distance between them, of one or several models by their names.

    Lines are means over sequences, and bands hold the middle half of them.
    """
    from matplotlib.ticker import MaxNLocator

    colour = style.colours(found)
    with style.canvas(path, 8.5, 3.4) as figure:
        left, right = figure.subplots(1, 2)
        for name, diversity in found.items():
            _draw(left, diversity.effective_number, colour[name], name)
            _draw(right, diversity.distance, colour[name], name)
        most = max(diversity.responsibilities.shape[-1] for diversity in found.values())
        left.set_ylim(0.9, most + 0.1)
        right.set_ylim(bottom=0)
        left.set_title("Particles that explain an observation", fontsize=9.5)
        left.set_ylabel("effective number")
        right.set_title("How far apart they are before it", fontsize=9.5)
        right.set_ylabel("mean distance")
        for axes in (left, right):
            axes.set_xlabel("step")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            style.grid(axes)
        if len(found) > 1:
            left.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1.08), handlelength=1.4)


def _draw(axes: "Axes", values: np.ndarray, colour: str, name: str) -> None:
    steps = np.arange(1, values.shape[1] + 1)
    low, high = np.nanquantile(values, (0.25, 0.75), axis=0)
    axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(steps, np.nanmean(values, axis=0), color=colour, label=name)
