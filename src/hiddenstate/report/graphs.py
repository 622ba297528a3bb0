"""Graphical models drawn: unfolded in time, or as a loop whose arrows into the next step pass a delay."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import networkx as nx
import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect import example_graph, graph
from hiddenstate.inspect.graphs import Pattern, Variable, View
from hiddenstate.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMS = ("unfolded", "loop")

_INCH = 0.62  # of one unit of the drawing
_RADIUS = 0.31
_ROW = 1.45
_STEP = 1.75
_CLOUD_STEP = 4.5  # a step of a particle filter, which has three columns
_CLOUD_ROW = 0.95
_GAP = 0.48  # between rows of the legend
_SHADE = "#cfe3f0"
_COLOURS = {"propagation": style.MAIN, "resampling": style.ACCENT, "forward simulation": style.INK}
_DASHED = ("copy",)
_WORDS = {"copy": "copied, or drawn anew"}

Point = tuple[float, float]


class _Node(NamedTuple):
    """A circle of the drawing, with a mathematical label; `many` where it stands for several."""

    at: Point
    label: str
    kind: str
    conditional: str
    many: bool = False


class _Edge(NamedTuple):
    """An arrow of the drawing: `bend` is how much it is curved, `lag` how many steps it waits at a delay."""

    source: str
    target: str
    role: str
    bend: float = 0.0
    lag: int = 0


class _Drawing(NamedTuple):
    """All circles and arrows, and where dots say that it goes on."""

    nodes: dict[str, _Node]
    edges: list[_Edge]
    onward: list[Point]


def draw_graph(
    model: Any,
    path: str | Path,
    steps: int | None = None,
    form: Literal["unfolded", "loop"] = "unfolded",
    *,
    view: View = "generative",
) -> None:
    """Draw the graphical model of a model, or of an example by its name, to a .svg, .png or .pdf file.

    Unfolded it shows `steps` steps (by default 4, or 3 where there are particles); as a loop one, with a square for the
    delay of a step. Observed variables are shaded, computed ones have a double line. See `hs.inspect.graph` and
    `hs.inspect.example_graph`.
    """
    if form not in FORMS:
        raise HiddenStateError(f"form is {form!r}; it must be one of {', '.join(FORMS)}.")
    style.check_ending(Path(path))
    made = _graph(model, 2 if steps is None else steps, view)
    pattern: Pattern = made.graph["pattern"]
    if steps is None:
        made = _graph(model, 3 if _is_cloud(pattern) else 4, view)
    _draw(_unfolded(made) if form == "unfolded" else _loop(pattern), path)


def _graph(model: Any, steps: int, view: View) -> nx.DiGraph:
    return example_graph(model, steps) if isinstance(model, str) else graph(model, steps, view=view)


# -- where everything is -------------------------------------------------------------------------------------


def _unfolded(made: nx.DiGraph) -> _Drawing:
    pattern, steps = made.graph["pattern"], made.graph["steps"]
    variables = {variable.letter: variable for variable in pattern.variables}
    nodes = {}
    for name, data in made.nodes(data=True):
        variable, copy = variables[data["variable"]], _copy(name)
        place = _cloud_place(pattern, variable, data["time"], copy)
        if not _is_cloud(pattern):
            place = _STEP * data["time"], _height(pattern, variable)
        index = f"_{{{data['time']}}}" + (f"^{{({copy})}}" if variable.copies > 1 else "")
        nodes[name] = _Node(place, f"${variable.letter}{index}$", data["kind"], data["conditional"])
    edges = [_Edge(a, b, role, _bend(nodes[a], nodes[b])) for a, b, role in made.edges(data="role")]
    chained = {arrow.target for arrow in pattern.arrows if arrow.lag}
    last = [nodes[n].at for n, data in made.nodes(data=True) if data["time"] == steps and data["variable"] in chained]
    xs, ys = zip(*last, strict=True)
    return _Drawing(nodes, edges, [(max(xs) + 0.85, float(np.mean(ys)))])


def _loop(pattern: Pattern) -> _Drawing:
    nodes = {}
    for variable in pattern.variables:
        x, y = 0.0, _height(pattern, variable)
        if _is_cloud(pattern):
            x, y = {"H": (0.0, _ROW), "X": (1.4, 0.0), "R": (2.8, _ROW)}.get(variable.letter, (1.4, -_ROW))
        label = f"${variable.letter}^{{(i)}}$" if variable.copies > 1 else f"${variable.letter}$"
        nodes[variable.letter] = _Node((x, y), label, variable.kind, variable.conditional, variable.copies > 1)
    edges = [_Edge(a.source, a.target, a.role, lag=a.lag) for a in pattern.arrows]
    return _Drawing(nodes, edges, [])


def _is_cloud(pattern: Pattern) -> bool:
    return any(variable.between for variable in pattern.variables)


def _height(pattern: Pattern, variable: Variable) -> float:
    """Rows in the order of the pattern, with the observations at zero."""
    letters = [one.letter for one in pattern.variables]
    return _ROW * (letters.index("X") - letters.index(variable.letter))


def _cloud_place(pattern: Pattern, variable: Variable, time: int, copy: int) -> Point:
    """Particles in a column, those chosen in another, and the observation below between both."""
    left = _CLOUD_STEP * time
    if variable.letter in ("X", "U"):
        return left + 1.4, 0.0 if variable.letter == "X" else -_ROW
    return left + (2.8 if variable.between else 0.0), 1.5 + _CLOUD_ROW * (variable.copies - copy)


def _copy(name: str) -> int:
    return int(name.partition("(")[2].rstrip(")") or 1)


def _bend(a: _Node, b: _Node) -> float:
    """Curved where a straight arrow would run through circles: along a row over more than one step."""
    (ax, ay), (bx, by) = a.at, b.at
    if ay == by and bx - ax > 1.5 * _STEP and ay <= 0:
        return 0.35
    return 0.3 if a.kind == "observed" and by > ay and bx - ax > 2.5 else 0.0


# -- drawing -------------------------------------------------------------------------------------------------


def _draw(drawing: _Drawing, path: str | Path) -> None:
    looped = any(edge.lag for edge in drawing.edges)
    left, right, bottom, top = _frame(drawing)
    words = _beside(_legend(drawing), right, (bottom + top) / 2) if looped else []
    if looped:
        right = max(x + _width(text) for text, _, (x, _) in words)
        bottom, top = min(bottom, words[-1][2][1] - 0.4), max(top, words[0][2][1] + 0.4)
    else:
        wide = max(_width(text) for text, _ in _legend(drawing))
        spare = max(0.0, wide - (right - left)) / 2
        left, right = left - spare, right + spare
        words = _below(_legend(drawing), left, right, bottom)
        bottom = words[-1][2][1] - 0.35
    with style.canvas(path, _INCH * (right - left), _INCH * (top - bottom)) as figure:
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(left, right), ylim=(bottom, top))
        axes.set_axis_off()
        for edge in drawing.edges:
            _draw_edge(axes, drawing.nodes[edge.source], drawing.nodes[edge.target], edge)
        for node in drawing.nodes.values():
            _draw_node(axes, node)
        for x, y in drawing.onward:
            axes.text(x, y, "· · ·", ha="center", va="center", color=style.FAINT, fontsize=13)
        for text, sign, place in words:
            _draw_legend(axes, place, text, sign)


def _frame(drawing: _Drawing) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of circles and arrows, with a margin."""
    xs, ys = zip(*(node.at for node in drawing.nodes.values()), strict=True)
    left, right, bottom, top = min(xs) - 0.6, max(xs) + 0.6, min(ys) - 0.6, max(ys) + 0.6
    if drawing.onward:
        right = max(right, drawing.onward[0][0] + 0.5)
    places = {name: np.array(node.at) for name, node in drawing.nodes.items()}
    curves = [_delayed(places[edge.source], places[edge.target], edge.lag) for edge in drawing.edges if edge.lag]
    for corners in curves:
        x, y = (corners[0] + 3 * corners[1] + 3 * corners[2] + corners[3]) / 8
        left, right, top = min(left, x - 0.4), max(right, x + 0.4), max(top, y + 0.4)
    return left, right, bottom - (0.4 if any(edge.bend for edge in drawing.edges) else 0.0), top


def _draw_node(axes: "Axes", node: _Node, radius: float = _RADIUS) -> None:
    from matplotlib.patches import Circle, Rectangle

    look: dict[str, Any] = {"facecolor": _SHADE if node.kind == "observed" else "white", "edgecolor": style.INK}
    x, y = node.at
    if node.kind == "input":
        side = 1.7 * radius
        axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, linewidth=1.1, zorder=3, **look))
    else:
        for back in (2, 1) if node.many else ():
            axes.add_patch(Circle((x, y + 0.08 * back), radius, linewidth=0.9, zorder=3 - back / 4, **look))
        axes.add_patch(Circle((x, y), radius, linewidth=1.1, zorder=3, **look))
    if node.conditional == "delta":
        axes.add_patch(Circle((x, y), 0.83 * radius, linewidth=0.9, zorder=4, **look))
    if node.label:
        axes.text(x, y - 0.01, node.label, ha="center", va="center", fontsize=10.5, zorder=5)


def _draw_edge(axes: "Axes", a: _Node, b: _Node, edge: _Edge) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    look: dict[str, Any] = {
        "arrowstyle": "-|>,head_length=0.42,head_width=0.2",
        "mutation_scale": 11,
        "linewidth": 1.15,
        "color": _COLOURS.get(edge.role, style.INK),
        "linestyle": (0, (3.2, 2)) if edge.role in _DASHED else "solid",
        "zorder": 2,
    }
    if not edge.lag:
        gap = 72 * _INCH * _RADIUS + 1
        bent = f"arc3,rad={edge.bend}"
        axes.add_patch(FancyArrowPatch(a.at, b.at, connectionstyle=bent, shrinkA=gap - 1, shrinkB=gap, **look))
        return
    corners = _delayed(np.array(a.at), np.array(b.at), edge.lag)
    kinds = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    axes.add_patch(FancyArrowPatch(path=Curve(corners, kinds), **look))
    middle = (corners[0] + 3 * corners[1] + 3 * corners[2] + corners[3]) / 8
    _draw_delay(axes, (middle[0], middle[1]), edge.lag)


def _delayed(a: np.ndarray, b: np.ndarray, lag: int) -> np.ndarray:
    """The corners of a curve beside the straight way: right into itself, left up a column, below or above."""

    def around(centre: np.ndarray, degrees: float) -> np.ndarray:
        angle = np.deg2rad(degrees)
        return centre + (_RADIUS + 0.02) * np.array([np.cos(angle), np.sin(angle)])

    if (a == b).all():
        out = (1.0 + 0.45 * (lag - 1)) * np.array([[1.0, 0.75], [1.0, -0.75]])
        return np.array([around(a, 35), a + out[0], a + out[1], around(a, -35)])
    if a[0] == b[0]:
        reach = np.array([-0.45 - 0.35 * abs(b[1] - a[1]), 0.0])
        rise = np.sign(b[1] - a[1])
        return np.array([around(a, 180 - 35 * rise), a + reach, b + reach, around(b, 180 + 35 * rise)])
    if a[1] != b[1]:
        return np.array([around(a, 180), a + np.array([-1.3, 0.0]), b + np.array([0.0, -1.3]), around(b, -90)])
    lift = np.array([[0.0, _RADIUS + 0.2], [0.0, 0.5 * abs(b[0] - a[0])]])
    return np.array([a + lift[0], a + lift[1], b + lift[1], b + lift[0]])


def _draw_delay(axes: "Axes", at: Point, lag: int) -> None:
    from matplotlib.patches import Rectangle

    side = 0.2
    axes.add_patch(Rectangle((at[0] - side / 2, at[1] - side / 2), side, side, color=style.INK, zorder=3))
    if lag > 1:
        axes.text(at[0] + 0.18, at[1], str(lag), va="center", fontsize=8.5)


# -- the legend ----------------------------------------------------------------------------------------------


def _legend(drawing: _Drawing) -> list[tuple[str, Any]]:
    """What has to be said: a text and a circle, an arrow or a delay each."""
    nodes = list(drawing.nodes.values())
    said: list[tuple[str, Any]] = []
    for text, kind, conditional in (
        ("observed", "observed", "random"),
        ("computed from its parents", "hidden", "delta"),
        ("hidden, random", "hidden", "random"),
        ("input, known beforehand", "input", "given"),
    ):
        if any((node.kind, node.conditional) == (kind, conditional) for node in nodes):
            said.append((text, _Node((0, 0), "", kind, conditional)))
    for role in dict.fromkeys(edge.role for edge in drawing.edges):
        if role in _COLOURS or role in _DASHED:
            said.append((_WORDS.get(role, role), _Edge("", "", role)))
    if any(edge.lag for edge in drawing.edges):
        said.append(("delay of one step", None))
    return said


def _width(text: str) -> float:
    return 0.75 + 0.112 * len(text)


def _beside(words: list[tuple[str, Any]], left: float, middle: float) -> list[tuple[str, Any, Point]]:
    """One below the other, to the right of a drawing."""
    top = middle + _GAP * (len(words) - 1) / 2
    return [(text, sign, (left + 0.45, top - _GAP * row)) for row, (text, sign) in enumerate(words)]


def _below(words: list[tuple[str, Any]], left: float, right: float, top: float) -> list[tuple[str, Any, Point]]:
    """In rows that are as wide as the drawing, each in its middle."""
    rows: list[list[tuple[str, Any]]] = [[]]
    for entry in words:
        if rows[-1] and sum(_width(text) for text, _ in [*rows[-1], entry]) > right - left:
            rows.append([])
        rows[-1].append(entry)
    placed = []
    for number, row in enumerate(rows):
        x = (left + right - sum(_width(text) for text, _ in row)) / 2 + 0.25
        for text, sign in row:
            placed.append((text, sign, (x, top - 0.1 - _GAP * number)))
            x += _width(text)
    return placed


def _draw_legend(axes: "Axes", at: Point, text: str, sign: Any) -> None:
    x, y = at
    if isinstance(sign, _Node):
        _draw_node(axes, sign._replace(at=(x, y)), radius=0.14)
    elif isinstance(sign, _Edge):
        dashes: Any = (0, (3.2, 2)) if sign.role in _DASHED else "solid"
        colour = _COLOURS.get(sign.role, style.INK)
        axes.plot([x - 0.2, x + 0.2], [y, y], color=colour, linestyle=dashes, linewidth=1.4)
    else:
        _draw_delay(axes, (x, y), 1)
    axes.text(x + 0.32, y - 0.01, text, va="center", fontsize=8.5, color=style.INK)
