"""What the best model expected at each held-out step, beside what came."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Sequences
from hiddenstate.inference import predictive
from hiddenstate.learn.compare import Comparison
from hiddenstate.report import style
from hiddenstate.report.forecasts import symbol_names
from hiddenstate.report.tables import visible
from hiddenstate.report.windows import observed_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_STEPS = 200
MOST_COLUMNS = 4
MOST_SYMBOLS = 24
DRAWS = 2000


def plot_predictions(comparison: Comparison, path: str | Path, *, key: PRNGKeyArray) -> None:
    """Draw the longest held-out part with the best model's one-step predictions; `key` samples the bands."""
    from matplotlib.ticker import MaxNLocator

    best = comparison.rows[0]
    data, first = _part(comparison.test)
    steps = np.arange(first, data.length)
    expected = predictive(comparison.models[best.model], data)
    columns = data.schema.columns[:MOST_COLUMNS]
    drawn = np.asarray(expected.sample(key, (DRAWS,)))[:, 0, first:]
    heights = [max(2.6, 0.17 * min(column.size, MOST_SYMBOLS)) for column in columns]
    with style.canvas(path, 8.5, 0.8 + sum(heights)) as figure:
        places = figure.subplots(len(columns), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
        for i, (column, axes) in enumerate(zip(columns, places, strict=True)):
            draws, values = drawn if data.schema.scalar else drawn[..., i], observed_values(data, 0, i)[first:]
            if column.kind == "symbol":
                probs = _probs(expected, column.size, first) if data.schema.scalar else _frequencies(draws, column.size)
                image = _draw_symbols(axes, steps, values, probs, symbol_names(column))
                figure.colorbar(image, ax=axes, label="predicted probability", pad=0.02, aspect=15)
            elif column.kind == "bit":
                _draw_bits(axes, steps, values, draws.mean(0))
            else:
                _draw_band(axes, steps, values, draws)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_ylabel(column.name)
        style.one_legend(places)
        dots = "; dots: what came" if columns[0].kind == "symbol" else ""
        title = f"{best.model}: each step predicted from those before it{dots}"
        places[0].set_title(title, pad=22 if places[0].get_legend() else 8)
        places[-1].set_xlabel(f"step of {data.names[0]}")


def _part(test: Sequences) -> tuple[Sequences, int]:
    """The sequence with most held-out steps, cut to where the plot ends, and the first step to show."""
    starts = np.zeros(len(test), int) if test.context is None else test.context
    chosen = int(np.argmax(test.lengths - starts))
    first = int(starts[chosen])
    stop = min(int(test.lengths[chosen]), first + MOST_STEPS)
    return test[[chosen]].window(0, stop), first


def _probs(expected: Any, size: int, first: int) -> np.ndarray:
    """The probability of each symbol, (step, symbol)."""
    codes = np.arange(size)[:, None, None]
    return np.exp(np.asarray(expected.log_prob(codes))[:, 0, first:]).T


def _frequencies(draws: np.ndarray, size: int) -> np.ndarray:
    return (draws[..., None] == np.arange(size)).mean(0)


def _draw_band(axes: "Axes", steps: np.ndarray, values: np.ndarray, draws: np.ndarray) -> None:
    low, high = np.quantile(draws, (0.05, 0.95), axis=0)
    axes.fill_between(steps, low, high, color=style.MAIN, alpha=0.2, linewidth=0, label="90% of the prediction")
    axes.plot(steps, draws.mean(0), color=style.MAIN, label="predicted mean")
    inside = (values >= low) & (values <= high)
    axes.plot(steps, values, "o", color=style.INK, markersize=3.2, label="observed")
    axes.plot(
        steps[~inside],
        values[~inside],
        "o",
        color=style.ACCENT,
        markersize=4,
        label="observed, outside the 90%",
    )
    axes.margins(x=0.01)
    style.grid(axes)
    axes.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderpad=0, columnspacing=1.2, handletextpad=0.5)


def _draw_bits(axes: "Axes", steps: np.ndarray, values: np.ndarray, probs: np.ndarray) -> None:
    axes.plot(steps, probs, color=style.MAIN, label="predicted probability of 1")
    axes.plot(steps, values, "|", color=style.INK, markersize=7, label="observed")
    axes.set_ylim(-0.08, 1.08)
    axes.margins(x=0.01)
    style.grid(axes)
    axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1), borderpad=0)


def _draw_symbols(
    axes: "Axes", steps: np.ndarray, values: np.ndarray, probs: np.ndarray, names: tuple[str, ...]
) -> Any:
    """A heat map of the symbols' probabilities over the steps, with a dot at each symbol that came."""
    count = min(len(steps), 80)
    steps, values, probs = steps[:count], values[:count], probs[:count]
    there = ~np.isnan(values)
    came = values[there].astype(int)
    usual = np.argsort(-(np.bincount(came, minlength=len(names)) + probs.mean(0)), kind="stable")
    shown = np.sort(usual[:MOST_SYMBOLS])
    rows = {code: row for row, code in enumerate(shown)}
    edges = (steps[0] - 0.5, steps[-1] + 0.5, len(shown) - 0.5, -0.5)
    image = axes.imshow(
        probs[:, shown].T,
        aspect="auto",
        extent=edges,
        cmap=style.HEAT,
        vmin=0,
        vmax=1,
        interpolation="nearest",
    )
    marks = [(step, rows[code]) for step, code in zip(steps[there], came, strict=True) if code in rows]
    axes.scatter(*style.coordinates(marks), s=12, facecolor="white", edgecolor=style.INK, linewidth=0.6)
    axes.set_yticks(range(len(shown)), [visible(names[code]) for code in shown])
    axes.tick_params(length=0)
    return image
