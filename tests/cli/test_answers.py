"""A labelled table of ragged sequences, from fit to answers."""

import json

import jax.random as jr
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app

LAYOUT = ("--sequence", "who", "--time", "day", "--target", "ill")


@pytest.fixture(scope="module")
def patients(folder):
    """Thirty patients of 3 to 6 days; those who are ill are hotter."""
    random = np.random.default_rng(0)
    rows = ["who,day,heat,mood,ill,score"]
    for who in range(30):
        ill = who % 2
        for day in range(3 + who % 4):
            heat = 36.5 + 3 * ill + random.normal()
            rows.append(
                f"P{who},{day},{heat:.2f},{('good', 'bad')[random.integers(2)]},{('no', 'yes')[ill]},{2.5 * ill}"
            )
    path = folder / "patients.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def new(folder, patients):
    """Three of them without what is to be told."""
    path = folder / "new.csv"
    frame = pl.read_csv(patients).filter(pl.col("who").is_in(["P0", "P1", "P2"]))
    frame.drop("ill", "score").write_csv(path)
    return path


@pytest.fixture(scope="module")
def fitted(folder, patients):
    out = folder / "ill.safetensors"
    columns = ("--columns", "heat,mood")
    words = ["fit", patients, *LAYOUT, *columns, "--hidden", 4, "--epochs", 40, "--learning-rate", 0.03, "--out", out]
    return out, CliRunner().invoke(app, [str(word) for word in words])


def test_a_classifier_is_fitted_and_says_its_accuracy(fitted, patients):
    out, result = fitted
    assert result.exit_code == 0, result.output
    assert "one answer for each sequence: ill (2 symbols: no, yes)" in result.stderr
    assert "27 sequences to learn from, 3 to stop by" in result.stderr
    assert f"hiddenstate predict {out}" in result.stderr
    pairs = hs.read(patients, sequence="who", time="day", columns=["heat", "mood"], target="ill")
    model = hs.load(out)
    train, held = pairs.split(0.9, key=jr.split(jr.key(0), 3)[0])
    for part, name in ((train, "train "), (held, "validation")):
        line = next(line for line in result.stdout.splitlines() if line.startswith(name))
        share = float(hs.evaluate(model, part, key=jr.key(0)).only.accuracy[0])
        assert line.endswith(f"({len(part)} answers), accuracy {share:.3f}")
        assert share > 0.8


def test_it_is_scored_with_calibration_and_a_plot(fitted, patients, run, tmp_path):
    out, _ = fitted
    plot, table = tmp_path / "calibration.png", tmp_path / "scores.csv"
    result = run("score", out, patients, "--plot", plot, "--out", table)
    assert result.exit_code == 0, result.output
    model = hs.load(out)
    pairs = hs.read(patients, schema=model.schema, target_schema=model.target_schema)
    found = hs.evaluate(model, pairs, key=jr.key(0)).only
    assert f"accuracy         {found.accuracy[0]:.4f} (always the most frequent: 0.5000)" in result.stdout
    assert f"log-loss         {found.log_loss[0]:.6f} nats" in result.stdout
    assert f"calibration      {found.calibration_error[0]:.4f} expected error" in result.stdout
    assert f"nats per answer  {found.log_loss[0]:.6f}" in result.stdout
    assert "confidence" in result.stdout and "perplexity" not in result.stdout
    assert plot.stat().st_size > 10_000
    assert pl.read_csv(table)["steps"].to_list() == [1] * 30


def test_new_sequences_are_answered_by_name(fitted, patients, new, run, fails, tmp_path):
    out, _ = fitted
    labels = tmp_path / "labels.csv"
    result = run("predict", out, new, "--out", labels)
    assert result.exit_code == 0, result.output
    assert "no answer is known" in result.stderr and "3 answers to 3 sequences" in result.stdout
    table = pl.read_csv(labels)
    model = hs.load(out)
    pairs = hs.read(new, schema=model.schema, target_schema=model.target_schema)
    probs = np.asarray(hs.predictive(model, pairs).probs, float)
    assert table.columns == ["who", "ill", "p(no)", "p(yes)"]
    assert table["ill"].to_list() == [("no", "yes")[code] for code in probs.argmax(1)]
    np.testing.assert_allclose(table["p(yes)"], probs[:, 1], rtol=1e-6)
    assert run("predict", out, patients, "--out", labels).exit_code == 0
    assert pl.read_csv(labels)["known_ill"].to_list() == ["no", "yes"] * 15
    strange = tmp_path / "strange.csv"
    strange.write_text(patients.read_text().replace(",no,", ",unsure,"))
    assert "'unsure'" in fails("score", out, strange)
    assert run("predict", out, strange, "--out", labels).exit_code == 0
    assert pl.read_csv(labels)["known_ill"].to_list() == [None, "yes"] * 15
    assert "has no answers in 'ill' to score by; predict gives them" in fails("score", out, new)


def test_a_causal_classifier_answers_as_observations_come(fitted, run):
    out, _ = fitted
    result = run("stream", out, stdin='[39.5, "bad"]\n[39.9, "good"]\n')
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["step"] for line in lines] == [1, 2] and set(lines[0]["probs"]) == {"no", "yes"}
    model = hs.load(out)
    data = hs.Sequences.of([[[39.5, 0.0], [39.9, 1.0]]], schema=model.schema)
    assert lines[1]["probs"]["yes"] == pytest.approx(float(hs.predictive(model, data).probs[0, 1]), rel=1e-4)


def test_what_makes_no_sense_for_answers_is_said(fitted, temps, new, weather, fails):
    out, _ = fitted
    for words in (("forecast", out, new), ("decode", out, new), ("sample", out)):
        assert "fitted without --target" in fails(*words)
    assert "fitted with --target" in fails("predict", temps, weather)
    assert "leave out --wide" not in fails("fit", new, *LAYOUT) and "has no column 'ill'" in fails("fit", new, *LAYOUT)
    assert "nothing to decode. Fit --model hmm" in fails("decode", temps, weather)


@pytest.mark.slow
def test_numbers_for_every_step_by_a_deep_network_in_both_directions(patients, run, fails, tmp_path):
    out, answers = tmp_path / "score.safetensors", tmp_path / "answers.json"
    words = ("--sequence", "who", "--columns", "heat", "--target", "score", "--outputs", "step", "--kind", "score=real")
    network = ("--model", "mingru", "--hidden", 2, "--layers", 2, "--dropout", 0.1, "--bidirectional")
    result = run("fit", patients, *words, *network, "--epochs", 1, "--out", out)
    assert result.exit_code == 0, result.output
    assert "one answer for each step: score (real)" in result.stderr and "accuracy" not in result.stdout
    result = run("score", out, patients)
    assert "CRPS" in result.stdout and "in the 95% interval" in result.stdout
    assert run("predict", out, patients, "--out", answers).exit_code == 0
    table = pl.read_json(answers)
    assert table.columns == ["who", "step", "score", "q0.05", "q0.95", "known_score"]
    assert table["step"].to_list()[:4] == [1, 2, 3, 1]
    np.testing.assert_array_less(table["q0.05"], table["score"])
    assert "use predict on a file" in fails("stream", out, stdin="36.5\n")
    assert "--bidirectional needs --target" in fails("fit", patients, "--bidirectional", "--out", out)


def test_texts_are_classified(run, tmp_path):
    reviews, out, labels = (tmp_path / name for name in ("reviews.csv", "m.safetensors", "labels.csv"))
    reviews.write_text("text,label\n" + "not good,bad\nvery good,fine\ngood,fine\nnot very good,bad\n" * 3)
    words = ("--target", "label", "--text", "tokens", "--model", "vanilla", "--hidden", 2, "--pooling", "mean")
    assert run("fit", reviews, *words, "--epochs", 1, "--out", out).exit_code == 0
    reviews.write_text("text\nnot really good\n")
    assert run("predict", out, reviews, "--skip-unknown", "--out", labels).exit_code == 0
    assert pl.read_csv(labels).columns == ["sequence", "label", "p(bad)", "p(fine)"]


def test_a_description_says_what_is_fitted_and_how(patients, run, fails, tmp_path):
    model, out = tmp_path / "deep.toml", tmp_path / "deep.safetensors"
    model.write_text("layers = [{cell = 'gru', hidden = 3}, {cell = 'vanilla', hidden = 2}]\n[training]\nepochs = 1\n")
    result = run("fit", patients, *LAYOUT, "--columns", "heat", "--model", model, "--out", out)
    assert result.exit_code == 0, result.output
    assert "ran its only epoch" in result.stdout and f"{model} by sgd" in result.stderr
    assert [type(layer).__name__ for layer in hs.load(out).body.layers()] == ["GRU", "Vanilla"]
    assert "leave out --hidden" in fails("fit", patients, *LAYOUT, "--model", model, "--hidden", 3)
