import io
import json
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.core import DataError, FileError


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def parquet(frame):
    buffer = io.BytesIO()
    pl.DataFrame(frame).write_parquet(buffer)
    return buffer.getvalue()


# -- one step a row ------------------------------------------------------------------------------------------


def test_a_table_without_options_is_one_sequence_in_the_order_of_the_file(write):
    data = hs.read(write("flow.csv", "flow\n3.5\n1.5\n2.0\n"))
    assert data.values.tolist() == [[3.5, 1.5, 2.0]]
    assert data.names == ("flow",)
    assert data.schema == hs.Schema((hs.Column("flow", "real"),), scalar=True)


def test_rows_are_gathered_by_sequence_and_sorted_by_time(write):
    text = "who,when,x,y\nb,2,1.0,10.0\na,1,2.0,20.0\nb,1,3.0,30.0\nb,10,4.0,40.0\n"
    data = hs.read(write("t.csv", text), sequence="who", time="when")
    assert data.names == ("b", "a")
    assert data.lengths.tolist() == [3, 1]
    assert data[0].tolist() == [[3.0, 30.0], [1.0, 10.0], [4.0, 40.0]]
    assert data[1].tolist() == [[2.0, 20.0]]
    assert data.schema.sequence == "who" and data.schema.time == "when"
    assert [column.name for column in data.schema.columns] == ["x", "y"]


@pytest.mark.parametrize(
    "times",
    [
        ["1.5", "0.5", "1e1"],
        ["2024-01-10", "2023-12-31", "2024-02-01"],
        ["2024-01", "2023-12", "2024-02"],
        ["2024-01-10T08:00", "2024-01-10T07:59", "2024-01-10T10:00"],
        ["2024-01-10T08:00:00+00:00", "2024-01-10T07:59:00+00:00", "2024-01-10T10:00:00.5+00:00"],
    ],
)
def test_times_are_numbers_or_dates(write, times):
    rows = "".join(f"{time},{i}.5\n" for i, time in enumerate(times))
    assert hs.read(write("t.csv", f"time,x\n{rows}"), time="time").values.tolist() == [[1.5, 0.5, 2.5]]


def test_inputs_are_known_beforehand(write):
    path = write("t.csv", "x,u,holiday\n1.5,2,true\n2.5,3,false\n")
    data = hs.read(path, inputs=["u", "holiday"])
    assert data.inputs.tolist() == [[[2.0, 1.0], [3.0, 0.0]]]
    assert data.schema.inputs == ("u", "holiday")
    assert data.event_shape == ()
    assert hs.read(path, inputs="u", columns="x").inputs.shape == (1, 2, 1)


def test_columns_choose_the_observations(write):
    path = write("t.csv", "a,b,c\n1.5,2.5,3.5\n")
    assert hs.read(path, columns=["c", "a"]).values.tolist() == [[[3.5, 1.5]]]
    assert hs.read(path, columns="b").values.tolist() == [[2.5]]


def test_every_form_of_table_reads_alike(write):
    frame = pl.DataFrame({"id": ["a", "a", "b"], "x": [1.5, None, 2.5], "k": ["u", "v", None]})
    forms = {
        "t.csv": frame.write_csv().encode(),
        "t.tsv": frame.write_csv(separator="\t").encode(),
        "t.parquet": parquet(frame),
        "t.ndjson": frame.write_ndjson().encode(),
        "t.jsonl": frame.write_ndjson().encode(),
    }
    read = [hs.read(write(name, content), sequence="id") for name, content in forms.items()]
    semicolons = write("t2.csv", frame.write_csv(separator=";"))
    read.append(hs.read(semicolons, sequence="id", separator=";"))
    for data in read:
        assert replace(data.schema, separator=None) == read[0].schema
        assert data.names == ("a", "b")
        np.testing.assert_array_equal(data.values, read[0].values)
        np.testing.assert_array_equal(data.observed, read[0].observed)
    assert read[0].observed.tolist() == [[[True, True], [False, True]], [[True, False], [True, True]]]


def test_windows_line_ends_byte_order_mark_quotes_and_spaces(write):
    path = write("t.csv", b'\xef\xbb\xbf"x", k\r\n1.5, "a b"\r\n 2.5,c\r\n\r\n')
    data = hs.read(path)
    assert [column.name for column in data.schema.columns] == ["x", "k"]
    assert data.values.tolist() == [[[1.5, 0.0], [2.5, 1.0]]]


def test_blank_lines_are_no_rows_of_a_table_with_several_columns(write):
    assert hs.read(write("t.csv", "a,b\n1.5,2.5\n\n3.5,\n\n")).lengths.tolist() == [2]


def test_a_blank_line_is_a_missing_value_of_a_single_column(write):
    data = hs.read(write("t.csv", "a\n1.5\n\n3.5\n\n\n"))
    assert data.observed.tolist() == [[True, False, True]]


def test_a_table_without_header(write):
    assert hs.read(write("t.csv", "1.5,2.5\n3.5,4.5\n"), header=False).values.tolist() == [[[1.5, 2.5], [3.5, 4.5]]]
    one = hs.read(write("u.csv", "1.5\n2.5\n"), header=False)
    assert one.values.tolist() == [[1.5, 2.5]] and one.schema.columns[0].name == "x"


def test_rows_whose_cells_are_lists_are_sequences(write):
    lines = [{"id": "a", "x": [1, 2.5], "k": ["u", None]}, {"id": "b", "x": [3], "k": ["v"]}]
    path = write("t.ndjson", "\n".join(map(json.dumps, lines)))
    data = hs.read(path, sequence="id")
    assert data.names == ("a", "b") and data.lengths.tolist() == [2, 1]
    assert data[1].tolist() == [[3.0, 1.0]]
    table = parquet({"x": [[0, 1, 1], [2]]})
    assert hs.read(write("t.parquet", table)).values.tolist() == [[0, 1, 1], [2, 0, 0]]


def test_a_sequence_wholly_missing_stays(write):
    data = hs.read(write("t.csv", "id,x\na,1.5\nb,\nb,\n"), sequence="id")
    assert data.lengths.tolist() == [1, 2]
    assert data.observed.tolist() == [[True, True], [False, False]]


def test_sequence_names_may_be_numbers(write):
    assert hs.read(write("t.csv", "id,x\n10,1.5\n9,2.5\n10,3.5\n"), sequence="id").names == ("10", "9")
    assert hs.read(write("t.parquet", parquet({"id": [10, 9], "x": [1.5, 2.5]})), sequence="id").names == (
        "10",
        "9",
    )


def test_old_line_ends_and_unnamed_columns_left_out(write):
    assert hs.read(write("t.csv", ",x\r0,1.5\r1,2.5\r"), columns="x").values.tolist() == [[1.5, 2.5]]


def test_symbols_larger_than_any_code(write):
    data = hs.read(write("t.csv", "x\n1e300\n1\n1e300\n"), kinds="symbol")
    assert data.values.tolist() == [[1, 0, 1]]


def test_fixed_size_lists_are_sequences(write):
    frame = pl.DataFrame({"x": pl.Series([[1.5, 2.5], [3.5, 4.5]], dtype=pl.Array(pl.Float64, 2))})
    assert hs.read(write("t.parquet", parquet(frame))).values.tolist() == [[1.5, 2.5], [3.5, 4.5]]


# -- one sequence a row --------------------------------------------------------------------------------------


def test_the_wide_form_has_a_sequence_a_row(write):
    data = hs.read(write("t.csv", "id,1,2,3\na,1.5,,2.5\nb,3.5,,\nc,4.5\n"), wide=True, sequence="id")
    assert data.names == ("a", "b", "c")
    assert data.lengths.tolist() == [3, 1, 1]
    assert data.observed.tolist() == [[True, False, True], [True] * 3, [True] * 3]
    assert data.schema.columns[0] == hs.Column("x", "real")


def test_the_wide_form_of_words_has_one_vocabulary(write):
    data = hs.read(write("t.csv", "s1,s2,s3\nb,a,c\na,a\n"), wide=True)
    assert data.schema.columns[0].symbols == ("a", "b", "c")
    assert data.values.tolist() == [[1, 0, 2], [0, 0, 0]] and data.lengths.tolist() == [3, 2]


def test_the_wide_form_without_header(write):
    data = hs.read(write("t.csv", "1,0\n2,1,0\n0\n"), wide=True, header=False)
    assert [a.tolist() for a in data] == [[1, 0], [2, 1, 0], [0]]
    assert data.schema.columns[0] == hs.Column("x", "symbol", 3)


def test_the_wide_form_of_typed_columns(write):
    data = hs.read(write("t.parquet", parquet({"a": [1, 2], "b": [0.5, None]})), wide=True)
    assert [a.tolist() for a in data] == [[1.0, 0.5], [2.0]]


# -- following a schema --------------------------------------------------------------------------------------


def test_a_schema_reads_a_new_file_the_same_way(write):
    text = "id,t,x,k,u\na,1,1.5,red,0.5\na,2,2.5,blue,0.5\n"
    schema = hs.read(write("old.csv", text), sequence="id", time="t", inputs="u").schema
    new = hs.read(write("new.csv", "u,more,k,x,t,id\n9,0,red,7,2,z\n8,0,red,6,1,z\n"), schema=schema)
    assert new.schema == schema
    assert new.names == ("z",)
    assert new.values.tolist() == [[[6.0, 1.0], [7.0, 1.0]]]
    assert new.inputs.tolist() == [[[8.0], [9.0]]]


def test_a_symbol_that_the_schema_lacks_is_named_with_its_row(write):
    schema = hs.read(write("old.csv", "k\nred\nblue\n")).schema
    with pytest.raises(DataError, match="'green' at row 2, a symbol that is not in its vocabulary: 'blue', 'red'"):
        hs.read(write("new.csv", "k\nred\ngreen\n"), schema=schema)
    wide = write("wide.csv", "a,b\nred,red\nred,green\n")
    with pytest.raises(DataError, match="'green' at row 2, step 2,"):
        hs.read(wide, schema=schema, wide=True)


def test_whole_number_symbols_follow_their_schema(write):
    schema = hs.read(write("old.csv", "k\n0\n1\n2\n")).schema
    assert schema.columns[0] == hs.Column("k", "symbol", 3)
    assert hs.read(write("new.csv", "k\n1\n1\n"), schema=schema).schema == schema
    with pytest.raises(DataError, match="row 2 holds 3"):
        hs.read(write("bad.csv", "k\n1\n3\n"), schema=schema)
    with pytest.raises(DataError, match="row 1 holds 'a'"):
        hs.read(write("worse.csv", "k\na\n"), schema=schema)


def test_number_like_words_follow_their_vocabulary(write):
    schema = hs.read(write("old.csv", "k\nA\n1\n"), kinds="symbol").schema
    assert schema.columns[0].symbols == ("1", "A")
    assert hs.read(write("new.csv", "k\n1\n1\n"), schema=schema).values.tolist() == [[0, 0]]


def test_kinds_follow_the_schema_not_the_values(write):
    schema = hs.read(write("old.csv", "n\n100\n7\n")).schema
    assert schema.kind == "count"
    assert hs.read(write("new.csv", "n\n0\n1\nNA\n"), schema=schema).schema.kind == "count"
    with pytest.raises(DataError, match="row 1 holds -1"):
        hs.read(write("bad.csv", "n\n-1\n"), schema=schema)


# -- what cannot be read -------------------------------------------------------------------------------------

CASES = [
    ("t.csv", "", {}, FileError, "t.csv is empty"),
    ("t.csv", "\n\n", {}, FileError, "t.csv is empty"),
    ("t.csv", "a,b\n", {}, FileError, "header but no row"),
    ("t.xls", "a", {}, FileError,
     r"ends in '.xls'; the forms known are .csv, .tsv, .parquet, .ndjson, .jsonl, .npz, .txt"),
    ("t", "a", {}, FileError, "ends in ''"),
    ("t.csv", "a,b\n1.5,2\n", {"columns": "c"}, DataError, "no column 'c'; its columns are 'a', 'b'"),
    ("t.csv", "a,b\n1.5,2\n", {"sequence": "id"}, DataError, "no column 'id'; its columns are 'a', 'b'"),
    ("t.csv", "a,b\n1.5,2\n", {"time": "id"}, DataError, "no column 'id'"),
    ("t.csv", "a,b\n1.5,2\n", {"inputs": "id"}, DataError, "no column 'id'"),
    ("t.csv", "a,b\n1,2\n", {"sequence": "a", "time": "b"}, DataError,
     "no column left to observe beside 'a', 'b'"),
    ("t.csv", "a,b\n1,2\n", {"columns": []}, DataError, "no column left"),
    ("t.csv", "a,b\n1,2\n", {"columns": ["a", "a"]}, DataError, "column 'a' is named twice"),
    ("t.csv", "a,b\n1,2\n", {"columns": "a", "inputs": "a"}, DataError, "column 'a' is named twice"),
    ("t.csv", "a,a\n1,2\n", {}, FileError, "two columns called 'a'"),
    ("t.csv", "1.5,2\n1,2\n", {}, FileError, "not column names; add a header, or read it with header=False"),
    ("t.csv", "a,b\n1,2\n3\n", {}, FileError, "row 2 has 1 field, but there are 2 columns"),
    ("t.csv", "a,b\n1,2\n3,4,5\n", {}, FileError, "row 2 has 3 fields, but there are 2 columns"),
    ("t.csv", "a,b\n1,2\n3,4,5\n", {"wide": True}, FileError, "row 2 has 3 fields, but"),
    ("t.csv", "a;b\n1,2;2\n", {}, FileError, "row 1 has 2 fields, but there is 1 column. .* holds .;.: read"),
    ("t.csv", "a\tb\n1,2\t2\n", {}, FileError, r"read it with separator=.+t.\."),
    ("t.csv", 'a,b\n"1,2\n', {}, FileError, "row 1 has|no readable table"),
    ("t.csv", b"a\n\xe9\n", {}, FileError, "not UTF-8 text: byte 2 is 0xe9"),
    ("t.csv", "a\n1.5\nabc\n", {}, DataError, "column 'a' mixes numbers and words: row 2 holds 'abc'"),
    ("t.csv", "a\ntrue\n2\n", {}, DataError, "mixes numbers and words: row 1 holds 'true'"),
    ("t.csv", "a\n1.5\nabc\n", {"kinds": "real"}, DataError, "to be read as real, but row 2 holds 'abc'"),
    ("t.csv", "a\nx\n", {"kinds": "count"}, DataError, "to be read as count, but row 1 holds 'x'"),
    ("t.csv", "a\n1\n-2\n", {"kinds": "count"}, DataError, "row 2 holds -2; due is a whole number from 0 to"),
    ("t.csv", "a\n1\n1.5\n", {"kinds": "count"}, DataError, "row 2 holds 1.5"),
    ("t.csv", "a\n1\n2\n", {"kinds": "bit"}, DataError, "row 2 holds 2; due is 0 or 1"),
    ("t.csv", "a\n1\n2\n", {"kinds": "colour"}, DataError,
     "'colour'; a kind is one of real, count, bit, symbol"),
    ("t.csv", "a\n1\n", {"kinds": {"b": "real"}}, DataError,
     "kinds names 'b', which is none of the observed"),
    ("t.csv", "a\n1.5\ninf\n", {}, DataError, "infinite"),
    ("t.csv", "a\n2024-01-01\n2024-01-02\n", {}, DataError,
     "holds dates, which are no observations; name it as time='a'"),
    ("t.csv", "id,t,x\na,1,2\na,2,3\na,1,4\n", {"sequence": "id", "time": "t"}, DataError,
     "rows 1 and 3 of sequence 'a' have the same t, '1'"),
    ("t.csv", "t,x\n1,2\n1.0,4\n", {"time": "t"}, DataError, "rows 1 and 2 have the same t"),
    ("t.csv", "t,x\n1,2\n,4\n", {"time": "t"}, DataError, "row 2 has no value in 't'"),
    ("t.csv", "t,x\n1,2\nnan,4\n", {"time": "t"}, DataError, "row 2 holds nan in 't'"),
    ("t.csv", "t,x\nJan 1,2\nFeb 1,4\n", {"time": "t"}, DataError, "'Jan 1', a time whose order is unknown"),
    ("t.csv", "id,x\na,2\n,4\n", {"sequence": "id"}, DataError, "row 2 has no value in 'id'"),
    ("t.csv", "x,u\n1.5,2\n2.5,\n", {"inputs": "u"}, DataError,
     "inputs of sequence 0 are not finite at step 2"),
    ("t.csv", "x,u\n1.5,a\n2.5,\n", {"inputs": "u"}, DataError, "column 'u' has no value at row 2"),
    ("t.csv", "a,b\n1,2\n,\n", {"wide": True}, DataError, "row 2 of .* is empty"),
    ("t.csv", "a,b\n1,2\n", {"wide": True, "time": "a"}, DataError, "the wide form takes no time"),
    ("t.csv", "a,b\n1,2\n", {"wide": True, "kinds": {"a": "real"}}, DataError, "give kinds as one word"),
    ("t.csv", "id,b\na,2\na,3\n", {"wide": True, "sequence": "id"}, DataError, "names two rows alike"),
    ("t.csv", "a\n1\n", {"lines": True}, DataError, "only text takes .* lines"),
    ("t.csv", "a\n1\n", {"unknown": "skip"}, DataError, "only text takes .* unknown"),
    ("t.csv", "a\n1\n", {"unknown": "drop"}, DataError, "unknown is 'drop'"),
    ("t.csv", "a\n1\n", {"separator": "::"}, DataError, "separator is '::'"),
    ("t.csv", "n\n1\n99999999999\n", {"kinds": "count"}, DataError, "row 2 holds 99999999999; due is"),
    ("t.csv", "n\n1\n1e300\n", {"kinds": "count"}, DataError, "row 2 holds 1e\\+300"),
    ("t.csv", ",x\n0,1.5\n1,2.5\n", {}, DataError, "column 1 of .* has no name; .* among 'x'"),
    ("t.csv", "x;y\n1,5;2,5\n", {"separator": ";"}, DataError, "holds '1,5', a number that is not written"),
    ("t.csv", "x\n1\n", {"kinds": ["real"]}, DataError,
     "kinds is .'real'.; it must be one kind, or a mapping"),
    ("t.csv", 'id,x\n"",1\n', {"sequence": "id"}, DataError, "row 1 has no value in 'id'"),
    ("t.csv", "id,x\n,1\n", {"sequence": "id", "wide": True}, DataError, "row 1 has no value in 'id'"),
    ("t.parquet", b"PAR1 and no more", {}, FileError, "no readable Parquet file, or is truncated"),
    ("t.parquet", parquet({"a": list(range(1000))})[:-9], {}, FileError, "truncated"),
    ("t.parquet", parquet({"a": []}), {}, FileError, "no row"),
    ("t.parquet", parquet({"a": [1]}), {"header": False}, DataError, "options of CSV and TSV"),
    ("t.parquet", parquet({"a": [b"x"]}), {}, DataError, "column 'a' holds Binary"),
    ("t.parquet", parquet({"a": [{"b": 1}]}), {}, DataError, "column 'a' holds Struct"),
    ("t.parquet", parquet({"a": pl.Series([0]).cast(pl.Date)}), {}, DataError, "holds dates"),
    ("t.parquet", parquet({"t": [True, False], "x": [1.5, 2.5]}), {"time": "t"}, DataError,
     "Boolean values, whose order"),
    ("t.parquet", parquet({"a": [[1, 2]], "b": [[1]]}), {}, DataError, "differ in length within a row"),
    ("t.parquet", parquet({"a": [[1, 2]], "b": [1]}), {}, DataError,
     "column 'a' holds lists, so each row is a sequence"),
    ("t.parquet", parquet({"a": [[1, 2], []]}), {}, DataError, "row 2 has no value in column 'a'"),
    ("t.parquet", parquet({"a": [1], "b": ["x"]}), {"wide": True}, DataError, "of different types"),
    ("t.ndjson", '{"x": 1}\n{"x": }\n', {}, FileError, "line 2 .* is no JSON"),
    ("t.ndjson", '{"x": 1}\n{"x"', {}, FileError, "line 2 .* is no JSON"),
    ("t.ndjson", "[1, 2]\n", {}, FileError, "line 1 .* is no JSON object"),
    ("t.ndjson", '{"x": 1}\n{"x": "a"}\n', {}, DataError,
     "column 'x' mixes types: a whole number at first, but row 2 holds the text 'a'"),
    ("t.ndjson", '{"x": true}\n{"x": 1}\n', {}, DataError, "mixes types: a truth value"),
    ("t.ndjson", '{"x": [1]}\n{"x": ["a"]}\n', {}, DataError, "the lists of column 'x' hold different types"),
    ("t.ndjson", '{"x": [1, 2]}\n{"x": [1, "a"]}\n', {}, DataError,
     "the list at row 2: column 'x' mixes types"),
    ("t.ndjson", '{"x": [[1], [2]]}\n', {}, DataError, "column 'x' holds List"),
    ("t.ndjson", '{"x": {"y": 1}}\n', {}, DataError, "column 'x' holds an object at row 1"),
    ("t.ndjson", "\n\n", {}, FileError, "no row"),
    ("t.ndjson", b'{"x": "\xff"}\n', {}, FileError, "not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "error", "sentence"), CASES)
def test_a_sentence_says_what_is_wrong(write, name, content, options, error, sentence):
    with pytest.raises(error, match=sentence):
        hs.read(write(name, content), **options)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match=r"there is no file .*nothing\.csv"):
        hs.read(tmp_path / "nothing.csv")
    with pytest.raises(FileError, match="is a folder"):
        hs.read(tmp_path)


def test_a_schema_excludes_options_that_it_answers(write):
    path = write("t.csv", "a,b\n1.5,2.5\n")
    schema = hs.read(path).schema
    for option in ({"columns": "a"}, {"inputs": "a"}, {"kinds": "real"}):
        with pytest.raises(DataError, match=f"schema already says which {next(iter(option))}"):
            hs.read(path, schema=schema, **option)
    with pytest.raises(
        DataError, match="has no column 'b', which the schema of the model asks for; its columns are 'a'"
    ):
        hs.read(write("u.csv", "a\n1.5\n"), schema=schema)
    with pytest.raises(DataError, match="is text, but the schema describes no text"):
        hs.read(write("t.txt", "abc"), schema=schema)
    with pytest.raises(DataError, match="wide form holds scalar"):
        hs.read(path, schema=schema, wide=True)


def columns(data):
    """What was read of one sequence, column by column under its name: numbers, or the symbols themselves."""
    parts = zip(data.schema.columns, data.values[0].T, strict=True)
    return {c.name: [c.symbols[int(v)] for v in part] if c.symbols else part.tolist() for c, part in parts}


def said(content):
    """What a Parquet file says, None where it cannot be read, by polars alone."""
    with suppress(Exception):
        frame = pl.read_parquet(content)
        number = lambda v: np.nan if v is None else float(v)  # noqa: E731
        return {name: [v if isinstance(v, str) else number(v) for v in frame[name]] for name in frame.columns}


WHOLE = {"a": list(range(500)), "b": ["x", "y"] * 250}


def test_damaged_parquet_is_refused_in_a_sentence_or_read_as_it_now_stands(write):
    """Nothing in the file can tell that a stored number is another: but no other is read than the one that is there."""
    raw, random, outcomes = parquet(WHOLE), np.random.default_rng(0), set()
    for place in random.permutation(len(raw))[:150]:
        damaged = bytearray(raw)
        damaged[place] ^= int(random.integers(1, 256))
        now = said(bytes(damaged))
        try:
            data = hs.read(write("t.parquet", bytes(damaged)))
        except (FileError, DataError) as error:
            assert re.search(r"t\.parquet|column '", str(error)) and (now is not None or isinstance(error, FileError))
            outcomes.add("refused")
        else:
            np.testing.assert_equal(columns(data), now)
            outcomes.add("whole" if now == WHOLE else "another number")
    assert outcomes == {"refused", "whole", "another number"}


def test_damage_to_what_is_not_read_changes_nothing(write):
    raw = parquet(WHOLE)
    assert columns(hs.read(write("t.parquet", raw))) == WHOLE
    place = raw.rindex(b"Polars")  # who wrote the file
    damaged = write("t.parquet", raw[:place] + b"Solars" + raw[place + 6 :])
    assert columns(hs.read(damaged)) == WHOLE


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -100, -9, -8, -4, -1])
def test_truncated_parquet_is_refused(write, kept):
    with pytest.raises(FileError, match=r"t\.parquet is (no readable Parquet file, or is truncated|empty)"):
        hs.read(write("t.parquet", parquet(WHOLE)[:kept]))
