"""Charts of dynamics: what they hold, and that they are drawn."""

import json

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inspect import dynamics
from hiddenstate.report.charts import Arrows, Points
from hiddenstate.report.drawing import draw_charts
from hiddenstate.report.dynamics import dynamics_section, ends_table, flow_chart, gains_charts

KEY = jr.key(0)
DATA = hs.Sequences.of([np.sin(np.arange(40) / 3), np.cos(np.arange(25) / 3)])


def network(weight, **options):
    cell = hs.cells.Vanilla(1, len(weight), key=jr.key(1), **options)
    return hs.cast(eqx.tree_at(lambda c: c.recurrent_weight, cell, jnp.asarray(weight)), "float32")


def test_a_page_shows_the_flow_spectra_time_constants_and_currents(tmp_path):
    model = hs.build("leaky", DATA, hidden=4, signs=0.5, key=jr.key(2))
    section = dynamics_section(model, DATA, key=KEY)
    assert "while its cell reads zeros at every step" in section.text
    assert section.tables[0].rows[0]["ends in"] == "fixed point"
    charts = section.charts
    assert [chart.title for chart in charts][:4] == [
        "Where a step leads",
        "Eigenvalues at fixed points",
        "Time constants",
        "Firing rates",
    ]
    assert "2 excitatory, 2 inhibitory units" in charts[-1].note
    for chart in charts:
        json.dumps(chart.plain(), allow_nan=False)
    draw_charts(charts, tmp_path / "plot.svg", columns=3)
    assert "Synaptic weights" in (tmp_path / "plot.svg").read_text()


def test_fixed_points_lie_on_the_flow_where_it_stands_still():
    cell = network(np.diag([2.0, 0.5]))
    field = dynamics.flow(cell, grid=5, key=KEY)
    chart = flow_chart(field, points=dynamics.fixed_points(cell, starts=32, key=KEY))
    assert isinstance(chart.layers[0], Arrows) and (chart.x, chart.y) == ("unit 0", "unit 1")
    attractors = next(layer for layer in chart.layers if isinstance(layer, Points) and layer.name == "attractor")
    np.testing.assert_allclose(np.abs(attractors.x), 0.957504, atol=1e-5)


def test_one_unit_is_drawn_against_the_diagonal_and_gains_by_steps(tmp_path):
    cell = network([[-2.0]])
    cycles = dynamics.limit_cycles(cell, starts=4, steps=100, key=KEY)
    chart = flow_chart(dynamics.flow(cell, grid=9, key=KEY), orbits=cycles, paths=cycles.cycles[0].points[None])
    cycle = next(layer for layer in chart.layers if layer.name == "limit cycle (period 2)")
    np.testing.assert_allclose(np.asarray(cycle.x), -np.asarray(cycle.y), atol=1e-6)
    charts = [chart, *gains_charts(dynamics.gains(cell, steps=(1, 2), points=21))]
    assert [line.name for line in charts[1].layers] == ["1 step", "2 steps"]
    draw_charts(charts, tmp_path / "plot.svg")


def test_a_model_that_cannot_see_nothing_reads_what_it_expects():
    model = hs.build("multi-particle", DATA, particles=2, hidden=3, key=jr.key(3))
    section = dynamics_section(model, DATA, key=KEY)
    assert "while it reads what it expects itself" in section.text and len(section.charts) >= 3


def test_growth_without_end_has_no_number_in_the_table():
    cell = network([[1.1]], nonlinearity="identity")
    wild = dynamics.limit_cycles(cell, starts=np.array([[1.0]]), key=KEY)
    assert ends_table(wild).rows == [{"ends in": "diverging", "starts": 1, "steps a turn": None, "exponent": None}]


def test_a_model_whose_state_is_no_vector_has_no_charts():
    chain = hs.HMM(
        initial=[0.5, 0.5],
        transition=[[0.9, 0.1], [0.2, 0.8]],
        emission=hs.emissions.Gaussian(means=[0.0, 1.0], covariances=[1.0, 1.0]),
    )
    with pytest.raises(hs.HiddenStateError, match="takes states of real numbers"):
        dynamics_section(hs.ParticleFilter(chain, 10, key=KEY), DATA, key=KEY)
    with pytest.raises(hs.DataError):
        dynamics_section(chain, np.zeros((3, 2, 2, 2)), key=KEY)
