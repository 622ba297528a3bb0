"""Charts of gradients: what they show is what was measured, and they can be drawn."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inspect import gradients
from hiddenstate.report.charts import Line, Points
from hiddenstate.report.drawing import draw_charts
from hiddenstate.report.gradients import _beginning, decay_chart, gradient_charts, landscape_charts, memory_chart


@pytest.fixture(scope="module")
def model() -> hs.RNN:
    return hs.RNN(hs.cells.Vanilla(1, 3, key=jr.key(0)), hs.heads.Gaussian(3, None, key=jr.key(1)))


@pytest.fixture(scope="module")
def data() -> hs.Sequences:
    draws = np.random.default_rng(0)
    return hs.Sequences.of([draws.normal(size=n) for n in (40, 30, 40, 5, 40, 35)])


def test_page_of_one_model_can_be_drawn(model, data, tmp_path):
    charts = gradient_charts(model, data, key=jr.key(2))
    assert [chart.title for chart in charts] == [
        "How far gradients go back",
        "Eigenvalues of the Jacobians",
        "Singular values of the Jacobians",
        "Lyapunov exponents",
        "How the exponents settle",
        "What the state remembers",
    ]
    assert "On the first 40 steps of 4 sequences." in charts[0].note
    draw_charts(charts, tmp_path / "page.png", columns=3)
    assert (tmp_path / "page.png").stat().st_size > 30_000
    assert all(np.isfinite(values).all() for chart in charts for values in _numbers(chart))


def _numbers(chart):
    return [
        np.asarray(part, float)
        for layer in chart.layers
        if isinstance(layer, Line | Points)
        for part in (layer.x, layer.y)
    ]


def test_large_states_and_long_sequences_are_looked_at_in_part():
    wide = hs.RNN(hs.cells.Vanilla(1, 100, key=jr.key(0)), hs.heads.Gaussian(100, None, key=jr.key(1)))
    part = _beginning(wide, hs.Sequences.of([np.zeros(300)] * 9))
    assert part.shape[:2] == (4, 25)  # 4 * 25 * 100^3 = 1e8
    wider = hs.RNN(hs.cells.Vanilla(1, 400, key=jr.key(0)), hs.heads.Gaussian(400, None, key=jr.key(1)))
    assert _beginning(wider, hs.Sequences.of([np.zeros(300)] * 9)).shape[:2] == (1, 8)


def test_fitted_line_has_the_rate_as_its_slope():
    lags = np.arange(1, 21)
    decay = gradients.Decay("It", lags, np.log(3 * 0.8**lags), 0.8, 5)
    chart = decay_chart(decay)
    norms, fitted = chart.layers
    np.testing.assert_allclose(norms.y, 3 * 0.8**lags)
    np.testing.assert_allclose(fitted.y, 3 * 0.8**fitted.x)
    assert chart.y_scale == "log"
    assert "It vanishes: 2.4 at lag 1, 0.0346 at lag 20; times 0.8 a step, half in 3.11 steps." in chart.note


def test_what_is_too_small_to_draw_is_left_out():
    decay = gradients.Decay("It", np.array([1, 2]), np.array([-1.0, -np.inf]), 0.0, 1)
    (norms,) = decay_chart(decay).layers
    assert np.isnan(norms.y[1]) and norms.y[0] == pytest.approx(np.exp(-1))


def test_landscape_shows_where_steps_end():
    line = gradients.Landscape(
        None, None, np.linspace(-1, 1, 3), np.array([0.0, 1.0, np.inf]), np.ones(3), np.array([0, 2.0, np.nan])
    )
    step = gradients.Step(1.0, 2.0, gradients.Landing(-5.0, 9.0), gradients.Landing(-0.5, 0.5))
    loss, steep = landscape_charts(line, step)
    assert [layer.name for layer in loss.layers] == ["loss", "before the step", "clipped step"]
    assert loss.note == (
        "Steepest at 0. A plain step ends at -5 with a loss of 9. A clipped step ends at -0.5 with a loss of 0.5."
    )
    assert np.isnan(loss.layers[0].y[2])
    assert steep.layers[1].at == 0


def test_memory_is_shown_in_bits_or_shares():
    lags = np.array([1, 2])
    bits = memory_chart(gradients.Memory(lags, 1, bits=np.array([1.0, 0.5])))
    assert bits.y == "bits of the symbol" and bits.layers[0].y.tolist() == [1.0, 0.5]
    assert bits.note == "On 1 step of sequences that were held out."
    shares = memory_chart(gradients.Memory(lags, 7, r_squared=np.array([0.9, np.nan])))
    assert shares.y == "share of the variance" and np.isnan(shares.layers[0].y[1])
