import jax.random as jr
import numpy as np
import polars as pl

import hiddenstate as hs


def test_numbers_get_mean_median_and_quantiles(run, temps, weather, tmp_path):
    out, plot = tmp_path / "forecast.csv", tmp_path / "forecast.png"
    words = ("--horizon", 3, "--samples", 40, "--seed", 5, "--out", out, "--plot", plot)
    result = run("forecast", temps, weather, *words)
    assert result.exit_code == 0, result.output
    assert "seed 5" in result.stderr
    model = hs.load(temps)
    data = hs.read(weather, schema=model.schema)
    expected = hs.forecast(model, data, 3, key=jr.key(5), n=40)
    table = pl.read_csv(out)
    assert table["sequence"].to_list() == [name for name in data.names for _ in range(3)]
    assert table["step"].to_list() == [1, 2, 3] * len(data)
    np.testing.assert_allclose(table["mean"], expected.mean.ravel(), rtol=1e-6)
    np.testing.assert_allclose(table["median"], expected.median.ravel(), rtol=1e-6)
    np.testing.assert_allclose(table["q0.95"], expected.quantile(0.95).ravel(), rtol=1e-6)
    assert plot.stat().st_size > 10_000


def test_symbols_get_the_probability_of_each_by_name(run, skies, weather, tmp_path):
    out = tmp_path / "forecast.csv"
    result = run("forecast", skies, weather, "--horizon", 2, "--samples", 30, "--out", out)
    assert result.exit_code == 0, result.output
    table = pl.read_csv(out)
    probs = table.select("p(dry)", "p(rain)", "p(sun)").to_numpy()
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    likely = [("dry", "rain", "sun")[i] for i in probs.argmax(1)]
    assert table["most_likely"].to_list() == likely


def test_records_get_a_row_for_each_column(run, records, weather, tmp_path):
    out = tmp_path / "forecast.json"
    result = run("forecast", records, weather, "--horizon", 2, "--samples", 30, "--out", out)
    assert result.exit_code == 0, result.output
    table = pl.read_json(out)
    assert table["column"].to_list()[:3] == ["sky", "temp", "visits"]
    assert table.filter(column="sky")["mean"].null_count() == 24
    assert table.filter(column="temp")["mean"].null_count() == 0


def test_of_many_charts_the_first_are_drawn(run, records, weather, tmp_path):
    plot = tmp_path / "forecast.svg"
    words = ("--horizon", 2, "--samples", 10, "--out", tmp_path / "forecast.csv", "--plot", plot)
    assert f"; the first 6 of 36 charts in {plot}" in run("forecast", records, weather, *words).stdout.replace("\n", "")


def test_inputs_to_come_are_asked_for_and_used(run, fails, driven, weather, tmp_path):
    words = ("forecast", driven, weather, "--horizon", 2, "--samples", 10, "--out", tmp_path / "f.csv")
    assert "takes 1 inputs (visits) at every step; give them with --future" in fails(*words)
    future = tmp_path / "future.csv"
    rows = [f"T{town},{day},{30 + town}" for town in range(12) for day in range(2)]
    future.write_text("town,day,visits\n" + "\n".join(rows[::-1]) + "\n")
    assert run(*words, "--future", future).exit_code == 0
    model = hs.load(driven)
    data = hs.read(weather, schema=model.schema)
    inputs = np.repeat(30.0 + np.arange(12), 2).reshape(12, 2, 1)
    expected = hs.forecast(model, data, 2, key=jr.key(0), n=10, inputs=inputs)
    np.testing.assert_allclose(pl.read_csv(tmp_path / "f.csv")["mean"], expected.mean.ravel(), rtol=1e-6)
    future.write_text("\n".join(["town,day,visits", *rows[2:]]) + "\n")
    assert "no inputs for sequence 'T0'" in fails(*words, "--future", future)


def test_a_plot_of_unknown_form_is_refused(fails, temps, weather, tmp_path):
    words = ("--horizon", 3, "--samples", 40, "--out", tmp_path / "f.csv", "--plot", tmp_path / "f.txt")
    assert "a plot is written as .png, .pdf, .svg" in fails("forecast", temps, weather, *words)
