"""Plots of predictions beside what came, of which some is missing."""

import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

import hiddenstate as hs
from hiddenstate.report import forecasts
from hiddenstate.report.comparison import write_comparison
from hiddenstate.report.prediction_charts import prediction_charts

SYMBOLS = [np.array([0, 1, 2, 1, 0, 2, 1, 1, 0, 2, 1, 0])] * 2
GAPS = [np.isin(np.arange(12), (3, 10, 11))] * 2


@pytest.fixture(scope="module")
def chain():
    emission = hs.emissions.Categorical(probs=[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    return hs.HMM([0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], emission)


def dots(axes):
    """Where the dots of what came are, as (step, row)."""
    return [tuple(place) for place in np.asarray(axes.collections[0].get_offsets()).tolist()]


@pytest.mark.parametrize("gaps", [[1, 3], [0, 1, 2, 3]])
def test_missing_symbols_have_no_dot(chain, gaps):
    data = hs.Sequences.of([np.array([2, 1, 0, 2])], missing=[np.isin(np.arange(4), gaps)])
    (chart,) = prediction_charts(chain, data, key=jr.key(0))
    heat, came = chart.layers
    rows = [np.nan if i in gaps else row for i, row in enumerate((2, 1, 0, 2))]
    np.testing.assert_array_equal(np.asarray(came.x), [1, 2, 3, 4])
    np.testing.assert_array_equal(np.asarray(came.y, float), rows)
    assert np.shape(heat.values)[1] == 4


def test_the_past_of_a_forecast_has_no_dot_where_it_is_missing(chain):
    data = hs.Sequences.of(SYMBOLS, missing=GAPS)
    axes = Figure().add_subplot()
    forecasts._draw_symbols(axes, hs.forecast(chain, data, 3, key=jr.key(0), n=20), data, 0, 0)
    expected = {(float(i - 11), float(SYMBOLS[0][i])) for i in range(2, 12) if not GAPS[0][i]}
    assert set(dots(axes)) == expected


def test_comparisons_of_data_with_gaps_are_drawn(tmp_path):
    """A symbol and a count, both whole numbers, which cannot say by themselves that they are missing."""
    rng = np.random.default_rng(0)
    rows = [np.stack([rng.integers(0, 3, 20), rng.poisson(3, 20)], 1).astype(float) for _ in range(3)]
    for row in rows:
        row[[4, 5, 18, 19], [0, 1, 0, 1]] = np.nan
    schema = hs.Schema((hs.Column("sky", "symbol", 3), hs.Column("visits", "count")), scalar=False)
    data = hs.Sequences.of(rows, schema=schema)
    found = hs.compare(data, ["hmm"], key=jr.key(0), epochs=2)
    write_comparison(found, tmp_path, about={}, key=jr.key(1))
    assert (tmp_path / "predictions.png").stat().st_size > 5_000
