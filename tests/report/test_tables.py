import json

import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.report.tables import print_table, score_table, sequence_table, to_json, visible, write_table

SKY = hs.Column("sky", "symbol", 2, ("dry", "wet"))


def test_scores_leave_out_the_context():
    data = hs.Sequences.of([[0.0] * 4, [0.0] * 2], names=["a", "b"]).after([1, 0])
    table = score_table(np.array([[0, 1.0, 2, 3], [4, 5, 0, 0]]), data)
    assert table.rows() == [("a", 3, 2.0, -6.0), ("b", 2, 4.5, -9.0)]


def test_sequences_become_rows_with_names_for_symbols():
    schema = hs.Schema((SKY, hs.Column("step", "real")), scalar=False)
    data = hs.Sequences.of([[[0.0, 1.5], [1.0, 2.5]]], names=["a"], schema=schema)
    table = sequence_table(data)
    assert table.columns == ["sequence", "step_", "sky", "step"]
    assert table.rows() == [("a", 1, "dry", 1.5), ("a", 2, "wet", 2.5)]


def test_a_schema_names_its_own_columns():
    schema = hs.Schema((hs.Column("x", "count"),), scalar=True, sequence="who", time="when")
    table = sequence_table(hs.Sequences.of([[3, 4]], schema=schema))
    assert table.columns == ["who", "when", "x"]


def test_json_has_null_where_a_number_is_not_finite():
    rows = json.loads(to_json(pl.DataFrame({"a": [1.0, float("nan"), None], "b": ["x", "y", "z"]})))
    assert rows == [{"a": 1.0, "b": "x"}, {"a": None, "b": "y"}, {"a": None, "b": "z"}]


@pytest.mark.parametrize(
    ("ending", "read"), [("csv", pl.read_csv), ("parquet", pl.read_parquet), ("json", pl.read_json)]
)
def test_tables_are_written_by_their_ending(tmp_path, ending, read):
    table = pl.DataFrame({"a": [1, 2], "b": ["x", "y,z"]})
    write_table(table, tmp_path / f"t.{ending}")
    assert read(tmp_path / f"t.{ending}").rows() == table.rows()


def test_other_endings_and_folders_that_are_not_there_are_told(tmp_path):
    table = pl.DataFrame({"a": [1]})
    with pytest.raises(hs.FileError, match=r"written as \.csv"):
        write_table(table, tmp_path / "t.xlsx")
    with pytest.raises(hs.FileError, match="cannot write"):
        write_table(table, tmp_path / "no" / "t.csv")


def test_printing_leaves_out_empty_columns_and_says_what_is_cut(capsys):
    print_table(pl.DataFrame({"a": [1.23456789], "[b]": ["[x]"], "c": [None]}), cut=1200)
    shown = capsys.readouterr().out
    assert "1.2346" in shown and "[b]" in shown and "[x]" in shown
    assert "c" not in shown.split("...")[0].replace("[b]", "")
    assert "1,200 rows more" in shown


def test_white_space_is_made_visible():
    assert [visible(s) for s in (" ", "\n", "a b")] == ["␣", "⏎", "a b"]
