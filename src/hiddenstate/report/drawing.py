"""Charts drawn by matplotlib, into files."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenstate.report import style
from hiddenstate.report.charts import Arrows, Band, Bars, Chart, Heat, Layer, Line, Points, Rule
from hiddenstate.report.page import Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

WIDTH, HEIGHT = 4.9, 3.7
ROW = 66
"""So many letters stand beside each other above a chart."""

FEW_POWERS = 300.0
"""A logarithmic axis whose end is less than so many times its beginning has few powers of ten."""


def draw_charts(charts: Sequence[Chart], path: str | Path, *, columns: int = 2, width: float = WIDTH) -> None:
    """Draw charts side by side, so many in a row and each of so many inches, into a file (.png, .svg, .pdf)."""
    columns = min(columns, len(charts))
    rows = -(-len(charts) // columns)
    with style.canvas(path, width * columns, HEIGHT * rows) as figure:
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for place, chart in zip(places, charts, strict=False):
            draw_chart(place, chart)
        for place in places[len(charts) :]:
            place.set_visible(False)


def draw_sections(sections: Sequence[Section], folder: str | Path, form: str) -> list[Path]:
    """Draw the charts of every section of a page, of slides the first, into one file a section; where they went."""
    paths = []
    for section in sections:
        charts = [*section.charts, *(chart for slides in section.slides for chart in slides.charts[0])]
        if charts:
            paths.append(Path(folder) / f"{re.sub(r'[^a-z0-9]+', '-', section.title.lower()).strip('-')}.{form}")
            draw_charts(charts, paths[-1])
    return paths


def draw_chart(axes: "Axes", chart: Chart) -> None:
    """Draw one chart on axes of matplotlib's."""
    from matplotlib.ticker import MaxNLocator

    sides = [layer for layer in chart.layers if isinstance(layer, Bars)]
    axes.set(xscale=chart.x_scale, yscale=chart.y_scale)  # before the layers: setting a scale forgets names of bars
    for layer in chart.layers:
        if isinstance(layer, Bars):
            _bars(axes, layer, sides.index(layer), len(sides))
        else:
            _DRAW[type(layer)](axes, layer)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    fixed = any(limit is not None for limit in (*chart.x_limits, *chart.y_limits))
    if fixed or not chart.equal:
        axes.set_xlim(*chart.x_limits)
        axes.set_ylim(*chart.y_limits)
    if chart.equal:
        axes.set_aspect("equal", adjustable="box" if fixed else "datalim")
    elif chart.whole and isinstance(locator := axes.xaxis.get_major_locator(), MaxNLocator):
        locator.set_params(integer=True)
    for axis, scale in ((axes.xaxis, chart.x_scale), (axes.yaxis, chart.y_scale)):
        if scale == "log":
            _mark_powers(axis)
    _name_axes(axes, chart)
    _entitle(axes, chart)
    if any(isinstance(layer, Heat | Arrows) for layer in chart.layers):
        axes.tick_params(length=0)
    elif chart.y_names is not None:
        style.grid(axes, "x")
    else:
        style.grid(axes)


def _mark_powers(axis: "Axis") -> None:
    """Numbers along a logarithmic axis that do not meet: powers of ten, with 2 and 5 between where there are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if 0 < low < high < FEW_POWERS * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _entitle(axes: "Axes", chart: Chart) -> None:
    """The title, and between it and the chart the legend, where it can cover nothing."""
    names = list(dict.fromkeys(layer.name for layer in chart.layers if layer.name))
    columns = max(1, min(len(names), ROW // (max(map(len, names), default=0) + 5)))
    rows = -(-len(names) // columns)
    axes.set_title(chart.title, pad=8 + 14 * rows)
    if names:
        axes.legend(
            *_signs(axes, chart),
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=columns,
            borderaxespad=0.2,
            borderpad=0.2,
            handlelength=1.6,
        )


def _signs(axes: "Axes", chart: Chart) -> tuple[list[Any], list[str]]:
    """What stands in the legend: bands in the colours that they have where they lie within others."""
    from matplotlib.patches import Patch

    handles, labels = axes.get_legend_handles_labels()
    signs = dict(zip(labels, handles, strict=True))
    for layer in chart.layers:
        if isinstance(layer, Band) and layer.name:
            signs[layer.name] = Patch(
                color=colour_of(layer), alpha=1 - (1 - style.BAND) ** (layer.within + 1), linewidth=0
            )
    return list(signs.values()), list(signs)


def _name_axes(axes: "Axes", chart: Chart) -> None:
    """Names in place of numbers; on the y axis from the top."""
    if chart.x_names is not None:
        axes.set_xticks(range(len(chart.x_names)), list(chart.x_names))
        _turn_long(axes, chart.x_names)
    if chart.y_names is not None:
        axes.set_yticks(range(len(chart.y_names)), list(chart.y_names))
        axes.set_ylim(len(chart.y_names) - 0.5, -0.5)


def _turn_long(axes: "Axes", names: Sequence[str]) -> None:
    if len(names) > 6 or max(map(len, names), default=0) > 8:
        for label in axes.get_xticklabels():  # each ends below its bar, so that long ones do not meet
            label.set(rotation=30, ha="right", rotation_mode="anchor")


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


def _dashes(layer: Line | Rule) -> int:
    """Which dashes a line has by its mark: those of rules are never solid."""
    least = 1 if isinstance(layer, Rule) else 0
    number = max(layer.mark, 1) if isinstance(layer, Line) and layer.dashed else layer.mark
    return least + number % (len(style.DASHES) - least)


def _line(axes: "Axes", layer: Line) -> None:
    look = {
        "linestyle": style.DASHES[_dashes(layer)],
        "marker": "o" if layer.marks else None,
        "markersize": 3.5,
    }
    if layer.errors is None:
        axes.plot(layer.x, layer.y, **look, **_named(layer))
    else:
        axes.errorbar(layer.x, layer.y, layer.errors, capsize=2, **look, **_named(layer))


def _band(axes: "Axes", layer: Band) -> None:
    axes.fill_between(layer.x, layer.low, layer.high, alpha=style.BAND, linewidth=0, **_named(layer))


def _points(axes: "Axes", layer: Points) -> None:
    if layer.values is not None:
        axes.scatter(layer.x, layer.y, c=layer.values, s=12, cmap="viridis", label=layer.name or None)
        return
    if layer.errors is not None or layer.x_errors is not None:
        axes.errorbar(layer.x, layer.y, layer.errors, layer.x_errors, fmt="none", color=colour_of(layer), capsize=2)
    shape = style.MARKERS[layer.mark % len(style.MARKERS)]
    axes.scatter(layer.x, layer.y, s=12 if layer.mark == 0 else 18, marker=shape, **_named(layer))


def _bars(axes: "Axes", layer: Bars, side: int, sides: int) -> None:
    """The bars of one layer, beside those of the others."""
    width = 0.7 / sides
    places = np.arange(len(layer.names)) + (side - (sides - 1) / 2) * width
    hatch = style.HATCHES[layer.mark % len(style.HATCHES)]
    look = _named(layer) | ({"hatch": hatch, "edgecolor": "white", "linewidth": 0} if hatch else {})
    axes.bar(places, np.asarray(layer.values, float), yerr=layer.errors, capsize=2, width=width, **look)
    axes.set_xticks(range(len(layer.names)), list(layer.names))
    _turn_long(axes, layer.names)


def _rule(axes: "Axes", layer: Rule) -> None:
    draw = axes.axhline if layer.axis == "y" else axes.axvline
    draw(layer.at, linewidth=1, linestyle=style.DASHES[_dashes(layer)], **_named(layer))


def _heat(axes: "Axes", layer: Heat) -> None:
    values = np.asarray(layer.values, float)
    low, high = layer.limits or (None, None)
    if layer.signed and layer.limits is None and np.isfinite(values).any():
        high = float(np.nanmax(np.abs(values[np.isfinite(values)])))
        low = -high
    shown = axes.pcolormesh(
        np.asarray(layer.x), np.asarray(layer.y), values, cmap=style.SIGNED if layer.signed else style.HEAT,
        vmin=low, vmax=high,
    )  # fmt: skip
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
    Rule: _rule,
    Heat: _heat,
    Arrows: _arrows,
}
