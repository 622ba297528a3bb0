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
        _label_ends(axes, ends)
        axes.set_xlabel("held-out steps" + (", sequence after sequence" if len(comparison.test) > 1 else ""))
        axes.set_ylabel(f"nats gained on {rival.model} (up is better)")
        style.grid(axes)


def scored(data: Sequences) -> np.ndarray:
    """True at the steps that count, (sequence, time)."""
    starts = np.zeros(len(data), int) if data.context is None else data.context
    return data.valid & (np.arange(data.length) >= starts[:, None])


def _label_ends(axes, ends: list[tuple[float, str, str]]) -> None:
    """Names at the ends of the lines, moved apart so that none covers another."""
    ends = sorted(ends)
    low, high = axes.get_ylim()
    gap = 0.052 * (high - low)
    places = np.array([value for value, _, _ in ends])
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    places -= np.clip(places - np.array([v for v, _, _ in ends]), 0, None).mean()
    for place, (_, name, colour) in zip(places, ends, strict=True):
        axes.annotate(
            name,
            (1.01, place),
            xycoords=("axes fraction", "data"),
            color=colour,
            va="center",
            annotation_clip=False,
        )
