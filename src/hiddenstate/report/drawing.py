"""Charts drawn by matplotlib, into files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenstate.report import style
from hiddenstate.report.charts import Arrows, Band, Bars, Chart, Heat, Layer, Line, Points, Rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 4.9, 3.5


def draw_charts(charts: Sequence[Chart], path: str | Path, *, columns: int = 2) -> None:
    """Draw charts side by side, so many in a row, into a file (.png, .svg, .pdf)."""
    columns = min(columns, len(charts))
    rows = -(-len(charts) // columns)
    with style.canvas(path, WIDTH * columns, HEIGHT * rows) as figure:
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for place, chart in zip(places, charts, strict=False):
            draw_chart(place, chart)
        for place in places[len(charts) :]:
            place.set_visible(False)


def draw_chart(axes: "Axes", chart: Chart) -> None:
    """Draw one chart on axes of matplotlib's."""
    for layer in chart.layers:
        _DRAW[type(layer)](axes, layer)
    axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y, xscale=chart.x_scale, yscale=chart.y_scale)
    if any(layer.name for layer in chart.layers):
        axes.legend(loc="best", handlelength=1.6)
    if any(isinstance(layer, Heat | Arrows) for layer in chart.layers):
        axes.tick_params(length=0)
    else:
        style.grid(axes)


def colour_of(layer: Layer) -> str:
    """The colour of a layer, as matplotlib and a page name it."""
    match layer.colour:
        case "ink":
            return style.INK
        case "grey":
            return style.FAINT
        case number:
            return style.COLOURS[number % len(style.COLOURS)]


def _named(layer: Layer) -> dict[str, Any]:
    return {"color": colour_of(layer), "label": layer.name or None}


def _line(axes: "Axes", layer: Line) -> None:
    look = {
        "linestyle": style.DASHES[1 if layer.dashed else 0],
        "marker": "o" if layer.marks else None,
        "markersize": 3.5,
    }
    if layer.errors is None:
        axes.plot(layer.x, layer.y, **look, **_named(layer))
    else:
        axes.errorbar(layer.x, layer.y, layer.errors, capsize=2, **look, **_named(layer))


def _band(axes: "Axes", layer: Band) -> None:
    axes.fill_between(layer.x, layer.low, layer.high, alpha=0.2, linewidth=0, **_named(layer))


def _points(axes: "Axes", layer: Points) -> None:
    if layer.values is not None:
        axes.scatter(layer.x, layer.y, c=layer.values, s=12, cmap="viridis", label=layer.name or None)
        return
    if layer.errors is not None:
        axes.errorbar(layer.x, layer.y, layer.errors, fmt="none", color=colour_of(layer), capsize=2)
    axes.scatter(layer.x, layer.y, s=12, **_named(layer))


def _bars(axes: "Axes", layer: Bars) -> None:
    axes.bar(
        list(layer.names), np.asarray(layer.values, float), yerr=layer.errors, capsize=2, width=0.65, **_named(layer)
    )
    if len(layer.names) > 6 or max(map(len, layer.names)) > 8:
        axes.tick_params(axis="x", labelrotation=30)


def _rule(axes: "Axes", layer: Rule) -> None:
    draw = axes.axhline if layer.axis == "y" else axes.axvline
    draw(layer.at, linewidth=1, linestyle=style.DASHES[1], **_named(layer))


def _heat(axes: "Axes", layer: Heat) -> None:
    shown = axes.pcolormesh(np.asarray(layer.x), np.asarray(layer.y), np.asarray(layer.values, float), cmap=style.HEAT)
    figure: Any = axes.figure
    bar = figure.colorbar(shown, ax=axes, label=layer.label, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _arrows(axes: "Axes", layer: Arrows) -> None:
    axes.quiver(
        layer.x, layer.y, layer.dx, layer.dy, angles="xy", scale_units="xy", scale=1, width=0.003, **_named(layer)
    )


_DRAW: dict[type, Any] = {
    Line: _line,
    Band: _band,
    Points: _points,
    Bars: _bars,
    Rule: _rule,
    Heat: _heat,
    Arrows: _arrows,
}
