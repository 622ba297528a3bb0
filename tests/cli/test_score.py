import math

import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.learn.scores import score


def numbers(result):
    lines = result.stdout.splitlines()[:4]
    return {line[:17].strip(): float(line[17:].split()[0]) for line in lines}


def test_it_prints_what_the_library_says(run, skies, weather):
    result = run("score", skies, weather)
    model = hs.load(skies)
    data = hs.read(weather, schema=model.schema)
    shown = numbers(result)
    expected = score(model, data)
    assert shown["log-probability"] == pytest.approx(float(hs.log_prob(model, data, total=True)), abs=1e-4)
    assert shown["nats per step"] == pytest.approx(expected.nats_per_step, abs=1e-6)
    assert f"± {expected.standard_error:.6f}" in result.stdout
    assert shown["bits per step"] == pytest.approx(expected.nats_per_step / math.log(2), abs=1e-6)
    assert shown["perplexity"] == pytest.approx(math.exp(expected.nats_per_step), rel=1e-5)
    assert f"of {data.steps} steps" in result.stdout


def test_real_data_have_no_perplexity(run, temps, weather):
    assert "perplexity" not in run("score", temps, weather).stdout


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_the_scores_of_the_sequences_are_written(run, skies, weather, tmp_path, ending):
    out = tmp_path / f"scores.{ending}"
    result = run("score", skies, weather, "--per-sequence", "--out", out)
    assert "T11" in result.stdout
    model = hs.load(skies)
    data = hs.read(weather, schema=model.schema)
    table = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json}[ending](out)
    assert table["sequence"].to_list() == list(data.names)
    np.testing.assert_allclose(table["log_prob"], hs.log_prob(model, data), rtol=1e-5)
    np.testing.assert_allclose(table["nats_per_step"] * table["steps"], -table["log_prob"], rtol=1e-12)


def test_text_is_read_as_the_model_read_it(run, fails, words, story, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("a zoo\n")
    assert run("score", words, story, "--lines").exit_code == 0
    assert "--skip-unknown" in fails("score", words, other)
    result = run("score", words, other, "--skip-unknown")
    assert "of 4 steps" in result.stdout


def test_an_embedded_set_must_be_what_the_model_was_made_for(fails, temps):
    assert "nile holds flow (real), but the model was made for temp (real)" in fails("score", temps, "nile")
    assert "leave out --wide" in fails("score", temps, "nile", "--wide")


def test_a_table_of_unknown_form_is_refused(fails, temps, weather, tmp_path):
    assert "a table is written as .csv, .json, .parquet" in fails("score", temps, weather, "--out", tmp_path / "x.xlsx")


def test_symbols_have_accuracy_and_numbers_crps(run, skies, temps, weather, tmp_path):
    import jax.random as jr

    found = hs.evaluate(hs.load(skies), hs.read(weather, schema=hs.load(skies).schema), key=jr.key(0)).only
    result = run("score", skies, weather)
    assert f"accuracy         {found.accuracy[0]:.4f}" in result.stdout and "expected error" in result.stdout
    found = hs.evaluate(hs.load(temps), hs.read(weather, schema=hs.load(temps).schema), key=jr.key(0)).only
    result = run("score", temps, weather, "--plot", tmp_path / "intervals.png")
    assert f"CRPS             {found.crps[0]:.6g}" in result.stdout
    assert f"{found.coverage[0.8][0]:.1%} in the 80%" in result.stdout
    assert (tmp_path / "intervals.png").stat().st_size > 10_000


def test_forecasts_are_judged_by_steps_ahead(run, fails, temps, weather, tmp_path):
    plot = tmp_path / "ahead.png"
    result = run("score", temps, weather, "--horizon", 3, "--samples", 50, "--plot", plot)
    assert result.exit_code == 0, result.output
    assert "forecasts of 3 steps from 48 places in the data; seed 0" in result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()[:2] in ("1 ", "2 ", "3 ")]
    assert [row[0] for row in rows] == ["1", "2", "3"] and {row[1] for row in rows} == {"48"}
    assert plot.stat().st_size > 10_000
    scores = tmp_path / "scores.csv"
    said = fails("score", temps, weather, "--horizon", 8, "--out", scores)
    assert "horizon is 8, but at most 7 can be judged here" in said and not scores.exists()
