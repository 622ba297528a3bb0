import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Column, DataError, FileError, Schema
from hiddenstate.data import decode_symbols, to_text


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_characters_are_symbols_by_default(write):
    data = hs.read(write("abba c\n"))
    assert data.schema.columns[0].symbols == ("\n", " ", "a", "b", "c")
    assert data.schema.text == "characters"
    assert data.values.tolist() == [[2, 3, 3, 2, 1, 4, 0]]
    assert data.names == ("t",)
    assert to_text(data) == ["abba c\n"]


def test_tokens_are_cut_at_white_space(write):
    data = hs.read(write("to be  or\nnot to be"), text="tokens")
    assert data.schema.columns[0].symbols == ("be", "not", "or", "to")
    assert data.schema.text == "tokens"
    assert to_text(data) == ["to be or not to be"]


def test_lines_are_sequences(write):
    data = hs.read(write("ab\n\n  \nc\r\n"), lines=True)
    assert to_text(data) == ["ab", "c"]
    assert data.names == ("1", "4")


def test_a_file_of_any_ending_is_text_if_asked(write):
    assert to_text(hs.read(write("abc", "t.fasta"), text="characters")) == ["abc"]


def test_the_vocabulary_is_sorted_by_code_point_beyond_the_basic_plane(write):
    data = hs.read(write("é😀aZ"))
    assert data.schema.columns[0].symbols == ("Z", "a", "é", "😀")


def test_a_schema_keeps_the_vocabulary(write):
    schema = hs.read(write("abcd")).schema
    data = hs.read(write("dad"), schema=schema)
    assert data.values.tolist() == [[3, 0, 3]] and data.schema == schema


def test_unknown_symbols_are_named_or_skipped(write):
    schema = hs.read(write("abc")).schema
    path = write("axbyc\nzz\nab")
    with pytest.raises(DataError, match=r"not in the vocabulary of 3: '\\n', 'x', 'y', 'z'"):
        hs.read(path, schema=schema)
    assert to_text(hs.read(path, schema=schema, unknown="skip")) == ["abcab"]
    lines = hs.read(path, schema=schema, unknown="skip", lines=True)
    assert to_text(lines) == ["abc", "ab"] and lines.names == ("1", "3")
    with pytest.raises(DataError, match="no symbol of the vocabulary"):
        hs.read(write("xyz"), schema=schema, unknown="skip")


def test_text_of_a_schema_is_read_as_it_was_cut(write):
    schema = hs.read(write("a b a"), text="tokens").schema
    assert hs.read(write("b a"), schema=schema).values.tolist() == [[1, 0]]
    with pytest.raises(DataError, match="text is 'characters', but the schema says 'tokens'"):
        hs.read(write("b a"), schema=schema, text="characters")


@pytest.mark.parametrize(
    ("content", "options", "error", "sentence"),
    [
        (b"", {}, FileError, "is empty"),
        (b" \n", {"text": "tokens"}, FileError, "holds no text"),
        (b"\n\n", {"lines": True}, FileError, "holds no text"),
        (b"ab\xff", {}, FileError, "not UTF-8 text: byte 2 is 0xff"),
        (b"ab", {"text": "words"}, DataError, "text is 'words'; it must be 'characters' or 'tokens'"),
        (b"ab", {"columns": "a", "wide": True}, DataError, "text takes no columns, wide"),
    ],
)
def test_a_sentence_says_what_is_wrong(write, content, options, error, sentence):
    with pytest.raises(error, match=sentence):
        hs.read(write(content), **options)


WEATHER = Schema((Column("sky", "symbol", 2, ("dry", "wet")),), scalar=True)
RECORD = Schema((Column("sky", "symbol", 2, ("dry", "wet")), Column("n", "count"), Column("t", "real")), scalar=False)


def test_symbols_get_their_names_back():
    data = hs.Sequences.of([[0, 1], [1]], missing=[[False, True], [False]], schema=WEATHER)
    assert decode_symbols(data) == [["dry", None], ["wet"]]
    assert decode_symbols([[1, 1], [0]], WEATHER) == [["wet", "wet"], ["dry"]]
    assert decode_symbols(np.array([1, 0]), WEATHER) == [["wet", "dry"]]
    assert decode_symbols(np.array([[1, 0], [0, 0]]), WEATHER) == [["wet", "dry"], ["dry", "dry"]]
    assert to_text([[1, 1], [0]], WEATHER) == ["wet wet", "dry"]


def test_symbols_without_names_are_their_codes():
    assert to_text(hs.Sequences.of([[0, 2, 1]])) == ["0 2 1"]


def test_records_become_tuples():
    data = hs.Sequences.of([[[1.0, 3.0, 0.5], [0.0, np.nan, np.nan]]], schema=RECORD)
    assert decode_symbols(data) == [[("wet", 3, 0.5), ("dry", None, None)]]


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: decode_symbols([[0.5]]), "no symbols to name"),
        (
            lambda: decode_symbols([[0, 2]], WEATHER),
            "sequence 0 holds 2 at step 2, but column 'sky' has symbols 0 to 1",
        ),
        (lambda: decode_symbols(np.array([0.5]), WEATHER), "sequence 0 holds 0.5 at step 1"),
        (lambda: decode_symbols(hs.Sequences.of([0, 1]), RECORD), "the schema says"),
        (lambda: to_text(hs.Sequences.of([0], missing=[True], schema=WEATHER)), "some symbols are missing"),
        (lambda: to_text(np.zeros((1, 2, 3)), RECORD), "3 columns, which make no text"),
    ],
)
def test_what_cannot_be_named(act, sentence):
    with pytest.raises(DataError, match=sentence):
        act()
