"""What `fit` was told of a file, later commands know."""

import pytest

CASES = {
    "lines": ("a.txt", "a b a c\nb a b\n" * 4, ["--lines", "--text", "tokens"], "8 sequences of 3 to 4 steps"),
    "wide": (
        "a.csv",
        "d1;d2;d3\n" + "1.5;2.5;3.5\n2.5;0.5;\n" * 3,
        ["--wide", "--separator", ";"],
        "6 sequences of 2 to",
    ),
    "bare": ("a.csv", "1.5\n2.5\n0.5\n3.5\n" * 5, ["--no-header"], "1 sequence of 20 steps"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_read_as_fit_read_it(run, tmp_path, case):
    name, content, options, said = CASES[case]
    data, model = tmp_path / name, tmp_path / "m.safetensors"
    data.write_text(content)
    words = ["--model", "hmm", "--states", "2", "--epochs", "1", "--out", model]
    fitted = run("fit", data, *words, *options)
    assert fitted.exit_code == 0 and said in fitted.stderr
    for command in (["score"], ["forecast", "--horizon", "2", "--samples", "5", "--out", tmp_path / "f.csv"]):
        result = run(command[0], model, data, *command[1:])
        assert result.exit_code == 0 and said in result.stderr, result.output
    if case != "bare":  # which has no names for the columns of sequences and steps
        drawn = tmp_path / ("drawn.txt" if case == "lines" else "drawn.csv")
        assert run("sample", model, "--length", 3, "-n", 4, "--out", drawn).exit_code == 0
        again = run("score", model, drawn)
        assert again.exit_code == 0 and "4 sequences of 3 steps" in again.stderr, again.output
    decoded = run("decode", model, data, "--out", tmp_path / "d.csv")
    assert decoded.exit_code == 0 and said in decoded.stderr, decoded.output


def test_what_is_remembered_can_be_undone(run, words, story):
    assert "2 sequences" in run("score", words, story).stderr
    assert "1 sequence " in run("score", words, story, "--no-lines", "--skip-unknown").stderr
