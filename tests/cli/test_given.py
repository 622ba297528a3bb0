"""`--given` on the command line."""

import numpy as np

import hiddenstate as hs


def test_score_leaves_the_given_steps_out_and_says_so(run, skies, weather):
    result = run("score", skies, weather, "--given", 2)
    model = hs.load(skies)
    expected = hs.score(model, hs.read(weather, schema=model.schema), given=2)
    assert f"{expected.nats_per_step:.6f}" in result.stdout
    assert f"of {expected.steps} steps" in result.stdout
    assert "the first 2 steps of each sequence read, not scored" in result.stderr


def test_fit_learns_and_scores_given_the_first_step(run, tmp_path):
    text = tmp_path / "lines.txt"
    text.write_text("ab\nba\n" * 6)
    out = tmp_path / "model.safetensors"
    options = ("--model", "vanilla", "--hidden", 2, "--epochs", 1, "--validation", 0, "--given", 1, "--out", out)
    result = run("fit", text, *options)
    assert "the first step of each sequence read, not scored" in result.stderr
    model = hs.load(out)
    expected = hs.score(model, hs.read(text, schema=model.schema), given=1)
    assert str(expected) in result.stdout


def test_what_cannot_be_given_ends_with_a_sentence(fails, skies, weather, tmp_path):
    out = tmp_path / "m.safetensors"
    assert "EM maximises the likelihood of all steps" in fails(
        "fit", "nile", "--model", "hmm", "--given", 1, "--out", out
    )
    longest = int(np.max(hs.read(weather, schema=hs.load(skies).schema).lengths))
    assert "nothing is left to score" in fails("score", skies, weather, "--given", longest)
    assert "leave out --given" in fails("compare", "--task", "parity", "--given", 1, "--out", tmp_path / "c")
