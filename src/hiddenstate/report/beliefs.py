"""Beliefs as charts: in a triangle, along principal components, over training, and as they settle."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect.beliefs import (
    PrincipalComponents,
    ProbesOverTraining,
    Reachable,
    SimplexBeliefs,
    Synchronisation,
    in_triangle,
)
from hiddenstate.inspect.beliefs.geometry import CORNERS
from hiddenstate.report.charts import Band, Chart, Layer, Line, Points, Rule

MOST_POINTS = 3000
"""Of more points than this, so many are drawn, evenly chosen."""

MOST_COLOURS = 8
"""Of more symbols than this each has no colour of its own."""


def belief_charts(
    *,
    reachable: Reachable | None = None,
    simplex: SimplexBeliefs | None = None,
    principal: PrincipalComponents | None = None,
    training: ProbesOverTraining | None = None,
    synchronisation: Sequence[Synchronisation] = (),
) -> list[Chart]:
    """The charts of whatever of these there is, in this order."""
    charts = [] if reachable is None else reachable_charts(reachable)
    charts += [] if simplex is None else simplex_charts(simplex)
    charts += [] if principal is None else principal_charts(principal)
    charts += [] if training is None else training_charts(training)
    return charts + (synchronisation_charts(synchronisation) if synchronisation else [])


# -- the simplex ---------------------------------------------------------------------------------------------


def reachable_charts(found: Reachable, states: Sequence[int] = (0, 1, 2)) -> list[Chart]:
    """All beliefs that words of one length lead to, in the triangle of three states, coloured by the last symbol."""
    _check_three(found.beliefs)
    length = found.words.shape[1]
    chart = Chart(
        f"Every belief after {length} steps",
        "",
        "",
        [*_outline(), *_coloured(in_triangle(found.beliefs, states), found.words[:, -1], "last symbol")],
        equal=True,
        note=f"{len(found.words)} words of {length} symbols; corners are certainty of {_listed(states)}.",
    )
    return [chart]


def simplex_charts(found: SimplexBeliefs, states: Sequence[int] = (0, 1, 2)) -> list[Chart]:
    """True beliefs and those read from a network: in a triangle for three states or more, and state by state."""
    charts = [] if found.states < 3 else _triangles(found, states)
    true, read = found.rows("true"), found.rows("read")
    kept = _some(len(true))
    shown = range(min(found.states, MOST_COLOURS))
    layers: list[Layer] = [Line([0, 1], [0, 1], colour="grey", dashed=True)]
    layers += [Points(true[kept, s], read[kept, s], name=f"state {s}", colour=s) for s in shown]
    note = f"KL {np.nanmean(found.divergence):.2g} nats, {found.mean_divergence:.2g} for the mean belief."
    return [*charts, Chart("Read from the hidden vector", "true probability", "read probability", layers, note=note)]


def _triangles(found: SimplexBeliefs, states: Sequence[int]) -> list[Chart]:
    """The same steps in two triangles, coloured by the truth in both."""
    three = found.rows("true")[:, list(states)]
    most = np.array(states)[three.argmax(axis=1)]
    whose = {"true": "The forward algorithm's beliefs", "affine": f"{found.name}: an affine map of its hidden vector"}
    rest = "" if found.states == 3 else "Given that the state is one of the three. "
    note = f"{rest}Corners are certainty of {_listed(states)}; colours are the true belief's in both."
    return [
        Chart(
            title,
            "",
            "",
            [*_outline(), *_coloured(in_triangle(found.rows(which), states), most, "most probable: state")],
            equal=True,
            note=note if which == "true" else f"R2 {found.r_squared:.3f} on held-out sequences. {note}",
        )
        for which, title in whose.items()
    ]


def _outline() -> list[Layer]:
    corners = np.concatenate([CORNERS, CORNERS[:1]])
    return [Line(corners[:, 0], corners[:, 1], colour="grey")]


def _coloured(points: np.ndarray, groups: np.ndarray, said: str) -> list[Layer]:
    """Points (point, 2) in a colour for each group where these are few, otherwise along a scale."""
    kept = _some(len(points))
    points, groups = points[kept], groups[kept]
    each = np.unique(groups)
    if len(each) > MOST_COLOURS:
        return [Points(points[:, 0], points[:, 1], values=groups, name=said)]
    return [
        Points(*points[groups == group].T, name=f"{said} {group:g}", colour=number) for number, group in enumerate(each)
    ]


def _check_three(beliefs: np.ndarray) -> None:
    if beliefs.shape[-1] < 3:
        raise HiddenStateError(f"beliefs are over {beliefs.shape[-1]} states; a triangle takes three or more.")


def _listed(states: Sequence[int]) -> str:
    return "states " + ", ".join(map(str, states))


def _some(count: int) -> np.ndarray:
    """Which of so many points are drawn."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))


# -- principal components ------------------------------------------------------------------------------------


def principal_charts(found: PrincipalComponents) -> list[Chart]:
    """Hidden vectors along the first two directions, coloured by what they may stand for, and the shares of all."""
    rows = ~np.isnan(found.steps)
    points = found.coordinates[rows]
    if points.shape[1] < 2:
        points = np.concatenate([points, np.zeros_like(points)], axis=1)
    points = points[:, :2]
    charts = []
    if found.beliefs is not None:
        most = found.beliefs[rows].argmax(axis=1)
        charts.append(_scatter(found, _coloured(points, most, "most probable: state"), "coloured by the belief"))
        kept = _some(len(points))
        for state in range(min(found.beliefs.shape[-1], 3)):
            shade = Points(*points[kept].T, values=found.beliefs[rows][kept, state])
            charts.append(_scatter(found, [shade], f"the probability of state {state}, dark to bright"))
    if found.last is not None:
        known = ~np.isnan(found.last[rows])
        charts.append(_scatter(found, _coloured(points[known], found.last[rows][known], "last"), "by the last symbol"))
    kept = _some(len(points))
    shade = Points(*points[kept].T, values=found.steps[rows][kept])
    charts.append(_scatter(found, [shade], "by the steps seen, dark to bright"))
    number = np.arange(1, len(found.shares) + 1)
    shares = Line(number, np.cumsum(found.shares), marks=True)
    return [
        *charts,
        Chart("Variance in the first directions", "how many directions", "share of the variance", [shares]),
    ]


def _scatter(found: PrincipalComponents, layers: Sequence[Layer], said: str) -> Chart:
    first, second = (*found.shares[:2], 0.0)[:2]
    return Chart(f"{found.name}, {said}", f"first direction ({first:.0%})", f"second direction ({second:.0%})", layers)


# -- over training -------------------------------------------------------------------------------------------


def training_charts(found: ProbesOverTraining) -> list[Chart]:
    """What layers know of the belief against the updates, and what predictions lack; medians over networks."""
    frame = found.frame
    layers = frame["layer"].unique(maintain_order=True).to_list()
    shares: list[Layer] = []
    apart: list[Layer] = []
    for number, layer in enumerate(layers):
        part = frame.filter(pl.col("layer") == layer)
        prefix = "" if len(layers) == 1 else f"{layer}: "
        shares += _median(part, "belief_r_squared", f"{prefix}belief from hidden", 2 * number)
        shares += _median(part, "hidden_r_squared", f"{prefix}hidden from belief", 2 * number + 1)
        apart += _median(part, "divergence", f"{prefix}KL, belief to probe", number)
    apart += _median(
        frame.unique(["updates", "network"]), "above_optimum", "predictions above the optimum", len(layers)
    )
    return [
        Chart("How much of the one the other tells", "updates + 1", "R2", shares, x_scale="log"),
        Chart(
            "How far from the forward algorithm", "updates + 1", "nats per step", apart, x_scale="log", y_scale="log"
        ),
    ]


def _median(part: pl.DataFrame, column: str, name: str, colour: int) -> list[Layer]:
    """A line of medians, in a band from the least to the most where there are several networks."""
    of = pl.col(column)
    rows = part.group_by("updates").agg(of.median().alias("middle"), of.min().alias("low"), of.max().alias("high"))
    rows = rows.sort("updates")
    x = rows["updates"].to_numpy() + 1
    line = Line(x, rows["middle"].to_numpy(), name=name, colour=colour, marks=True)
    if part["network"].n_unique() < 2:
        return [line]
    return [Band(x, rows["low"].to_numpy(), rows["high"].to_numpy(), colour=colour), line]


# -- synchronisation -----------------------------------------------------------------------------------------


def synchronisation_charts(found: Sequence[Synchronisation]) -> list[Chart]:
    """The entropy of beliefs and the cost of predictions against the steps seen, of one model or several."""
    beliefs: list[Layer] = []
    costs: list[Layer] = []
    for number, each in enumerate(found):
        frame = each.frame.head(each.judged)
        seen = frame["seen"].to_numpy()
        if each.belief_limit is not None:
            low, high = (frame[name].to_numpy() for name in ("belief_low", "belief_high"))
            beliefs += [Band(seen, low, high, colour=number)]
            beliefs += [Line(seen, frame["belief_entropy"].to_numpy(), name=each.name, colour=number)]
        errors = frame["cross_entropy_error"].fill_null(float("nan")).to_numpy()
        line = Line(seen, frame["cross_entropy"].to_numpy(), errors, name=each.name, colour=number)
        costs += [line, Rule(each.entropy_rate, colour=number)]
    charts = []
    if beliefs:
        note = "Lines are means over sequences, bands hold four fifths of them."
        charts.append(Chart("How uncertain the hidden state is", "steps seen", "entropy, nats", beliefs, note=note))
    note = "Broken lines: means of the last quarter of what is shown, which at least a quarter of the sequences reach."
    return [*charts, Chart("What the next observation costs", "steps seen", "nats", costs, note=note)]
