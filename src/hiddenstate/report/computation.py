"""The graph of a computation drawn: one column a step, operations from the bottom to the top."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect import Computation
from hiddenstate.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCH = 0.62  # of one unit of the drawing
_ROW = 0.82
_LANE = 2.5
_HALF = 0.24  # of the height of a box
_BOX = {"boxstyle": "round,pad=0.28", "linewidth": 0.9}
_FILLS = {"operation": "#ffffff", "state": "#cfe3f0", "output": "#f6d9c6"}
_LEAVES = {
    "parameter": style.COLOURS[2],
    "observation": style.ACCENT,
    "input": style.ACCENT,
    "argument": style.COLOURS[2],
}
_ARROW = {"arrowstyle": "-|>", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
_MOST = 600


class _Place(NamedTuple):
    """Where an operation stands, half the width of its box, and the side on which its leaves stand."""

    x: float
    y: float
    half: float
    side: int

    def towards(self, other: "_Place") -> tuple[float, float]:
        """Where a straight line to the middle of another box leaves this one."""
        dx, dy = other.x - self.x, other.y - self.y
        share = min(self.half / max(abs(dx), 1e-9), _HALF / max(abs(dy), 1e-9))
        return self.x + share * dx, self.y + share * dy


def draw_computation(computation: Computation, path: str | Path) -> None:
    """Draw the graph that `hs.inspect.computation` gives to a .svg, .png or .pdf file.

    A column is a step: on its left the operations that lead to the next state, on its right those that lead only to the
    loss. Parameters and observations are written beside the operations that read them, at every one of them.
    """
    style.check_ending(Path(path))
    operations = _operations(computation)
    if len(operations) > _MOST:
        raise HiddenStateError(
            f"computation has {len(operations)} operations; a drawing takes at most {_MOST}. Give fewer steps."
        )
    places = _places(computation, operations)
    xs, ys = [place.x for place in places.values()], [place.y for place in places.values()]
    left, right, top = min(xs) - 2.6, max(xs) + 2.6, max(ys) + 0.9
    with style.canvas(path, _INCH * (right - left), _INCH * (top + 1.5)) as figure:
        axes = figure.subplots()
        axes.set(xlim=(left, right), ylim=(-1.5, top), aspect="equal")
        axes.axis("off")
        for node in operations:
            _draw_operation(axes, computation, node, places)
        _draw_steps(axes, computation, places)


def _operations(computation: Computation) -> list[int]:
    """All operations in the order of the program, in which each stands behind what it reads."""
    return [node for node, data in sorted(computation.graph.nodes(data=True)) if data["kind"] == "operation"]


def _places(computation: Computation, operations: list[int]) -> dict[int, _Place]:
    """Operations in the column of their step and the lane of what they lead to, above all that they read there."""
    graph = computation.graph
    states = [node for node in operations if graph.nodes[node]["name"].startswith("h_")]
    moving = set(states).union(*(nx.ancestors(graph, state) for state in states))
    lane = {node: (graph.nodes[node]["step"] or 0, node not in moving) for node in operations}
    lanes = sorted(set(lane.values()))
    columns = _columns(lanes)
    heights: dict[int, int] = {}
    taken: dict[tuple[int, bool], int] = {}
    for node in operations:
        below = [heights[source] + 1 for source in graph.pred[node] if source in heights and lane[source] == lane[node]]
        heights[node] = max([taken.get(lane[node], 0), *below])
        taken[lane[node]] = heights[node] + 1
    half = {node: _half_width(graph.nodes[node]) for node in operations}
    return {
        node: _Place(columns[lane[node]], _ROW * heights[node], half[node], 1 if lane[node][1] else -1)
        for node in operations
    }


def _half_width(data: dict[str, Any]) -> float:
    letters = len(data["label"]) + (3 + len(data["name"].replace("_", "")) if data["name"] else 0)
    return 0.16 + 0.045 * letters


def _columns(lanes: list[tuple[int, bool]]) -> dict[tuple[int, bool], float]:
    """Where each lane stands: leaves of the left one to its left, those of the right one to its right."""
    places, x = {}, 0.0
    for place, (step, outward) in enumerate(lanes):
        if place:
            before = lanes[place - 1]
            x += _LANE if before[0] == step else _LANE + (2.2 if before[1] else 0.6) + (0.0 if outward else 2.2)
        places[step, outward] = x
    return places


def _draw_operation(axes: "Axes", computation: Computation, node: int, places: dict[int, _Place]) -> None:
    graph, place = computation.graph, places[node]
    data = graph.nodes[node]
    fill = "output" if node == computation.output else "state" if data["name"].startswith("h_") else "operation"
    label = data["label"] + (f"  ${_mathematical(data['name'])}$" if data["name"] else "")
    box = {**_BOX, "facecolor": _FILLS[fill], "edgecolor": "#9a9a9a"}
    axes.text(place.x, place.y, label, ha="center", va="center", fontsize=7.5, zorder=3, bbox=box)
    for source in graph.pred[node]:
        if source in places:
            _draw_arrow(axes, places[source], place)
    leaves = [source for source in graph.pred[node] if source not in places]
    for number, leaf in enumerate(leaves):
        _draw_leaf(axes, graph.nodes[leaf], place, 0.26 * (number - (len(leaves) - 1) / 2))


def _draw_leaf(axes: "Axes", leaf: dict[str, Any], place: _Place, above: float) -> None:
    """The name of what an operation reads, on its outer side, and an arrow."""
    word = f"${_mathematical(leaf['name'] or leaf['label'])}$"
    if leaf["kind"] in ("parameter", "argument") and not leaf["name"]:
        word = leaf["label"].rpartition(".")[2]
    colour, edge = _LEAVES[leaf["kind"]], place.x + place.half * place.side
    axes.annotate(
        word,
        (edge + 0.03 * place.side, place.y),
        (edge + 0.36 * place.side, place.y + above),
        fontsize=7,
        va="center",
        ha="left" if place.side > 0 else "right",
        color=colour,
        arrowprops={**_ARROW, "color": colour, "shrinkA": 1, "mutation_scale": 6},
    )


def _draw_arrow(axes: "Axes", source: _Place, target: _Place) -> None:
    """From an operation to one that reads it: upward to the next, along the inner side past others, or across."""
    bend = 0.0
    if source.x != target.x:
        start, end = source.towards(target), target.towards(source)
    elif target.y - source.y < 1.1 * _ROW:
        start, end = (source.x, source.y + _HALF), (target.x, target.y - _HALF)
    else:
        inner = -target.side
        start, end = ((place.x + inner * place.half, place.y) for place in (source, target))
        bend = min(0.45, 1.7 / (target.y - source.y)) * inner  # so that no arc goes far out
    axes.annotate(
        "", end, start, zorder=1, arrowprops={**_ARROW, "color": "#6b6b6b", "connectionstyle": f"arc3,rad={bend}"}
    )


def _draw_steps(axes: "Axes", computation: Computation, places: dict[int, _Place]) -> None:
    steps: dict[int, list[float]] = {}
    for node, place in places.items():
        step = computation.graph.nodes[node]["step"]
        if step is not None:
            steps.setdefault(step, []).append(place.x)
    for step, xs in steps.items():
        axes.text((min(xs) + max(xs)) / 2, -1.05, f"step {step}", ha="center", va="center", color=style.FAINT)


def _mathematical(name: str) -> str:
    """h_2 and its parts, as mathematics."""
    word, _, part = name.partition(" ")
    letter, _, index = word.partition("_")
    if not index:
        return rf"\mathrm{{{word}}}"
    return rf"{letter}_{{{index}}}" + (rf"\,\mathrm{{({part})}}" if part else "")
