import json

import pytest

import hiddenstate as hs


def test_every_name_is_listed(run):
    result = run("reproduce", "list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(hs.papers.PAPERS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "'nonsense' is no figure or claim"),
        (["tripp", "--quick", "--full"], "take one of them"),
    ],
)
def test_what_cannot_be_run_is_refused(run, words, said):
    result = run("reproduce", *words)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_run_is_printed_and_written(run, tmp_path, monkeypatch):
    from hiddenstate.papers import switching2024
    from papers.test_switching2024 import TINY

    monkeypatch.setattr(switching2024, "QUICK", TINY)
    result = run("reproduce", "switching2024", "--out", tmp_path, "--plots", "svg")
    assert result.exit_code == 0, result.stderr
    assert "claims hold" in result.stdout
    assert (tmp_path / "report.html").exists()
    folder = tmp_path / "switching2024"
    written = json.loads((folder / "result.json").read_text())
    assert [claim["statement"] for claim in written["claims"]]
    assert (folder / "plot.svg").exists()
    assert {f"{name}.csv" for name in written["tables"]} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(("what", "said"), [({"config": {"x": 1}}, "config is"), ({"seed": "a"}, "seed is 'a'")])
def test_wrong_arguments_are_refused_in_words(what, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.papers.reproduce("tripp", **what)
