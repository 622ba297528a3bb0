"""Charts of beliefs: what is in them, of results made by hand."""

import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.inspect.beliefs import PrincipalComponents, ProbesOverTraining, Reachable, SimplexBeliefs
from hiddenstate.inspect.beliefs.settling import _summed_up
from hiddenstate.report.beliefs import MOST_POINTS, belief_charts, reachable_charts, simplex_charts
from hiddenstate.report.charts import Band, Points, Rule
from hiddenstate.report.drawing import draw_charts


def simplex_of(states: int) -> SimplexBeliefs:
    true = np.random.default_rng(0).dirichlet(np.ones(states), (2, 5))
    true[1, 3:] = np.nan
    return SimplexBeliefs("a layer", true, true, true, np.where(np.isnan(true[..., 0]), np.nan, 0.1), 0.9, 0.5)


def principal_of(beliefs: bool) -> PrincipalComponents:
    random = np.random.default_rng(1)
    steps = np.tile(np.arange(4.0), (3, 1))
    last = np.where(steps == 0, np.nan, steps % 2)
    given = random.dirichlet(np.ones(3), (3, 4)) if beliefs else None
    shares = np.array([0.7, 0.3])
    return PrincipalComponents("x", random.normal(size=(3, 4, 2)), shares, np.eye(2), np.zeros(2), given, last, steps)


def training_of(networks: int) -> ProbesOverTraining:
    columns = ("belief_r_squared", "hidden_r_squared", "divergence", "mean_divergence", "nats_per_step")
    rows = [
        {"updates": updates, "network": n, "layer": "one", "above_optimum": 0.1 + n, "above_optimum_error": 0.01}
        | dict.fromkeys(columns, 0.5 + n)
        for updates in (0, 10)
        for n in range(networks)
    ]
    return ProbesOverTraining(pl.DataFrame(rows))


def settling():
    names = ("belief_entropy", "belief_entropy_error", "belief_low", "belief_high", "cross_entropy")
    columns = (
        {"seen": np.arange(8), "sequences": np.full(8, 3)}
        | dict.fromkeys(names, np.linspace(1, 0, 8))
        | {"cross_entropy_error": [0.1] * 8}
    )
    return _summed_up("hmm", pl.DataFrame(columns), 0.1)


def test_all_of_them_are_drawn(tmp_path):
    words = np.array([[0, 1], [1, 0], [1, 1]])
    reached = Reachable(np.eye(3), words, np.full(3, 1 / 3))
    charts = belief_charts(
        reachable=reached,
        simplex=simplex_of(3),
        principal=principal_of(True),
        training=training_of(2),
        synchronisation=[settling()],
    )
    assert len(charts) == 1 + 3 + 7 + 2 + 2
    draw_charts(charts, tmp_path / "a.png", columns=4)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert belief_charts() == []


def test_only_real_steps_are_points_and_both_triangles_hold_the_same():
    true, affine, states = simplex_charts(simplex_of(3))
    for chart in (true, affine):
        points = [layer for layer in chart.layers if isinstance(layer, Points)]
        assert sum(len(layer.x) for layer in points) == 8
        assert all(np.isfinite(layer.x).all() for layer in points)
    assert [layer.name for layer in states.layers[1:]] == ["state 0", "state 1", "state 2"]
    assert len(simplex_charts(simplex_of(2))) == 1  # no triangle
    assert "one of the three" in simplex_charts(simplex_of(4))[0].note


def test_points_are_coloured_by_the_last_symbol():
    reached = Reachable(np.eye(3), np.array([[0, 1], [1, 0], [1, 1]]), np.full(3, 1 / 3))
    points = reachable_charts(reached)[0].layers[1:]
    assert [layer.name for layer in points] == ["last symbol 0", "last symbol 1"]
    np.testing.assert_allclose(points[0].x, [1.0])  # the belief behind (1, 0) is certain of state 1
    with pytest.raises(hs.HiddenStateError, match="over 2 states; a triangle takes three or more"):
        reachable_charts(Reachable(np.eye(2), np.zeros((2, 1)), np.ones(2) / 2))


def test_many_points_are_thinned_out():
    many = Reachable(np.tile(np.eye(3), (3000, 1)), np.zeros((9000, 1)), np.full(9000, 1 / 9000))
    assert len(reachable_charts(many)[0].layers[1].x) == MOST_POINTS


def test_networks_are_medians_in_a_band():
    single, several = (belief_charts(training=training_of(n))[0] for n in (1, 3))
    assert not any(isinstance(layer, Band) for layer in single.layers)
    band, line, *_ = several.layers
    np.testing.assert_allclose(line.y, [1.5, 1.5])
    np.testing.assert_allclose([band.low, band.high], [[0.5, 0.5], [2.5, 2.5]])
    np.testing.assert_array_equal(line.x, [1, 11])


def test_rates_are_ruled_lines():
    beliefs, costs = belief_charts(synchronisation=[settling()])
    (rule,) = [layer for layer in costs.layers if isinstance(layer, Rule)]
    assert rule.at == pytest.approx(1 / 14)  # the mean of the last two of eight
    assert "steps seen" in (beliefs.x, costs.x)


def test_without_beliefs_points_are_coloured_by_symbols_and_time():
    titles = [chart.title for chart in belief_charts(principal=principal_of(False))]
    assert titles == [
        "x, by the last symbol",
        "x, by the steps seen, dark to bright",
        "Variance in the first directions",
    ]
