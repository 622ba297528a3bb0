"""Charts as plain descriptions, drawn in two ways: by matplotlib into a file, and in a page that a browser shows.

A chart is what a person would say of it: titles of its axes and a few layers. Both ways of drawing know the layers of
this file and nothing else, so that a picture in a page and its file show the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.report.style import APART

Numbers = Any
"""A sequence of numbers, one-dimensional unless said otherwise; NaN where there is nothing to draw."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """What all layers have: a name for the legend (none: not in it) and a colour.

    `colour` is a number, the place among the colours of all plots, or ``"ink"`` or ``"grey"``. Layers of one thing
    share it. `variant` numbers things of the same colour, which differ in their mark.
    """

    name: str = ""
    colour: int | Literal["ink", "grey"] = 0
    variant: int = 0

    @property
    def mark(self) -> int:
        """The number of the dashes of a line, the shape of points and the hatching of bars.

        It tells layers apart that the colours alone do not, to every reader.
        """
        return self.variant + (self.colour // APART if isinstance(self.colour, int) else 0)


@dataclass(frozen=True, eq=False)
class Line(Layer):
    """Values along x, joined by a line; `errors` are drawn as bars up and down, `marks` as dots."""

    x: Numbers
    y: Numbers
    errors: Numbers | None = None
    marks: bool = False
    dashed: bool = False


@dataclass(frozen=True, eq=False)
class Band(Layer):
    """The room between two lines, such as an interval of a forecast.

    `within` is how many bands of the same colour are drawn below it and around it, through which it looks deeper: its
    sign in the legend does, too.
    """

    x: Numbers
    low: Numbers
    high: Numbers
    within: int = 0


@dataclass(frozen=True, eq=False)
class Points(Layer):
    """Points that are not joined; `values` colour them, low to high, in place of `colour`; `labels` show on hover.

    `errors` are drawn up and down, `x_errors` to both sides.
    """

    x: Numbers
    y: Numbers
    errors: Numbers | None = None
    x_errors: Numbers | None = None
    values: Numbers | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class Bars(Layer):
    """One bar for each name, upright, from zero: the x axis then has these names.

    Bars of several layers with the same names stand beside each other.
    """

    names: Sequence[str]
    values: Numbers
    errors: Numbers | None = None


@dataclass(frozen=True, eq=False)
class Rule(Layer):
    """A straight line across the chart at a value of y (or of x): chance, an optimum, the end of what was seen."""

    at: float
    axis: Literal["x", "y"] = "y"


@dataclass(frozen=True, eq=False)
class Heat(Layer):
    """A grid of cells, `values` (y, x), coloured from low to high; `x` and `y` are the centres of the cells.

    `limits` are the values of the palest and of the deepest colour, otherwise the lowest and the highest there are.
    `signed` values have two colours, above and below zero.
    """

    x: Numbers
    y: Numbers
    values: Numbers
    label: str = ""
    limits: tuple[float, float] | None = None
    signed: bool = False


@dataclass(frozen=True, eq=False)
class Arrows(Layer):
    """Arrows from (x, y) along (dx, dy), as long as these say: a flow."""

    x: Numbers
    y: Numbers
    dx: Numbers
    dy: Numbers


Scale = Literal["linear", "log"]


@dataclass(frozen=True, eq=False)
class Chart:
    """A title, what the axes show, and layers, drawn from the first to the last.

    `note` is a sentence or two below the chart: what to see in it. An axis may have names at 0, 1, 2, ... in place of
    numbers: those of y begin at the top. Limits of an axis are None where the data say them. With `equal`, a unit is as
    long on both axes, so that a circle is round. Ticks are whole numbers where all x of a chart are.
    """

    title: str
    x: str
    y: str
    layers: Sequence[Layer]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    note: str = ""
    x_names: Sequence[str] | None = None
    y_names: Sequence[str] | None = None
    x_limits: tuple[float | None, float | None] = (None, None)
    y_limits: tuple[float | None, float | None] = (None, None)
    equal: bool = False

    def __post_init__(self) -> None:
        for layer in self.layers:
            _check(layer, self.title)

    @property
    def whole(self) -> bool:
        """Whether all x are whole numbers, such as steps."""
        found = [np.asarray(x, float) for layer in self.layers if (x := getattr(layer, "x", None)) is not None]
        return bool(found) and all((x[np.isfinite(x)] % 1 == 0).all() for x in found)

    def plain(self) -> dict[str, Any]:
        """The chart as JSON takes it: dicts, lists, numbers and words; None for what is not finite."""
        return {
            **{f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name != "layers"},
            "whole": self.whole,
            "layers": [
                {"kind": type(layer).__name__.lower(), "mark": layer.mark}
                | {f.name: _plain(getattr(layer, f.name)) for f in fields(layer) if f.name != "variant"}
                for layer in self.layers
            ],
        }


_EQUALLY_MANY = ("x", "y", "low", "high", "errors", "x_errors", "values", "labels", "names", "dx", "dy")


def _check(layer: Layer, title: str) -> None:
    """HiddenStateError where numbers that belong together are not equally many."""
    if isinstance(layer, Heat):
        due = (len(layer.y), len(layer.x))
        if np.shape(layer.values) != due:
            raise HiddenStateError(f"{title}: the cells of a heat map are {np.shape(layer.values)}; due are {due}.")
        return
    found = {name: getattr(layer, name, None) for name in _EQUALLY_MANY}
    counts = {name: len(values) for name, values in found.items() if values is not None}
    if len(set(counts.values())) > 1:
        raise HiddenStateError(f"{title}: a layer has {counts}; these must be equally many.")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
