import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.forecasts import forecast_table, plot_forecast

LEVELS = (0.1, 0.5, 0.9)


def test_numbers_get_a_row_for_each_sequence_and_step():
    data = hs.Sequences.of([[1.0, 2.0], [3.0]], names=["a", "b"])
    samples = np.arange(2 * 5 * 3, dtype=float).reshape(2, 5, 3)
    table = forecast_table(hs.Forecast(samples, samples.mean(1), None, LEVELS), data)
    assert table.columns == ["sequence", "step", "mean", "median", "q0.1", "q0.9"]
    assert table["sequence"].to_list() == ["a"] * 3 + ["b"] * 3
    assert table["step"].to_list() == [1, 2, 3, 1, 2, 3]
    assert table["median"].to_list() == [6.0, 7.0, 8.0, 21.0, 22.0, 23.0]
    assert table["q0.9"].to_list() == pytest.approx([10.8, 11.8, 12.8, 25.8, 26.8, 27.8])


def test_symbols_get_their_probabilities_by_name():
    schema = hs.Schema((hs.Column("sky", "symbol", 2, ("dry", "wet")),), scalar=True)
    data = hs.Sequences.of([[0, 1]], schema=schema)
    probs = np.array([[[0.2, 0.8], [0.7, 0.3]]])
    table = forecast_table(hs.Forecast(np.zeros((1, 4, 2), np.int32), None, probs, LEVELS), data)
    assert table["most_likely"].to_list() == ["wet", "dry"]
    assert table["p(wet)"].to_list() == [0.8, 0.3]


def records():
    columns = (
        hs.Column("sky", "symbol", 2, ("dry", "wet")),
        hs.Column("temp", "real"),
        hs.Column("wind", "symbol", 3),
    )
    data = hs.Sequences.of([np.zeros((50, 3))], schema=hs.Schema(columns, scalar=False))
    samples = np.zeros((1, 4, 2, 3))
    samples[0, :, :, 0] = [[0, 1], [1, 1], [0, 1], [0, 1]]
    samples[..., 1] = 7.0
    return hs.Forecast(samples, samples.mean(1), None, LEVELS), data


def test_records_have_a_row_for_each_column_with_frequencies_of_symbols():
    table = forecast_table(*records())
    assert table["column"].to_list() == ["sky", "temp", "wind"] * 2
    assert table["p(sky=dry)"].to_list() == [0.75, None, None, 0.0, None, None]
    assert table["p(wind=0)"].to_list() == [None, None, 1.0] * 2
    assert table["mean"].to_list() == [None, 7.0, None] * 2


def test_forecasts_are_drawn(tmp_path):
    plot_forecast(*records(), tmp_path / "records.png")
    assert (tmp_path / "records.png").stat().st_size > 10_000
    data = hs.Sequences.of([[1.0, 2.0], [3.0]])
    samples = np.random.default_rng(0).normal(size=(2, 50, 3))
    plot_forecast(hs.Forecast(samples, samples.mean(1), None, LEVELS), data, tmp_path / "fan.svg")
    assert "<svg" in (tmp_path / "fan.svg").read_text()[:500]
