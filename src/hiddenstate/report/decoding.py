"""Hidden states beside the data: as columns of a table, in a summary, and as bands behind the series."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from hiddenstate.core import Sequences
from hiddenstate.report import style
from hiddenstate.report.forecasts import symbol_names
from hiddenstate.report.tables import visible
from hiddenstate.report.windows import observed_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SEQUENCES = 4
MOST_COLUMNS = 3
MOST_STEPS = 1500
MOST_SYMBOLS = 12


def state_columns(states: np.ndarray, marginals: np.ndarray, data: Sequences, taken: Any = ()) -> pl.DataFrame:
    """A row for each step of each sequence: the most likely state, and the probability of every state.

    `states` (sequence, time) and `marginals` (sequence, time, state) are those of `hs.most_likely_states` and
    `hs.smooth`; names that are `taken` get a line behind them.
    """
    inside = data.valid
    columns = {"state": np.asarray(states)[inside].astype(np.int64)}
    probs = np.asarray(marginals)[inside].astype(np.float64)
    columns |= {f"p_state_{k}": probs[:, k] for k in range(probs.shape[1])}
    return pl.DataFrame(_free(columns, taken))


def belief_columns(mean: np.ndarray, covariance: np.ndarray, data: Sequences, taken: Any = ()) -> pl.DataFrame:
    """The same for a state that is a vector of numbers: mean and standard deviation of each of them."""
    inside = data.valid
    means = np.asarray(mean)[inside].astype(np.float64)
    deviations = np.sqrt(np.maximum(np.diagonal(np.asarray(covariance), axis1=-2, axis2=-1)[inside], 0.0))
    columns = {}
    for k in range(means.shape[1]):
        columns |= {f"state_{k}_mean": means[:, k], f"state_{k}_sd": deviations[:, k].astype(np.float64)}
    return pl.DataFrame(_free(columns, taken))


def _free(columns: dict[str, Any], taken: Any) -> dict[str, Any]:
    mark = ""
    while any(name + mark in taken for name in columns):
        mark += "_"
    return {name + mark: column for name, column in columns.items()}


def state_summary(states: np.ndarray, marginals: np.ndarray, data: Sequences) -> pl.DataFrame:
    """How long each state lasts: its share of all steps, how often it is entered, and how long it stays."""
    count = np.asarray(marginals).shape[-1]
    steps, visits = np.zeros(count, int), np.zeros(count, int)
    for row, length in zip(np.asarray(states), data.lengths, strict=True):
        path = row[:length]
        steps += np.bincount(path, minlength=count)
        entered = path[np.append(True, path[1:] != path[:-1])]
        visits += np.bincount(entered, minlength=count)
    expected = np.asarray(marginals)[data.valid].mean(axis=0)
    return pl.DataFrame(
        {
            "state": np.arange(count),
            "steps": steps,
            "share": steps / steps.sum(),
            "smoothed_share": expected.astype(np.float64),
            "visits": visits,
            "mean_stay": [s / v if v else None for s, v in zip(steps.tolist(), visits.tolist(), strict=True)],
        }
    )


# -- the plot ------------------------------------------------------------------------------------------------


def plot_states(states: np.ndarray, marginals: np.ndarray, data: Sequences, path: str | Path) -> None:
    """Draw the first sequences with bands of the most likely states behind them and the probabilities below."""
    states, marginals = np.asarray(states), np.asarray(marginals)
    shown = range(min(len(data), MOST_SEQUENCES))
    columns = range(min(len(data.schema.columns), MOST_COLUMNS))
    count = marginals.shape[-1]
    colour = [style.COLOURS[k % len(style.COLOURS)] for k in range(count)]
    heights = [h for _ in shown for h in (*[_height(data, c) for c in columns], 0.75)]
    with style.canvas(path, 8, 0.75 + sum(heights) + 0.12 * len(shown)) as figure:
        axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        places = iter(axes)
        for sequence in shown:
            length = min(int(data.lengths[sequence]), MOST_STEPS)
            for column in columns:
                place = next(places)
                _bands(place, states[sequence, :length], colour)
                _series(place, data, sequence, column, length)
                place.tick_params(labelbottom=False)
                if column == 0:
                    cut = f", the first {length:,} of {data.lengths[sequence]:,} steps"
                    place.set_title(_name(data, sequence) + (cut if length < data.lengths[sequence] else ""))
            place = next(places)
            _probabilities(place, marginals[sequence, :length], colour)
        axes[-1].set_xlabel("step")
        _legend(axes[0], states, data, colour)


def _name(data: Sequences, sequence: int) -> str:
    column = data.schema.sequence
    return data.names[sequence] if column is None else f"{column} {data.names[sequence]}"


def _height(data: Sequences, column: int) -> float:
    described = data.schema.columns[column]
    return min(1.0 + 0.14 * described.size, 2.0) if described.kind == "symbol" else 1.7


def _bands(axes: "Axes", path: np.ndarray, colour: list[str]) -> None:
    """A light band for every stay in a state."""
    edges = np.flatnonzero(np.append(True, path[1:] != path[:-1]))
    for start, stop in zip(edges, np.append(edges[1:], len(path)), strict=True):
        axes.axvspan(start + 0.5, stop + 0.5, color=colour[path[start]], alpha=0.22, linewidth=0, zorder=0)
    axes.set_xlim(0.5, len(path) + 0.5)


def _series(axes: "Axes", data: Sequences, sequence: int, column: int, length: int) -> None:
    described = data.schema.columns[column]
    values = observed_values(data, sequence, column)[:length]
    steps = np.arange(1, length + 1)
    if described.kind == "symbol":
        axes.scatter(steps, values, color=style.INK, s=max(1.5, min(10, 2000 / length)), linewidth=0)
        names = symbol_names(described)
        if len(names) <= MOST_SYMBOLS:
            axes.set_yticks(range(len(names)), [visible(name) for name in names])
        axes.set_ylim(-0.6, len(names) - 0.4)
    else:
        thin = 1.2 if length <= 400 else 0.7
        axes.plot(steps, values, color=style.INK, linewidth=thin)
        alone = np.isfinite(values) & ~np.isfinite(np.roll(values, 1)) & ~np.isfinite(np.roll(values, -1))
        axes.plot(steps[alone], values[alone], ".", color=style.INK, markersize=3)
    axes.set_ylabel(described.name)
    axes.tick_params(length=0)


def _probabilities(axes: "Axes", marginals: np.ndarray, colour: list[str]) -> None:
    """The smoothed probabilities, one on top of the other."""
    steps = np.arange(len(marginals) + 1) + 0.5
    held = np.concatenate([marginals, marginals[-1:]])
    axes.stackplot(steps, held.T, colors=colour, step="post", linewidth=0)
    axes.set_xlim(0.5, len(marginals) + 0.5)
    _whole_steps(axes)
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 1])
    axes.set_ylabel("p(state)")
    axes.tick_params(length=0)


def _legend(axes: "Axes", states: np.ndarray, data: Sequences, colour: list[str]) -> None:
    from matplotlib.patches import Patch

    share = percents(np.bincount(states[data.valid], minlength=len(colour)))
    patches = [Patch(color=c, alpha=0.6, label=f"state {k}: {share[k]}%") for k, c in enumerate(colour)]
    axes.legend(
        handles=patches,
        ncols=min(len(patches), 6),
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderpad=0,
        handlelength=1,
        columnspacing=1.2,
    )


def percents(counts: np.ndarray) -> list[int]:
    """Shares in whole percents that sum to a hundred: those are rounded up that lose most otherwise."""
    exact = 100 * counts / counts.sum()
    whole = np.floor(exact).astype(int)
    missing = 100 - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole.tolist()


def _whole_steps(axes: "Axes") -> None:
    """Steps along x are whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def plot_beliefs(mean: np.ndarray, covariance: np.ndarray, data: Sequences, path: str | Path) -> None:
    """Draw the first sequences and below each the smoothed state, with two standard deviations."""
    mean = np.asarray(mean)
    deviations = np.sqrt(np.maximum(np.diagonal(np.asarray(covariance), axis1=-2, axis2=-1), 0.0))
    shown = range(min(len(data), MOST_SEQUENCES))
    columns = range(min(len(data.schema.columns), MOST_COLUMNS))
    heights = [h for _ in shown for h in (*[1.5 for _ in columns], 1.5)]
    count = min(mean.shape[-1], len(style.COLOURS))
    with style.canvas(path, 8, 0.75 + sum(heights)) as figure:
        axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        places = iter(axes)
        for sequence in shown:
            length = min(int(data.lengths[sequence]), MOST_STEPS)
            steps = np.arange(1, length + 1)
            for column in columns:
                place = next(places)
                _series(place, data, sequence, column, length)
                place.set_xlim(0.5, length + 0.5)
                place.tick_params(labelbottom=False)
                if column == 0:
                    place.set_title(_name(data, sequence))
            place = next(places)
            for k in range(count):
                centre, spread = mean[sequence, :length, k], 2 * deviations[sequence, :length, k]
                place.fill_between(
                    steps, centre - spread, centre + spread, color=style.COLOURS[k], alpha=0.2, linewidth=0
                )
                place.plot(steps, centre, color=style.COLOURS[k], linewidth=1.2, label=f"state {k}")
            place.set_xlim(0.5, length + 0.5)
            _whole_steps(place)
            place.set_ylabel("state")
            style.grid(place)
            if sequence == 0:
                place.legend(ncols=min(count, 6), loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)
        axes[-1].set_xlabel("step")
