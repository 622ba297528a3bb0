"""A schema remembers how its file was read, so that another file is read alike."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs

TABLE = "day;rain\n1;0.5\n2;1.5\n3;0.0\n"


def again(path, **options):
    """The lengths of the file read with options, and those of a second reading by the schema alone."""
    first = hs.read(path, **options)
    second = hs.read(path, schema=first.schema)
    np.testing.assert_array_equal(first.values, second.values)
    return first.lengths.tolist(), second.lengths.tolist()


@pytest.mark.parametrize(
    ("name", "content", "options", "lengths"),
    [
        ("a.txt", "a b a\nb a\n", {"text": "tokens", "lines": True}, [3, 2]),
        ("a.txt", "ab\nb\n", {"lines": True}, [2, 1]),
        ("a.csv", "d1,d2,d3\n1.5,2.5,3.5\n4.5,5.5,\n", {"wide": True}, [3, 2]),
        ("a.csv", "1.5,2.5,3.5\n4.5,5.5,\n", {"wide": True, "header": False}, [3, 2]),
        ("a.csv", "1.5\n2.5\n3.5\n", {"header": False}, [3]),
        ("a.csv", TABLE, {"separator": ";", "columns": "rain", "time": "day"}, [3]),
        ("a.csv", "1.5;2.5\n", {"separator": ";", "header": False, "wide": True}, [2]),
    ],
)
def test_a_file_is_read_again_by_the_schema_alone(tmp_path, name, content, options, lengths):
    path = tmp_path / name
    path.write_text(content)
    assert again(path, **options) == (lengths, lengths)


def test_answers_are_read_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("s1;s2;mood\n1.5;2.5;good\n2.5;;bad\n")
    first = hs.read(path, wide=True, separator=";", target="mood")
    second = hs.read(path, schema=first.sources.schema, target_schema=first.targets.schema)
    assert second.sources.lengths.tolist() == [2, 1] and second.targets.values.ravel().tolist() == [1, 0]


def test_what_is_said_goes_before_what_is_remembered(tmp_path):
    text, table = tmp_path / "a.txt", tmp_path / "a.csv"
    text.write_text("ab\nba\n")
    schema = hs.read(text).schema
    assert hs.read(text, schema=schema, lines=True).lengths.tolist() == [2, 2]
    schema = hs.Schema((hs.Column("text", "symbol", 3, ("\n", "a", "b")),), True, text="characters", lines=True)
    assert hs.read(text, schema=schema, lines=False).lengths.tolist() == [6]
    table.write_text("x\n1.5\n2.5\n")
    wide = hs.Schema((hs.Column("x", "real"),), True, wide=True, header=False)
    assert hs.read(table, schema=wide, wide=False, header=True).lengths.tolist() == [2]


def test_files_of_other_forms_are_read_in_theirs(tmp_path):
    comma, lines = tmp_path / "a.csv", tmp_path / "a.ndjson"
    comma.write_text("day,rain\n1,0.5\n2,1.5\n")
    lines.write_text('{"rain": 0.5}\n{"rain": 1.5}\n')
    schema = hs.Schema((hs.Column("rain", "real"),), True, separator=";")
    assert hs.read(comma, schema=schema).lengths.tolist() == [2]
    bare = hs.Schema((hs.Column("rain", "real"),), True, header=False, separator=";")
    assert hs.read(lines, schema=bare).lengths.tolist() == [2]


def test_a_model_file_keeps_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b a\nb a\n")
    data = hs.read(path, text="tokens", lines=True)
    hs.save(hs.build("hmm", data, states=2, key=jr.key(0)), tmp_path / "m.safetensors")
    model = hs.load(tmp_path / "m.safetensors")
    assert hs.read(path, schema=model.schema).lengths.tolist() == [3, 2]
