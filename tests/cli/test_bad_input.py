"""Everything a user can get wrong in a file ends in one sentence and exit code 2."""

import pytest

import hiddenstate as hs
from hiddenstate.core.storage import read_tensors, write_tensors


def csv(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("x\n1.5\n", ["--columns", "y"], "has no column 'y'; its columns are 'x'"),
        ("x\n1.5\n", ["--sequence", "y"], "has no column 'y'"),
        ("x\n1\n2.5\nhot\n", [], "column 'x' mixes numbers and words: row 3 holds 'hot'"),
        ("x\n1\n2.5\nhot\n", ["--kind", "real"], "column 'x' is to be read as real, but row 3 holds 'hot'"),
        ("x\n1.5\n", ["--kind", "colour"], "a kind is one of real, count, bit, symbol"),
        ("x\n1.5\n", ["--kind", "y=real"], "--kind names 'y'"),
        ("x\n-1\n", ["--kind", "count"], "due is a whole number from 0"),
        ("x\n", [], "has a header but no row"),
        ("", [], "is empty"),
        ("1.5\n2.5\n", [], "--no-header"),
        ("x\n1.5\n", [], "1 step in the shortest sequence: not enough to learn from most"),
        (
            "x\n1.5\n\n2.5\nNA\n3.5\n4.5\n",
            ["--validation", "0", "--epochs", "1"],
            "cannot marginalise missing",
        ),
    ],
)
def test_data_that_cannot_be_fitted(fails, tmp_path, content, words, said):
    path = csv(tmp_path, content)
    assert said in fails("fit", path, *words, "--out", tmp_path / "m.safetensors")


def test_files_that_are_not_there_or_not_ours(fails, tmp_path, temps, weather):
    assert "there is no file" in fails("fit", tmp_path / "none.csv")
    assert "nor an embedded set of that name; those are alice" in fails("compare", "nothing", "--out", tmp_path / "c")
    assert "is a folder" in fails("score", temps, tmp_path)
    assert "there is no file" in fails("score", tmp_path / "none.safetensors", weather)
    assert "no readable safetensors file" in fails("score", weather, weather)
    odd = csv(tmp_path, "x\n", "data.xyz")
    assert "the forms known are .csv" in fails("fit", odd)


def test_lists_that_name_nothing(fails, tmp_path, weather):
    assert "',' names nothing" in fails("compare", weather, "--models", ",", "--out", tmp_path / "c")
    assert "' ' names nothing" in fails("fit", weather, "--columns", " ", "--out", tmp_path / "m.safetensors")


def test_a_model_file_that_is_truncated(fails, temps, weather, tmp_path):
    path = tmp_path / "cut.safetensors"
    path.write_bytes(temps.read_bytes()[:-40])
    assert "is truncated" in fails("score", path, weather)


def test_a_model_file_of_a_newer_format(fails, temps, weather, tmp_path):
    arrays, header = read_tensors(temps)
    write_tensors(tmp_path / "new.safetensors", arrays, {**header, "format": 99})
    assert "was written by a newer version: format 99" in fails("score", tmp_path / "new.safetensors", weather)


def test_a_model_file_with_an_unknown_class(fails, temps, weather, tmp_path):
    import json

    arrays, header = read_tensors(temps)
    changed = json.loads(json.dumps(header).replace('"rnn"', '"mystery"'))
    write_tensors(tmp_path / "odd.safetensors", arrays, changed)
    assert "mystery" in fails("score", tmp_path / "odd.safetensors", weather)


def test_a_checkpoint_is_no_model(fails, temps, weather, tmp_path):
    arrays, header = read_tensors(temps)
    write_tensors(tmp_path / "c.safetensors", arrays, {**header, "kind": "checkpoint"})
    assert "give it to fit --checkpoint" in fails("score", tmp_path / "c.safetensors", weather)


def test_data_that_the_model_does_not_know(fails, skies, temps, tmp_path):
    snow = csv(tmp_path, "town,day,sky\nA,1,dry\nA,2,snow\n")
    assert "holds 'snow' at row 2, a symbol that is not in its vocabulary" in fails("score", skies, snow)
    assert "has no column 'temp'" in fails("score", temps, snow)
    gap = csv(tmp_path, "town,day,temp\nA,1,1.5\nA,2,\nA,3,2\n", "gap.csv")
    assert "cannot marginalise missing" in fails("forecast", temps, gap, "--out", tmp_path / "f.csv")


def test_symbols_out_of_range(run, fails, tmp_path):
    model = tmp_path / "m.safetensors"
    codes = csv(tmp_path, "x\n" + "0\n1\n2\n" * 10)
    result = run("fit", codes, "--model", "vanilla", "--hidden", 2, "--epochs", 1, "--out", model)
    assert "whole numbers may mean other things: --kind reads them as" in result.stderr
    assert hs.load(model).schema.kind == "symbol"
    assert "due is a whole number from 0 to 2" in fails("score", model, csv(tmp_path, "x\n1\n7\n", "far.csv"))


def test_a_path_that_cannot_be_written(fails, weather, tmp_path):
    words = (
        "--sequence",
        "town",
        "--columns",
        "sky",
        "--hidden",
        2,
        "--out",
        tmp_path / "no" / "m.safetensors",
    )
    assert "cannot write" in fails("fit", weather, *words)


def test_another_separator_is_suggested(run, fails, tmp_path):
    several, rows = tmp_path / "several.csv", tmp_path / "rows.csv"
    several.write_text("day;rain\n1;0,5\n2;1,5\n")
    assert "read it with --separator ';'" in fails("fit", several)
    several.write_text("day\train\n1\t0,5\n2\t1,5\n")
    assert r"read it with --separator $'\t'" in fails("fit", several)
    rows.write_text("day;rain\n" + "1;2\n2;2\n" * 20)
    result = run("fit", rows, "--model", "unigram", "--out", tmp_path / "m.safetensors")
    assert "the first line holds ';': --separator ';' reads several columns" in result.stderr
