"""Charts of models as dynamical systems: flows with their fixed points, spectra, time constants, currents, gains."""

from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, HiddenStateError, SequenceModel, has
from hiddenstate.inference import sequences_for
from hiddenstate.inspect import dynamics
from hiddenstate.inspect.dynamics.motion import known_states, motion_of, own_cell
from hiddenstate.report.charts import Arrows, Chart, Heat, Layer, Line, Points, Rule
from hiddenstate.report.page import Section, Table

_SEQUENCES, _STEPS, _SIZE = 16, 200, 128  # of what is looked at for a page; longer states have no fixed points there
_LINES = 6  # units that are drawn as lines of their own
_PATH = 100  # steps of one sequence that are drawn on a flow
_GONE = 0.1  # a shorter time constant leaves less than a ten-thousandth after one step
_COLOURS = {"attractor": 2, "saddle": 1, "repeller": 3, "centre": 4, "marginal": 5, "slow point": 6}


def dynamics_section(model: SequenceModel, data: Any, *, key: PRNGKeyArray) -> Section:
    """What a page of one model shows of its dynamics; HiddenStateError where its state is no vector of real numbers.

    The flow and its fixed points are those while a network's cell reads zeros, while a model that can do so sees
    nothing, or else while a model reads what it expects itself.
    """
    data = sequences_for(model, data)
    part = data.select(np.argsort(-data.lengths, kind="stable")[:_SEQUENCES]).window(0, _STEPS)
    x, reading = _same(model)
    size = motion_of(model, x).size
    charts: list[Chart] = []
    tables: list[Table] = []
    if size <= _SIZE:
        flow_key, point_key, cycle_key = jr.split(key, 3)
        field = dynamics.flow(model, x=x, data=part, grid=101 if size == 1 else 15, key=flow_key)
        points = dynamics.fixed_points(model, x=x, starts=64, data=part, iterations=50, key=point_key)
        ends = dynamics.limit_cycles(
            model, x=x, starts=8, data=part, transient=500, steps=500, longest=32, key=cycle_key
        )
        charts += [
            flow_chart(field, points=points, orbits=ends, paths=known_states(model, part)[:1, :_PATH]),
            spectrum_chart(points),
        ]
        tables = [ends_table(ends)]
    charts.append(time_constants_chart(dynamics.time_constants(model, part, x=x)))
    try:
        charts += rate_charts(dynamics.rates(model, part))
    except HiddenStateError as error:
        if isinstance(error, DataError):
            raise
    return Section(
        "Dynamics",
        f"Where the state goes by itself, and how fast, while {reading} at every step.",
        charts,
        tables=tables,
    )


def _same(model: SequenceModel) -> tuple[str | None, str]:
    """What stands for the same observation at every step, and how to say so."""
    if own_cell(model) is not None:
        return None, "its cell reads zeros"
    if has(model, "prepare_partial"):
        return None, "nothing is observed"
    return "own", "it reads what it expects itself"


def ends_table(found: dynamics.LimitCycles) -> Table:
    """Where states end up, that of most starts first."""
    known = pl.when(pl.col("period", "exponent").is_finite()).then(pl.col("period", "exponent"))
    rows = [
        {"ends in": row["kind"], "starts": row["starts"], "steps a turn": row["period"], "exponent": row["exponent"]}
        for row in found.frame().with_columns(known).to_dicts()
    ]
    return Table(rows, "Where states end up that start where data have led, and the largest Lyapunov exponent there.")


def flow_chart(
    flow: dynamics.Flow,
    *,
    points: dynamics.FixedPoints | None = None,
    orbits: dynamics.LimitCycles | None = None,
    paths: Any = None,
    note: str = "",
) -> Chart:
    """A flow field with fixed points, limit cycles and paths (sequence, time, size) of states on it.

    A state of one number is drawn as the next one against it, with the diagonal: fixed points are where they cross.
    """
    draw = _on_a_line if len(flow.coordinates) == 1 else _on_a_plane
    return draw(flow, points, orbits, paths, note)


def _on_a_line(flow: dynamics.Flow, points: Any, orbits: Any, paths: Any, note: str) -> Chart:
    here = flow.coordinates[0]
    layers: list[Layer] = [
        Line([here[0], here[-1]], [here[0], here[-1]], colour="grey", dashed=True, name="no change"),
        Line(here, here + flow.moves[:, 0], name="the next state"),
    ]
    if paths is not None:
        layers += [Line(*_cobweb(flow.project(path)[:, 0]), colour="grey") for path in np.asarray(paths)[:1]]
    for kind in _kinds(points):
        at = flow.project(points.of_kind(kind))[:, 0]
        layers.append(Points(at, at, name=kind, colour=_COLOURS[kind]))
    for orbit in _cycles(orbits):
        at = flow.project(orbit.points)[:, 0]
        layers.append(Points(at, np.roll(at, -1), name=orbit.kind, colour=4))
    said = (
        note or "Where the curve crosses the diagonal, a state stays; it attracts where the curve is flatter than one."
    )
    return Chart("Where a step leads", "state", "next state", layers, note=said)


def _cobweb(path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A path as stairs between the curve and the diagonal."""
    path = path[~np.isnan(path)][:30]
    return np.repeat(path, 2)[:-1], np.repeat(path, 2)[1:]


def _on_a_plane(flow: dynamics.Flow, points: Any, orbits: Any, paths: Any, note: str) -> Chart:
    first, second = np.meshgrid(*flow.coordinates, indexing="ij")
    longest = np.abs(flow.moves).max(axis=(0, 1))
    gaps = [c[1] - c[0] for c in flow.coordinates]
    shrink = min(1.0, *(1.5 * gap / move for gap, move in zip(gaps, longest, strict=True) if move > 0), 1.0)
    moves = shrink * flow.moves
    layers: list[Layer] = [
        Arrows(first.ravel(), second.ravel(), moves[..., 0].ravel(), moves[..., 1].ravel(), colour="grey")
    ]
    for number, path in enumerate([] if paths is None else np.asarray(paths)):
        along = flow.project(path)
        layers.append(Line(along[:, 0], along[:, 1], name="" if number else "states on data", colour="ink"))
    for orbit in _cycles(orbits):
        along = flow.project(orbit.points[:500])
        layers.append(Points(along[:, 0], along[:, 1], name=orbit.kind, colour=4))
    for kind in _kinds(points):
        along = flow.project(points.of_kind(kind))
        layers.append(Points(along[:, 0], along[:, 1], name=kind, colour=_COLOURS[kind]))
    said = note or _about(flow, shrink)
    return Chart("Where a step leads", *_axes(flow), layers, note=said)


def _axes(flow: dynamics.Flow) -> tuple[str, str]:
    if flow.shares is not None:
        first, second = (f"component {i + 1} ({share:.0%})" for i, share in enumerate(flow.shares))
        return first, second
    first, second = (
        f"unit {int(np.argmax(axis))}" if np.isclose(np.abs(axis).max(), 1) else f"direction {i + 1}"
        for i, axis in enumerate(flow.axes)
    )
    return first, second


def _about(flow: dynamics.Flow, shrink: float) -> str:
    scale = "" if shrink == 1 else f" Arrows are {shrink:.2g} times as long as the steps."
    if flow.shares is None:
        return "Arrows go from a state to the next while the same is read." + scale
    return (
        "Arrows go from a state to the next while the same is read, on the plane of the first two principal "
        "components; points off the plane are drawn at their projection onto it." + scale
    )


def _kinds(points: Any) -> list[str]:
    return [] if points is None else [kind for kind in _COLOURS if kind in points.kinds]


def _cycles(orbits: Any) -> Sequence[dynamics.Orbit]:
    return () if orbits is None else orbits.cycles


def spectrum_chart(points: dynamics.FixedPoints, note: str = "") -> Chart:
    """The eigenvalues of the Jacobian at each fixed point, on the complex plane, with the unit circle."""
    angle = np.linspace(0, 2 * np.pi, 181)
    layers: list[Layer] = [Line(np.cos(angle), np.sin(angle), colour="grey", dashed=True, name="modulus one")]
    for kind in _kinds(points):
        values = points.eigenvalues[[k == kind for k in points.kinds]].ravel()
        layers.append(Points(np.real(values), np.imag(values), name=kind, colour=_COLOURS[kind]))
    counted = ", ".join(f"{points.kinds.count(kind)} of kind {kind}" for kind in _kinds(points)) or "none"
    said = note or f"Inside the circle a direction dies out, outside it grows. Found: {counted}."
    return Chart("Eigenvalues at fixed points", "real part", "imaginary part", layers, note=said, equal=True)


def time_constants_chart(found: dynamics.TimeConstants, note: str = "") -> Chart:
    """Time constants of all units, each kind sorted from the longest on, on a logarithmic axis."""
    kinds = {
        "units (Jacobian)": found.units,
        "modes (eigenvalues)": found.modes,
        "gates on data": found.gates,
        "autocorrelation on data": found.autocorrelation,
    }
    layers: list[Layer] = []
    for colour, (name, values) in enumerate(kinds.items()):
        if values is not None:
            shown = np.sort(np.where(np.isfinite(values) & (values > _GONE), values, np.nan))[::-1]
            shown = np.concatenate([shown[~np.isnan(shown)], shown[np.isnan(shown)]])
            layers.append(Line(np.arange(1, len(shown) + 1), shown, marks=True, name=name, colour=colour))
    said = note or "How many steps it takes until 1/e is left. Units that keep all, or forget at once, are not drawn."
    return Chart("Time constants", "rank", "steps", layers, y_scale="log", note=said)


def rate_charts(reading: dynamics.RateReading, sequence: int = 0, unit: int | None = None) -> list[Chart]:
    """Firing rates over time, the currents into one unit (whose rate varies most), and the weights between units."""
    rates = reading.rates[sequence]
    time = np.arange(1, len(rates) + 1)
    busiest = np.argsort(-np.nanstd(rates, axis=0))
    unit = int(busiest[0]) if unit is None else unit
    shown = sorted(busiest[:_LINES].tolist())
    firing = [Line(time, rates[:, i], name=f"unit {i}", colour=n) for n, i in enumerate(shown)]
    parts = {
        "excitatory": (reading.excitatory, 2),
        "inhibitory": (reading.inhibitory, 1),
        "external": (reading.external, 0),
        "all": (reading.recurrent + reading.external, "ink"),
    }
    flowing = [
        Line(time, current[sequence, :, unit], name=name, colour=colour) for name, (current, colour) in parts.items()
    ]
    counts = {kind: reading.kinds.count(kind) for kind in ("excitatory", "inhibitory", "mixed", "silent")}
    counted = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    units = np.arange(len(reading.kinds))
    return [
        Chart(
            "Firing rates", "step", "rate relative to baseline", [*firing, Rule(0.0, colour="grey")],
            note="The states of the units that vary most, read as rates of neurons: below zero is less than at rest.",
        ),
        Chart(
            f"Currents into unit {unit}", "step", "current", flowing,
            note=f"Excitation and inhibition cancel to {reading.balance[unit]:.0%} here, and to "
            f"{np.nanmean(reading.balance):.0%} in the mean over units.",
        ),
        Chart(
            "Synaptic weights", "from unit", "to unit",
            [Heat(units, units, reading.weight, label="weight", signed=True)],
            note=f"What each unit gives to each, excitation in blue and inhibition in orange: {counted} units.",
        ),
    ]  # fmt: skip


def gains_charts(found: dynamics.Gains, unit: int | None = None) -> list[Chart]:
    """A number of the state after n steps against where it began, and how slopes, pieces and length grow with n."""
    varied = np.ptp(found.states, axis=1).sum(axis=0)
    unit = int(np.argmax(varied)) if unit is None else unit
    lines = [
        Line(found.values, found.states[i, :, unit], name=f"{n} step{'s' if n > 1 else ''}", colour=i)
        for i, n in enumerate(found.steps)
    ]
    growth = {"steepest slope": found.steepest, "monotone pieces": found.pieces, "length of the curve": found.length}
    return [
        Chart(
            "The state after n steps", "beginning", f"unit {unit}", lines,
            note="The same nonlinearity, applied again and again to a line of beginnings.",
        ),
        Chart(
            "How gains compound", "steps", "factor",
            [
                Line(found.steps, np.where(values > 0, values, np.nan), marks=True, dashed=i == 1, name=name, colour=i)
                for i, (name, values) in enumerate(growth.items())
            ],
            y_scale="log",
            note=f"Distances change by {found.growth[-1]:+.3f} nats a step in the mean.",
        ),
    ]  # fmt: skip
