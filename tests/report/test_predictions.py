"""Plots of predictions beside what came, of which some is missing."""

import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

import hiddenstate as hs
from hiddenstate.report import forecasts, predictions

SYMBOLS = [np.array([0, 1, 2, 1, 0, 2, 1, 1, 0, 2, 1, 0])] * 2
GAPS = [np.isin(np.arange(12), (3, 10, 11))] * 2


@pytest.fixture(scope="module")
def chain():
    emission = hs.emissions.Categorical(probs=[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    return hs.HMM([0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], emission)


def dots(axes):
    """Where the dots of what came are, as (step, row)."""
    return [tuple(place) for place in np.asarray(axes.collections[0].get_offsets()).tolist()]


def test_missing_symbols_have_no_dot():
    axes = Figure().add_subplot()
    probs = np.full((4, 3), 1 / 3)
    predictions._draw_symbols(axes, np.arange(5, 9), np.array([2.0, np.nan, 0.0, np.nan]), probs, ("a", "b", "c"))
    assert dots(axes) == [(5.0, 2.0), (7.0, 0.0)]


def test_where_all_is_missing_there_is_a_plot_all_the_same():
    axes = Figure().add_subplot()
    predictions._draw_symbols(axes, np.arange(3), np.full(3, np.nan), np.full((3, 2), 0.5), ("a", "b"))
    assert dots(axes) == []


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
    predictions.plot_predictions(found, tmp_path / "predictions.png", key=jr.key(1))
    assert (tmp_path / "predictions.png").stat().st_size > 5_000
