"""Parts of a run are kept, and only those of the same run are used again."""

from dataclasses import dataclass

import pytest

import hiddenstate as hs
from hiddenstate.papers.paper import Notebook, identity_of


@dataclass(frozen=True)
class Config:
    size: int = 3


SMALL = Config()


def kept(folder, config=SMALL, seed=0, said=None):
    return Notebook(folder, identity_of("trial", config, seed), None if said is None else said.append)


def test_a_part_is_computed_once(tmp_path):
    calls = []

    def work():
        calls.append(1)
        return {"rows": [(1, 2.5)], "name": "a"}

    first = kept(tmp_path).part("units = 3", work)
    said = []
    again = kept(tmp_path, said=said)
    assert again.part("units = 3", work) == first == {"rows": [[1, 2.5]], "name": "a"}
    assert len(calls) == 1
    assert said == ["units = 3: done before"]
    assert again.seconds["units = 3"] >= 0


@pytest.mark.parametrize("other", [{"config": Config(4)}, {"seed": 1}])
def test_parts_of_another_run_are_computed_anew(tmp_path, other):
    kept(tmp_path).part("a", lambda: 1)
    assert kept(tmp_path, **other).part("a", lambda: 2) == 2


def test_a_damaged_part_is_computed_anew(tmp_path):
    kept(tmp_path).part("a", lambda: 1)
    (tmp_path / "parts" / "a.json").write_text('{"identity": {')
    assert kept(tmp_path).part("a", lambda: 2) == 2


def test_parts_that_are_ready_survive_one_that_fails(tmp_path):
    notebook = kept(tmp_path)
    notebook.part("a", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        notebook.part("b", interrupt)
    again = kept(tmp_path)
    assert again.part("a", lambda: 3) == 1
    assert again.part("b", lambda: 4) == 4


def interrupt():
    raise KeyboardInterrupt


def test_parts_are_counted():
    said = []
    notebook = kept(None, said=said)
    notebook.expect(2)
    notebook.part("a", lambda: 1)
    notebook.part("b", lambda: 1)
    assert said == ["a (1 of 2)", "b (2 of 2)"]


def test_an_unknown_name_is_refused():
    with pytest.raises(hs.HiddenStateError, match="'nonsense' is no figure or claim"):
        hs.papers.reproduce("nonsense")
