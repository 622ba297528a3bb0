"""How good a model's probabilities are, in words, as tables and as plots."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from hiddenstate.learn import Classified, Evaluation, Predicted, Score
from hiddenstate.learn.metrics import LEVELS, Reliability
from hiddenstate.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def score_words(score: Score) -> str:
    """The score of answers in words."""
    count = f"{score.steps:,} answer{'' if score.steps == 1 else 's'}"
    return f"{score.rate()} nats per answer ({count})"


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """What was found of predictions one step ahead, a line each, for every column."""
    lines = []
    for name, found in evaluation.columns.items():
        if len(evaluation.columns) > 1:
            lines.append(f"{name}:")
        lines += _classified(found) if isinstance(found, Classified) else _predicted(found)
    return lines


def _classified(found: Classified) -> list[str]:
    count = int((found.reliability[0].counts > 0).sum())
    bins = "1 bin" if count == 1 else f"{count} bins"
    return [
        f"accuracy         {found.accuracy[0]:.4f} (always the most frequent: {found.most_frequent[0]:.4f})",
        f"log-loss         {found.log_loss[0]:.6f} nats",
        f"Brier score      {found.brier[0]:.4f}",
        f"calibration      {found.calibration_error[0]:.4f} expected error, from {bins} of confidence",
    ]


def _predicted(found: Predicted) -> list[str]:
    shares = ", ".join(f"{share[0]:.1%} in the {level:.0%}" for level, share in found.coverage.items())
    return [
        f"CRPS             {found.crps[0]:.6g}",
        f"RMSE             {found.rmse[0]:.6g} (MAE {found.mae[0]:.6g})",
        f"coverage         {shares} interval",
    ]


def ahead_tables(evaluation: Evaluation) -> dict[str, pl.DataFrame]:
    """For each column a row for each number of steps ahead, with the metrics that its kind has."""
    parts = evaluation.frame().partition_by("column", as_dict=True, maintain_order=True)
    return {
        str(name): part.drop("column", *(s.name for s in part if s.null_count() == len(s)))
        for (name,), part in parts.items()
    }


# -- plots ---------------------------------------------------------------------------------------------------


def plot_evaluation(evaluation: Evaluation, path: str | Path) -> None:
    """Draw how calibrated the predictions are; of forecasts, how they fare with every step ahead."""
    draw = _draw_ahead if evaluation.horizon > 1 else _draw_calibration
    rows = list(evaluation.columns.items())
    with style.canvas(path, 8.2, 0.3 + 3.4 * len(rows)) as figure:
        places = figure.subplots(len(rows), 2, squeeze=False)
        for (name, found), pair in zip(rows, places, strict=True):
            draw(found, pair)
            if len(rows) > 1:
                pair[0].set_ylabel(f"{name}: {pair[0].get_ylabel()}")


def _draw_calibration(found: Classified | Predicted, places: Any) -> None:
    if isinstance(found, Classified):
        _draw_reliability(places[0], found.reliability[0], found)
        _draw_counts(places[1], found.reliability[0])
    else:
        _draw_intervals(places[0], found)
        _draw_places(places[1], found)


def _draw_reliability(axes: "Axes", bins: Reliability, found: Classified) -> None:
    """Bars of accuracy by confidence, and the gap to the diagonal of perfect calibration."""
    full = bins.counts > 0
    left, width = bins.edges[:-1][full], np.diff(bins.edges)[full]
    share, sure = bins.accuracy[full], bins.confidence[full]
    error = np.sqrt(np.maximum(share * (1 - share), 0.25 / bins.counts[full]) / bins.counts[full])
    axes.plot([0, 1], [0, 1], color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.bar(left, share, width, align="edge", color=style.MAIN, alpha=0.25, edgecolor="white", linewidth=0.8)
    axes.vlines(sure, share, sure, color=style.ACCENT, linewidth=1.4, label="gap to calibration", zorder=2)
    axes.errorbar(
        sure,
        share,
        error,
        fmt="o",
        color=style.MAIN,
        markersize=4.5,
        elinewidth=1,
        label="share right ± 1 s.e.",
        zorder=3,
    )
    axes.set_xlim(*_shown(bins))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("confidence: probability of the top label")
    axes.set_ylabel("share that was right")
    style.grid(axes)
    axes.set_title(f"accuracy {found.accuracy[0]:.3f}, calibration error {found.calibration_error[0]:.3f}", pad=22)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderpad=0, ncols=2, columnspacing=1.2, handletextpad=0.5)


def _shown(bins: Reliability) -> tuple[float, float]:
    """From the first bin that holds something: a top label of two never has less than a half."""
    first = int(np.flatnonzero(bins.counts)[0])
    return max(0.0, float(bins.edges[first]) - 0.02), 1.02


def _draw_counts(axes: "Axes", bins: Reliability) -> None:
    """How many predictions have each confidence."""
    axes.bar(bins.edges[:-1], bins.counts, np.diff(bins.edges), align="edge", color=style.MAIN, edgecolor="white")
    for left, width, count in zip(bins.edges[:-1], np.diff(bins.edges), bins.counts, strict=True):
        if count:
            axes.annotate(
                f"{count:,}", (left + width / 2, count), ha="center", va="bottom", fontsize=8, color=style.INK
            )
    axes.set_xlim(*_shown(bins))
    axes.margins(y=0.12)
    axes.set_title("how many predictions are so sure", pad=22)
    axes.set_xlabel("confidence: probability of the top label")
    axes.set_ylabel("predictions")
    style.grid(axes)


def _draw_intervals(axes: "Axes", found: Predicted) -> None:
    """How many observations fall into central intervals of every level."""
    levels = np.linspace(0, 1, 101)
    inside = 2 * np.abs(found.pit[0] - 0.5)
    share = (inside[:, None] <= levels).mean(axis=0)
    error = 2 * np.sqrt(levels * (1 - levels) / len(inside))
    axes.fill_between(
        levels, np.clip(levels - error, 0, 1), np.clip(levels + error, 0, 1), color=style.FAINT, alpha=0.2, linewidth=0,
        label="± 2 s.e. if steps were independent",
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)))
    axes.plot(levels, share, color=style.MAIN, label="observed")
    for level in LEVELS:
        axes.plot(level, found.coverage[level][0], "o", color=style.MAIN, markersize=4.5)
        axes.annotate(f"{found.coverage[level][0]:.0%} in {level:.0%}", (level, found.coverage[level][0]),
                      textcoords="offset points", xytext=(7, -11), fontsize=8)  # fmt: skip
    axes.set_xlim(0, 1.12)
    axes.set_ylim(0, 1.02)
    axes.set_title(f"CRPS {found.crps[0]:.4g}, RMSE {found.rmse[0]:.4g}")
    axes.set_xlabel("central interval of the prediction")
    axes.set_ylabel("share of observations inside")
    style.grid(axes)
    axes.legend(loc="upper left")


def _draw_places(axes: "Axes", found: Predicted) -> None:
    """Where observations lie in their predictions: flat, if these are right."""
    bins = 10
    counts, edges = np.histogram(found.pit[0], bins, (0, 1))
    due = len(found.pit[0]) / bins
    axes.bar(edges[:-1], counts, 1 / bins, align="edge", color=style.MAIN, edgecolor="white")
    axes.axhline(due, color=style.INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        "due", (1.01, due), xycoords=("axes fraction", "data"), va="center", fontsize=8, annotation_clip=False
    )
    axes.set_xlim(0, 1)
    axes.set_title("flat where predictions are right")
    axes.set_xlabel("place of the observation in its prediction (PIT)")
    axes.set_ylabel("observations")
    style.grid(axes)


def _draw_ahead(found: Classified | Predicted, places: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    steps = np.arange(1, len(found.counts) + 1)
    if isinstance(found, Classified):
        _draw_lines(places[0], steps, {"accuracy": found.accuracy})
        places[0].axhline(found.most_frequent.mean(), color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)))
        places[0].annotate("always the most frequent", (steps[-1], found.most_frequent.mean()), ha="right", va="bottom",
                           fontsize=8, color=style.FAINT)  # fmt: skip
        places[0].set_ylabel("share that was right")
        _draw_lines(places[1], steps, {"log-loss": found.log_loss})
        places[1].set_ylabel("log-loss in nats (lower is better)")
    else:
        _draw_lines(places[0], steps, {"CRPS": found.crps, "MAE of the median": found.mae})
        places[0].set_ylim(bottom=0)
        places[0].set_ylabel("score (lower is better)")
        places[0].legend(loc="lower right")
        _draw_coverage(places[1], steps, found)
    for axes in places:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("steps ahead")
        style.grid(axes)


def _draw_lines(axes: "Axes", steps: np.ndarray, lines: dict[str, np.ndarray]) -> None:
    for (name, values), colour in zip(lines.items(), style.COLOURS, strict=False):
        axes.plot(steps, values, "o-", color=colour, markersize=4, label=name)


def _draw_coverage(axes: "Axes", steps: np.ndarray, found: Predicted) -> None:
    """The share inside each interval, with the share that should be."""
    for level, colour in zip(found.coverage, style.COLOURS, strict=False):
        axes.axhline(level, color=colour, linewidth=1, linestyle=(0, (4, 3)), alpha=0.7)
        axes.plot(steps, found.coverage[level], "o-", color=colour, markersize=4)
        axes.annotate(f"{level:.0%}", (1.01, level), xycoords=("axes fraction", "data"), color=colour, va="center")
    axes.set_ylim(0, 1.02)
    axes.set_title("dashed: the share that should be inside")
    axes.set_ylabel("share of observations inside")
