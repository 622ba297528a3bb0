import json

import jax.random as jr
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app
from hiddenstate.cli.select import numbers
from hiddenstate.learn.select import Candidate, Selection
from hiddenstate.report.selection import plot_selection
from hiddenstate.report.tables import sequence_table


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("select")
    true = hs.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], hs.emissions.Gaussian([-3.0, 3.0], [1.0, 1.0]))
    path = folder / "two.csv"
    sequence_table(hs.sample(true, 40, key=jr.key(0), n=6)).write_csv(path)
    words = ["select", path, "--sequence", "sequence", "--time", "step", "--columns", "x", "--states", "1,2"]
    words += ["--restarts", 2, "--out", folder / "result", "--seed", 1]
    return folder / "result", CliRunner().invoke(app, [str(word) for word in words])


def test_it_prints_a_table_and_what_it_means(chosen):
    _, result = chosen
    assert result.exit_code == 0, result.output
    assert "hmm (states=2)" in result.stdout and "BIC" in result.stdout
    assert "Lower is better. Chosen: hmm (states=2), by" in result.stdout
    assert "seed 1" in result.stderr and "hmm (states=2) (2 of 2)" in result.stderr


def test_it_writes_table_model_and_plot(chosen):
    out, _ = chosen
    rows = json.loads((out / "table.json").read_text())
    assert [row["model"] for row in rows] == ["hmm (states=2)", "hmm (states=1)"]
    assert {"criterion", "log_prob", "parameters", "difference", "converged"} <= set(rows[0])
    assert pl.read_csv(out / "table.csv")["parameters"].to_list() == [7, 2]
    about = json.loads((out / "about.json").read_text())
    assert about["chosen"] == "hmm (states=2)" and about["criterion"] == "bic" and about["seed"] == 1
    model = hs.load(out / "best.safetensors")
    np.testing.assert_allclose(np.sort(model.emission.means), [-3, 3], atol=0.5)
    assert (out / "selection.png").stat().st_size > 5000


def test_candidates_without_a_size_are_drawn_too(tmp_path):
    rows = tuple(
        Candidate(name, 1.0 + i, 0.1, 1.0 * i, 0.1, -10.0, 1.0, 3, True, 0.1, "") for i, name in enumerate("ab")
    )
    found = Selection("cv", rows, {}, {"a": {"model": "a"}, "b": {"model": "b"}}, 10, "")
    plot_selection(found, tmp_path / "dots.png")
    assert (tmp_path / "dots.png").stat().st_size > 3000


def test_numbers_are_read_as_people_write_them():
    assert numbers("1-4", "--states") == [1, 2, 3, 4] and numbers("2, 8,2", "--states") == [2, 8]
    for text in ("", "a", "0", "3-1", "1-b"):
        with pytest.raises(hs.HiddenStateError, match="--states is"):
            numbers(text, "--states")


def test_bad_arguments_are_told_before_the_work(fails, weather, tmp_path):
    assert "no model named 'nope'" in fails("select", weather, "--model", "nope", "--out", tmp_path / "a")
    assert "--states is 'x'" in fails("select", weather, "--states", "x", "--out", tmp_path / "a")
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "cannot make the folder" in fails("select", weather, "--out", blocked)
