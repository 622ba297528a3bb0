import json

import jax.random as jr
import polars as pl
import pytest
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app


@pytest.fixture(scope="module")
def compared(tmp_path_factory, weather):
    out = tmp_path_factory.mktemp("compare") / "result"
    words = ["compare", weather, "--sequence", "town", "--time", "day", "--columns", "sky", "--out", out]
    words += ["--models", "unigram,vanilla", "--hidden", 2, "--epochs", 2, "--seed", 1]
    return out, CliRunner().invoke(app, [str(word) for word in words])


def test_it_prints_a_ranked_table(compared):
    _, result = compared
    assert result.exit_code == 0, result.output
    assert "unigram" in result.stdout and "vanilla" in result.stdout and "baseline" in result.stdout
    assert "lower is better" in result.stdout
    assert "seed 1" in result.stderr and "vanilla (2 of 2)" in result.stderr and "held out" in result.stderr


def test_it_says_what_it_makes_of_the_result(compared):
    _, result = compared
    noted = result.stderr[result.stderr.index("makes the page and plots") :].splitlines()
    titles = {"Predictions", "Forecasts", "Calibration", "States and beliefs"}
    assert {line.strip() for line in noted[1:-1]} == titles and noted[-1].strip() == "Plots"


def test_it_writes_tables_models_and_plots(compared):
    out, _ = compared
    rows = json.loads((out / "table.json").read_text())
    assert {"model", "nats_per_step", "standard_error", "parameters", "seconds"} <= set(rows[0])
    assert [row["nats_per_step"] for row in rows] == sorted(row["nats_per_step"] for row in rows)
    assert pl.read_csv(out / "table.csv")["model"].to_list() == [row["model"] for row in rows]
    assert json.loads((out / "about.json").read_text())["seed"] == 1
    for name in ("ranking", "training", "predictions", "cumulative"):
        assert (out / f"{name}.png").stat().st_size > 5000


def test_the_table_is_right(compared, weather):
    out, _ = compared
    data = hs.read(weather, sequence="town", time="day", columns="sky")
    comparison_key = jr.split(jr.key(1))[0]
    _, _, held = data.split(0.7, 0.15, key=jr.split(comparison_key, 3)[0])
    for row in json.loads((out / "table.json").read_text()):
        model = hs.load(out / "models" / f"{row['model']}.safetensors")
        assert row["parameters"] == hs.parameter_count(model)
        nats = -float(hs.log_prob(model, held, total=True)) / held.steps
        assert row["nats_per_step"] == pytest.approx(nats, rel=1e-5)


def test_bad_arguments_are_told_before_the_work(fails, weather, tmp_path):
    layout = ("--sequence", "town", "--columns", "temp")
    out = tmp_path / "out"
    assert "there is no model named 'nope'" in fails("compare", weather, *layout, "--models", "nope", "--out", out)
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "cannot make the folder" in fails("compare", weather, *layout, "--out", blocked)
    short = tmp_path / "short.csv"
    short.write_text("x\n1.5\n2.5\n")
    assert "too few" in fails("compare", short, "--out", out)


def test_a_model_that_is_not_there_is_told_first(run, weather, tmp_path):
    result = run("compare", weather, "--sequence", "town", "--columns", "temp", "--models", "nope", "--out", tmp_path)
    assert result.exit_code == 2 and "fits" not in result.stderr


def test_a_task_says_what_is_possible(run, fails, weather, tmp_path):
    out = tmp_path / "task"
    task = "hmm:states=2,symbols=3,sequences=20,length=10"
    result = run("compare", "--task", task, "--models", "unigram", "--out", out)
    assert result.exit_code == 0, result.output
    assert "above optimal" in result.stdout and "The best possible prediction needs" in result.stdout
    assert "20 sequences of 10 steps, 1 column: x (3 symbols: 0, 1, 2); seed 0" in result.stderr
    row = json.loads((out / "table.json").read_text())[0]
    assert row["above_optimal"] is not None and (out / "ranking.png").stat().st_size > 5000
    assert "leave out DATA" in fails("compare", weather, "--task", "hmm", "--out", out)
    assert "it must be hmm" in fails("compare", "--task", "copy", "--out", out)
    assert "'size=2' is none of states, symbols" in fails("compare", "--task", "hmm:size=2", "--out", out)
