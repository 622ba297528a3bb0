"""One quiet look for all plots: colours that colour-blind people can tell apart, few lines, clear labels."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenstate.core import FileError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#222222"
FAINT = "#8a8a8a"
MAIN = "#0072B2"
ACCENT = "#D55E00"
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#5B4B8A",
    "#B0003A", "#7D8A00", "#12B5B0", "#1D2B6B",
)  # fmt: skip
"""Okabe and Ito (2008), without yellow and black, and six more."""

APART = 8
"""So many colours are told apart by all readers: those behind them are drawn with another mark, too."""

GREYS = ("#6b6b6b", "#9a9a9a", "#c0c0c0", "#4a4a4a")
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (8, 2, 1, 2)), (0, (10, 3)))
MARKERS = ("o", "D", "s", "^")
HATCHES = (None, "//////", "------", "\\\\\\\\\\\\")
"""How lines, points and bars of the same colour differ: one for each mark."""

BAND = 0.2
"""How opaque a band is."""

HEAT = "Blues"
SIGNED = "PuOr"
FORMS = (".png", ".pdf", ".svg")

_SETTINGS: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#b5b5b5",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": "#b5b5b5",
    "ytick.color": "#b5b5b5",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "hiddenstate",
}


@contextmanager
def canvas(path: str | Path, width: float, height: float) -> Iterator["Figure"]:
    """A figure of that size in inches, to draw on; it is written to `path` in the end."""
    import matplotlib
    from matplotlib.figure import Figure

    path = Path(path)
    check_ending(path)
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        try:
            figure.savefig(path)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}.") from None


def check_ending(path: Path) -> None:
    """FileError if a plot cannot be written in the form that the path's ending says."""
    if path.suffix.lower() not in FORMS:
        raise FileError(f"cannot write {path}: a plot is written as {', '.join(FORMS)}.")


def colours(names: Iterable[str], baselines: Iterable[str] = ()) -> dict[str, str]:
    """A colour for each model, the same in every plot: greys for baselines."""
    grey = set(baselines)
    bright = [name for name in sorted(names) if name not in grey]
    found = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(bright)}
    return found | {name: GREYS[i % len(GREYS)] for i, name in enumerate(sorted(grey))}


def grid(axes: "Axes", axis: str = "y") -> None:
    """Faint lines to read values by."""
    axes.grid(axis=axis, color="#e6e6e6", linewidth=0.8)  # pyright: ignore[reportArgumentType]
    axes.tick_params(length=0)


def coordinates(places: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Points as `scatter` takes them; there may be none."""
    points = list(places)
    return [x for x, _ in points], [y for _, y in points]


def label_ends(axes: "Axes", ends: list[tuple[float, str, str]]) -> None:
    """Names at the ends of the lines, moved apart so that none covers another."""
    if not ends:
        return
    low, high = axes.get_ylim()
    ends = sorted((max(value, low), name if value >= low else f"{name} ↓", colour) for value, name, colour in ends)
    places = _apart([value for value, _, _ in ends], 0.052 * (high - low))
    for place, (_, name, colour) in zip(places, ends, strict=True):
        axes.annotate(
            name,
            (1.01, place),
            xycoords=("axes fraction", "data"),
            color=colour,
            va="center",
            annotation_clip=False,
        )


def _apart(values: list[float], gap: float) -> list[float]:
    """Places at least `gap` apart for sorted values: those too close share a block around their mean."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value])
        while len(blocks) > 1 and _edge(blocks[-1], -gap) < _edge(blocks[-2], gap) + gap:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [_edge(block, -gap) + i * gap for block in blocks for i in range(len(block))]


def _edge(block: list[float], gap: float) -> float:
    return float(np.mean(block)) + gap * (len(block) - 1) / 2


def one_legend(places: Iterable["Axes"]) -> None:
    """Panels that would say the same say it once."""
    said = set()
    for axes in places:
        legend = axes.get_legend()
        if legend is not None:
            words = tuple(text.get_text() for text in legend.get_texts())
            if words in said:
                legend.remove()
            said.add(words)
