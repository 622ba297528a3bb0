import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import hiddenstate as hs
from hiddenstate.report.decoding import _probabilities, percents


@pytest.fixture(scope="module")
def hidden(folder, weather):
    """A Markov model of the temperature, made by hand."""
    data = hs.read(weather, sequence="town", time="day", columns="temp")
    emission = hs.emissions.Gaussian([10.0, 15.0, 20.0], [1.0, 1.0, 1.0])
    model = hs.HMM(np.full(3, 1 / 3), np.full((3, 3), 1 / 3), emission, schema=data.schema)
    path = folder / "hidden.safetensors"
    hs.save(model, path)
    return path


@pytest.fixture(scope="module")
def shuffled(folder, weather):
    """The same rows in another order, with a column that the model does not know."""
    path = folder / "shuffled.csv"
    table = pl.read_csv(weather, infer_schema=False).with_columns(state=pl.lit("TX"))
    table.sample(fraction=1.0, shuffle=True, seed=4).write_csv(path)
    return path


def test_states_stand_beside_the_rows_in_their_order(run, hidden, shuffled, tmp_path):
    out, plot = tmp_path / "decoded.csv", tmp_path / "states.png"
    result = run("decode", hidden, shuffled, "--out", out, "--plot", plot)
    assert result.exit_code == 0, result.output
    given, found = pl.read_csv(shuffled, infer_schema=False), pl.read_csv(out, infer_schema=False)
    assert found.columns == [*given.columns, "state_", "p_state_0_", "p_state_1_", "p_state_2_"]
    assert found.select(given.columns).equals(given)
    model = hs.load(hidden)
    data = hs.read(shuffled, schema=model.schema)
    states, probs = hs.most_likely_states(model, data).states, hs.smooth(model, data).marginals
    place = {name: i for i, name in enumerate(data.names)}
    for row in found.iter_rows(named=True):
        at = place[row["town"]], int(row["day"])
        assert int(row["state_"]) == states[at]
        np.testing.assert_allclose([float(row[f"p_state_{k}_"]) for k in range(3)], probs[at], atol=1e-6)
        assert abs(float(row["temp"]) - (10 + 5 * int(row["state_"]))) < 4
    assert "mean_stay" in result.stdout and f"{found.height} steps with their states" in result.stdout
    assert plot.stat().st_size > 5000


def test_other_forms_of_data_and_of_output(run, hidden, weather, tmp_path):
    table = pl.read_csv(weather)
    table.write_parquet(tmp_path / "weather.parquet")
    out = tmp_path / "decoded.parquet"
    assert run("decode", hidden, tmp_path / "weather.parquet", "--out", out).exit_code == 0
    found = pl.read_parquet(out)
    assert found.select(table.columns).equals(table) and found["state"].dtype == pl.Int64
    assert run("decode", hidden, weather, "--out", out).exit_code == 0
    assert pl.read_parquet(out)["temp"].dtype == pl.Float64  # numbers, though CSV holds text
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, one=np.array([10.0, 20.0]), two=np.array([15.0]))
    assert run("decode", hidden, arrays, "--out", tmp_path / "arrays.json").exit_code == 0
    rows = pl.read_json(tmp_path / "arrays.json")
    assert rows["state"].to_list() == [0, 2, 1] and rows.height == 3


def test_missing_values_are_decoded_through(run, hidden, tmp_path):
    path, out = tmp_path / "gaps.csv", tmp_path / "out.csv"
    path.write_text("town,day,temp\nA,1,10\nA,2,\nA,3,20\n")
    assert run("decode", hidden, path, "--out", out, "--plot", tmp_path / "gaps.svg").exit_code == 0
    found = pl.read_csv(out)
    assert found["state"].to_list()[::2] == [0, 2] and found["temp"].null_count() == 1


def test_models_without_hidden_states_are_refused(fails, temps, hidden, weather, tmp_path):
    assert "there is nothing to decode" in fails("decode", temps, weather, "--out", tmp_path / "x.csv")
    assert "a table is written as" in fails("decode", hidden, weather, "--out", tmp_path / "x.xlsx")
    assert "a plot is written as" in fails("decode", hidden, weather, "--plot", tmp_path / "x.bmp")


def test_it_says_how_many_sequences_are_drawn(run, hidden, weather, tmp_path):
    words = ("decode", hidden, weather, "--out", tmp_path / "d.csv", "--plot", tmp_path / "p.svg")
    result = run(*words)
    assert f"the first 4 of 12 sequences drawn in {tmp_path / 'p.svg'}" in result.stdout.replace("\n", "")


def test_shares_in_the_legend_sum_to_a_hundred():
    assert percents(np.array([1, 1, 1])) == [34, 33, 33]
    assert percents(np.array([505, 335, 160])) == [51, 33, 16] and percents(np.array([3, 1, 0])) == [75, 25, 0]


def test_steps_along_a_plot_are_whole_numbers():
    axes = Figure(figsize=(8, 1)).add_subplot()
    _probabilities(axes, np.full((20, 2), 0.5), ["red", "blue"])
    assert all(tick == int(tick) for tick in axes.get_xticks())
