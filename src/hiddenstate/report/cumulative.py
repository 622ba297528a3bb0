"""Where in the held-out data a model gains on the best baseline."""

from pathlib import Path

import numpy as np

from hiddenstate.core import Sequences
from hiddenstate.learn.compare import Comparison
from hiddenstate.report import style


def plot_cumulative(comparison: Comparison, path: str | Path) -> None:
    """Draw how many nats each model has gained on the best baseline after every held-out step."""
    rows = [row for row in comparison.rows if np.isfinite(row.nats_per_step)]
    rival = next((row for row in rows if row.baseline), rows[-1])
    counted = scored(comparison.test)
    others = [row for row in rows if row is not rival and not row.baseline]
    colour = style.colours(comparison.models, [row.model for row in comparison.rows if row.baseline])
    against = comparison.step_nats[rival.model][counted]
    with style.canvas(path, 8, 4.2) as figure:
        axes = figure.subplots()
        steps = np.arange(len(against) + 1)
        axes.axhline(0, color=style.FAINT, linewidth=1.2, linestyle=(0, (4, 3)))
        ends = []
        for row in others:
            gained = np.concatenate([[0.0], np.cumsum(against - comparison.step_nats[row.model][counted])])
            axes.plot(steps, gained, color=colour[row.model], linewidth=1.4)
            ends.append((float(gained[-1]), row.model, colour[row.model]))
        ends.append((0.0, rival.model, style.FAINT))
        if len(comparison.test) <= 30:
            for edge in np.cumsum(counted.sum(1))[:-1]:
                axes.axvline(edge, color="#e6e6e6", linewidth=0.8, zorder=0)
        axes.set_xlim(0, len(against))
        lost, won = min(axes.get_ylim()[0], 0.0), max(end for end, _, _ in ends)
        if won > 0 and lost < -2 * won:
            axes.set_ylim(-won, 1.1 * won)
        style.label_ends(axes, ends)
        axes.set_xlabel("held-out steps" + (", sequence after sequence" if len(comparison.test) > 1 else ""))
        axes.set_ylabel(f"nats gained on {rival.model} (up is better)")
        style.grid(axes)


def scored(data: Sequences) -> np.ndarray:
    """True at the steps that count, (sequence, time)."""
    starts = np.zeros(len(data), int) if data.context is None else data.context
    return data.valid & (np.arange(data.length) >= starts[:, None])
