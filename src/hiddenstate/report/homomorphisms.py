"""How networks come to do what the forward algorithm does, while they learn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect import Homomorphism
from hiddenstate.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_homomorphisms(found: Mapping[int, Sequence[Homomorphism]], path: str | Path) -> None:
    """Draw residuals and divergences against the number of updates, at each of which there are one or more networks.

    Lines are medians over the networks, bands go from the least to the most.
    """
    if not found or not all(found.values()):
        raise HiddenStateError(
            "found holds no homomorphism at some number of updates; it must hold one or more at each."
        )
    updates = sorted(found)
    with style.canvas(path, 9.6, 3.8) as figure:
        left, right = figure.subplots(1, 2)
        residuals = {
            r"C.1  $\phi(b_1) = h_1$": [[one.start.relative for one in found[n]] for n in updates],
            r"C.2  $\phi(\tilde{f}_x(b)) = f_x(\phi(b))$": [[one.update.relative for one in found[n]] for n in updates],
            r"C.3  $\tilde{g}(b) = g(\phi(b))$": [[one.readout.relative for one in found[n]] for n in updates],
        }
        _draw(left, updates, residuals, style.COLOURS[:3])
        left.set(ylabel="distance / spread", title="How far the conditions are missed")
        divergences = {
            "the network": [[one.network_divergence for one in found[n]] for n in updates],
            r"its read-out of $\phi(b)$": [[one.image_divergence for one in found[n]] for n in updates],
        }
        _draw(right, updates, divergences, style.COLOURS[3:])
        right.set(ylabel="nats per step", title="What is lost against the forward algorithm")


def _draw(axes: "Axes", updates: list[int], lines: Mapping[str, list[list[float]]], colours: Sequence[str]) -> None:
    """Lines with bands on logarithmic axes; nothing learned yet stands at the left end."""
    first = next((n for n in updates if n > 0), 1)
    for (name, values), colour in zip(lines.items(), colours, strict=False):
        middle, low, high = (np.array([pick(each) for each in values]) for pick in (np.median, np.min, np.max))
        axes.fill_between(updates, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(updates, middle, color=colour, marker="o", markersize=3.5, label=name)
    axes.set_yscale("log")
    axes.set_xscale("symlog", linthresh=first, linscale=0.4)
    axes.set_xticks(updates, [str(n) for n in updates])
    axes.set_xlim(updates[0] - 0.15 * first, 1.15 * updates[-1])
    axes.minorticks_off()
    axes.set_xlabel("updates")
    axes.legend(loc="lower left")
    style.grid(axes)
