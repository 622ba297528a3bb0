import json
from dataclasses import asdict, replace

import jax.random as jr
import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.learn.compare import Comparison, Row
from hiddenstate.learn.scores import step_nats
from hiddenstate.report.comparison import make_folder, meaning, print_ranking, write_comparison
from marks import quick

PLOTS = {"ranking.png", "training.png", "predictions.png", "cumulative.png"}


def row(model, nats, difference, *, baseline=False, error=0.05):
    return Row(model, nats, error, difference, 0.0 if difference == 0 else error, 9, 1.5, True, "why.", baseline)


def comparison(data, names):
    """What a comparison of models that were built but not fitted would be; the first is the best."""
    train, test = data.split_time(0.6, context=True)
    models = {name: hs.build(name, train, key=jr.key(0)) for name in names}
    history = pl.DataFrame(
        {
            "step": [1, 2, 3],
            "epoch": [1, 2, 3],
            "loss": [3.0, 2.0, 1.0],
            "validation": [3.0, None, 2.0],
            "gradient_norm": [1.0, 1.0, 1.0],
        }
    )
    rows = tuple(row(name, 1.0 + 0.5 * i, 0.5 * i, baseline=name == "unigram") for i, name in enumerate(names))
    nats = {name: step_nats(model, test) for name, model in models.items()}
    return Comparison(rows, models, dict.fromkeys(names, history), train, test, nats, "cut in time.")


def symbols():
    return hs.Sequences.of([np.arange(20) % 3, np.arange(14) % 2])


def reals():
    return hs.Sequences.of([np.sin(np.arange(20.0)), np.cos(np.arange(14.0))])


def vectors():
    return hs.Sequences.of([np.stack([np.arange(20) % 2, np.arange(20) // 3 % 2], axis=1)])


@pytest.fixture(scope="module")
def small():
    return comparison(reals(), ["vanilla", "unigram"])


@pytest.mark.parametrize("data", quick([symbols, reals, vectors]))
def test_the_folder_holds_tables_models_and_plots(data, tmp_path):
    made = comparison(data(), ["vanilla", "unigram"])
    write_comparison(made, tmp_path, about={"seed": 7}, key=jr.key(0))
    files = {path.name for path in tmp_path.iterdir()}
    assert files == PLOTS | {"table.csv", "table.json", "about.json", "models", "report.html"}
    rows = json.loads((tmp_path / "table.json").read_text())
    assert rows == [asdict(row) for row in made.rows]
    assert pl.read_csv(tmp_path / "table.csv")["nats_per_step"].to_list() == [1.0, 1.5]
    about = json.loads((tmp_path / "about.json").read_text())
    assert (about["seed"], about["split"]) == (7, "cut in time.")
    for name, model in made.models.items():
        loaded = hs.load(tmp_path / "models" / f"{name}.safetensors")
        np.testing.assert_array_equal(hs.log_prob(loaded, made.train), hs.log_prob(model, made.train))
    for plot in PLOTS:
        assert_png(tmp_path / plot)


def assert_png(path):
    """A PNG of at least 1000 by 300 pixels that is not blank."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert width >= 1000 and height >= 300
    assert len(content) > 8000


def test_the_table_is_printed_best_first(small, capsys):
    print_ranking(replace(small, rows=(small.rows[0], replace(small.rows[1], converged=False))))
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[2][:4] == ["vanilla", "1.0000", "±", "0.0500"]
    assert lines[3][:7] == ["unigram", "1.5000", "±", "0.0500", "0.5000", "±", "0.0500"]
    assert "baseline," in lines[3]


def test_no_number_of_the_table_is_cut_in_a_narrow_terminal(small, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [row(name, 0.3, 0.0) for name in ("gru", "mingru (2 layers)", "mingru")]
    rows = [replace(one, quality=0.8197, measure="accuracy", solved=False, parameters=2434) for one in rows]
    rows = [
        replace(one, seconds=seconds, difference=0.1) for one, seconds in zip(rows, (0.2, 127.4, 16.6), strict=True)
    ]
    print_ranking(replace(small, rows=tuple(rows)))
    said = capsys.readouterr().out
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
    words = said.split()
    assert {"<1", "127", "17", "2,434", "0.8197"} <= set(words)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [row("a", 1.0, 0), row("b", 2.0, 1.0, baseline=True)],
            "Each held-out step is 2.72 times as probable",
        ),
        ([row("a", 1.0, 0), row("b", 1.05, 0.05)], "but b is within two standard errors of it"),
        ([row("a", 1.0, 0), row("b", 1.0, 0)], "but b is within two standard errors of it"),
        ([row("a", 1, 0), row("b", 1.0, 0.01), row("c", 1.0, 0.02)], "but b and c are within two"),
        ([row("b", 1.0, 0, baseline=True), row("a", 2.0, 1.0)], "No network beats this baseline"),
        ([row("a", np.nan, np.nan)], "No model gave the held-out data a finite probability"),
    ],
)
def test_the_meaning_is_said_in_words(small, rows, said):
    sentence = meaning(replace(small, rows=tuple(rows)))
    assert sentence.startswith("nats per step: lower is better")
    assert said in sentence


def test_symbols_that_were_never_learned_are_named(small):
    letters = hs.Sequences.of([[0, 1, 0, 1], [0, 1], [0, 2, 3]])
    sentence = meaning(replace(small, train=letters[[0, 1]], test=letters[[2]]))
    assert "No model learned from 2 symbols of the held-out part (2, 3)" in sentence
    assert "learned from" not in meaning(replace(small, train=letters, test=letters))


def test_models_that_failed_are_left_out_of_the_plots(small, tmp_path):
    failed = row("unigram", np.nan, np.nan, baseline=True)
    write_comparison(replace(small, rows=(small.rows[0], failed)), tmp_path / "some", about={}, key=jr.key(0))
    assert_png(tmp_path / "some" / "ranking.png")
    assert json.loads((tmp_path / "some" / "table.json").read_text())[1]["nats_per_step"] is None
    write_comparison(replace(small, rows=(failed,)), tmp_path / "none", about={}, key=jr.key(0))
    assert not (tmp_path / "none" / "ranking.png").exists()


def test_models_far_behind_do_not_squeeze_the_others(small, tmp_path):
    far = [row("vanilla", 1.0, 0.0), row("unigram", 1.2, 0.2, baseline=True), row("far", 90.0, 89.0)]
    made = replace(
        small,
        rows=tuple(far),
        models={**small.models, "far": small.models["vanilla"]},
        histories={**small.histories, "far": small.histories["vanilla"]},
        step_nats={**small.step_nats, "far": 90 * small.step_nats["vanilla"]},
    )
    write_comparison(made, tmp_path, about={}, key=jr.key(0))
    assert_png(tmp_path / "ranking.png")


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hs.FileError, match="cannot make the folder"):
        make_folder(tmp_path / "file")
