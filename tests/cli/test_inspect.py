import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app

pytestmark = pytest.mark.xdist_group("inspect")  # one page for all


def test_the_graph_of_a_saved_network(run, temps, tmp_path):
    out = tmp_path / "graph.svg"
    result = run("inspect", "graph", temps, "--steps", 4, "--form", "loop", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "RNN of Vanilla, 4 steps: H_t -> X_t, X_t -> H_t+1, H_t -> H_t+1",
        "X_t from X_<t given H_t: holds by structure",
        "H_t+1 from X_<t given H_t, X_t: holds by structure",
        "H_t+1 from X_>t given H_t, X_t: holds only by determinism",
        "H_t+1 from X_<t and X_>t given H_t, X_t: holds only by determinism",
        "H_t from X_>=t given X_<t: holds only by determinism",
        "X_t from X_<t-1 given X_t-1: does not hold",
        "X_t from X_<t: does not hold",
        f"drawn in {out}",
    ]
    assert out.read_text().startswith("<?xml")


def test_the_graph_of_a_latent_model_in_both_views(run, tmp_path):
    path = tmp_path / "hmm.safetensors"
    emission = hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]])
    hs.save(hs.HMM([0.5, 0.5], [[0.7, 0.3], [0.4, 0.6]], emission), path)
    assert "HMM, 2 steps: Z_t -> X_t, Z_t -> Z_t+1" in run("inspect", "graph", path, "--steps", 2).stdout
    belief = run("inspect", "graph", path, "--view", "recurrence", "--steps", 3)
    assert "H_t+1 from X_>t given H_t, X_t: holds only by determinism" in belief.stdout


def test_examples_need_no_file(run):
    result = run("inspect", "graph", "switching")
    assert result.exit_code == 0
    assert "S_t+1 from X_>t given S_t, X_t: does not hold" in result.stdout
    assert run("inspect", "graph", "hmm", "--steps", 1).exit_code == 0


def test_what_is_wrong_is_said(fails, run, story, temps, tmp_path):
    said = fails("inspect", "graph", "transformer")
    assert said == "error: transformer is no file and no example; examples are rnn, hmm, particle-filter, switching."
    assert str(story) in fails("inspect", "graph", story)
    assert "a plot is written as" in fails("inspect", "graph", temps, "--out", tmp_path / "graph.txt")
    assert "cannot write" in fails("inspect", "graph", "rnn", "--out", tmp_path / "nowhere" / "graph.svg")
    for words in (["--steps", "0"], ["--form", "circle"], ["--view", "top"], []):
        result = run("inspect", "graph", *(["rnn"] if words else []), *words)
        assert result.exit_code == 2
        assert result.stderr


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "page"], ["inspect", "graph"], ["inspect", "switching"]])
def test_help_has_an_example(run, words):
    result = run(*words, "--help")
    assert result.exit_code == 0
    shown = {"inspect": "gru.safetensors", "page": "gru.safetensors"}.get(words[-1], words[-1])
    assert f"hiddenstate inspect {shown}" in result.output.split("Example:")[1]


def test_help_imports_nothing_heavy():
    code = """
import sys
from typer.testing import CliRunner
from hiddenstate.cli import app
for words in (["--help"], ["inspect", "--help"], ["inspect", "graph", "--help"]):
    assert CliRunner().invoke(app, words).exit_code == 0
print(sorted({"jax", "numpy", "networkx", "matplotlib", "equinox"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_study_of_switching_is_written(run, fails, tmp_path):
    out = tmp_path / "study"
    result = run("inspect", "switching", "--out", out, "--steps", 10, "--sequences", 20, "--levels", 3, "--seed", 1)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "seed 1: 20 sequences of 10 steps at each of 3 levels, kept states seen"
    assert [line.strip() for line in result.stderr.splitlines()] == [f"level {i} of 3" for i in (1, 2, 3)]
    assert lines[1].startswith("The one-pass rule of minGRU is 0.")
    assert "and 0.000 ± 0.000 where it tells all 0.500 nats" in lines[1]
    assert len((out / "switching.csv").read_text().splitlines()) == 4
    assert (out / "switching.png").stat().st_size > 10_000
    assert "cannot make the folder" in fails("inspect", "switching", "--out", out / "switching.csv")
    assert run("inspect", "switching", "--out", out, "--levels", 1).exit_code == 2


@pytest.fixture(scope="module")
def inspected(temps, weather, tmp_path_factory):
    out = tmp_path_factory.mktemp("inspect") / "page"
    words = ["inspect", temps, weather, "--sequence", "town", "--time", "day", "--out", out, "--plots", "svg"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return out, result


def test_a_model_and_data_make_a_page(inspected, temps, weather):
    out, result = inspected
    text = (out / "report.html").read_text()
    for title in ("Score", "Predictions", "Forecasts", "Calibration", "States and beliefs", "Gradients"):
        assert f"<h2>{title}</h2>" in text
    words = re.sub("<.*?>", "", text)
    assert f"hiddenstate inspect {temps} {weather} --sequence town" in words and "--seed 0" in words
    assert f"open {out / 'report.html'} in a browser" in result.stdout


def test_charts_of_a_page_are_written_as_files(inspected):
    out, result = inspected
    drawn = {path.name for path in out.glob("*.svg")}
    assert {"predictions.svg", "forecasts.svg", "states-and-beliefs.svg"} <= drawn
    assert all(f"drawn in {out / name}" in result.stdout for name in drawn)


def test_a_model_that_is_called_as_a_command_is_given_with_its_folder(
    run, fails, temps, weather, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph").write_bytes(temps.read_bytes())
    assert run("inspect", "graph", "graph").stdout.startswith("RNN of Vanilla")
    assert "nowhere.csv" in fails("inspect", "./graph", "nowhere.csv")
    assert "nowhere.csv" in fails("inspect", "page", "graph", "nowhere.csv")


@pytest.mark.parametrize("words", [["nowhere.safetensors", "x.csv"], ["--out", "x", "nowhere.safetensors", "x.csv"]])
def test_a_first_word_that_is_no_command_is_a_model(fails, words):
    assert "nowhere.safetensors" in fails("inspect", *words)


def test_the_page_of_a_model_that_answers(run, tmp_path):
    (tmp_path / "data.csv").write_text(
        "who,x,label\n" + "".join(f"{w},{(w * s) % 3 / 2},{'ab'[w % 2]}\n" for w in range(12) for s in range(5))
    )
    model = tmp_path / "model.safetensors"
    words = (tmp_path / "data.csv", "--sequence", "who")
    made = run("fit", *words, "--model", "gru", "--target", "label", "--out", model, "--epochs", 1, "--hidden", 3)
    assert made.exit_code == 0, made.stderr
    result = run("inspect", model, *words, "--out", tmp_path / "page")
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "page" / "report.html").read_text()
    assert "<h2>Calibration</h2>" in text and "<h2>Forecasts</h2>" not in text and "Left out" not in text
