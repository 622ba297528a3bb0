import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import DataError, FileError


@pytest.fixture
def save(tmp_path):
    def save(**arrays):
        np.savez_compressed(tmp_path / "t.npz", **arrays)
        return tmp_path / "t.npz"

    return save


def test_a_padded_array_with_its_parts(save):
    values = np.arange(6.0).reshape(2, 3)
    path = save(
        values=values,
        lengths=np.array([3, 2]),
        inputs=np.ones((2, 3, 4)),
        missing=np.array([[0, 1, 0], [0, 0, 0]], bool),
        names=np.array(["a", "b"]),
    )
    data = hs.read(path)
    assert data.lengths.tolist() == [3, 2] and data.names == ("a", "b")
    assert data.inputs.shape == (2, 3, 4)
    assert data.observed[0].tolist() == [True, False, True]


def test_one_array_a_sequence(save):
    data = hs.read(save(first=np.array([0, 1, 2]), second=np.array([1])))
    assert data.names == ("first", "second")
    assert [a.tolist() for a in data] == [[0, 1, 2], [1]]
    assert data.schema.kind == "symbol"


def test_one_plain_sequence(save):
    data = hs.read(save(values=np.zeros(4), inputs=np.zeros((4, 2)), missing=np.array([0, 0, 1, 0], bool)))
    assert data.shape == (1, 4) and data.inputs.shape == (1, 4, 2)
    assert data.observed.tolist() == [[True, True, False, True]]


def test_kinds_say_what_numbers_are(save):
    assert hs.read(save(values=np.array([[0, 1, 5]])), kinds="count").schema.kind == "count"
    assert hs.read(save(values=np.array([[0.0, 1.0]])), kinds="symbol").schema.columns[0].size == 2
    assert hs.read(save(values=np.array([[0, 1]])), kinds="real").values.dtype.kind == "f"
    assert hs.read(save(values=np.array([[True, False]]))).schema.kind == "bit"
    mixed = hs.read(save(values=np.ones((1, 3, 2))), kinds={"x1": "bit"})
    assert mixed.schema.kinds == ("real", "bit")
    gaps = hs.read(save(values=np.array([[0.0, np.nan, 3.0]])), kinds="count")
    assert gaps.values.dtype.kind == "i" and gaps.observed.tolist() == [[True, False, True]]


def test_a_schema_is_followed(save):
    schema = hs.read(save(values=np.array([[0, 3]]))).schema
    assert hs.read(save(values=np.array([[0, 1]])), schema=schema).schema == schema
    with pytest.raises(DataError, match="sequence 0 holds 4 at step 2 of column 'x', which is symbol"):
        hs.read(save(values=np.array([[0, 4]])), schema=schema)
    with pytest.raises(DataError, match="there are 1 inputs, but the schema says 0"):
        hs.read(save(values=np.array([[0, 1]]), inputs=np.zeros((1, 2))), schema=schema)
    with pytest.raises(DataError, match=r"shape \(2,\), but the schema says \(\)"):
        hs.read(save(values=np.zeros((1, 3, 2))), schema=schema)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "sentence"),
    [
        ({"values": np.array(["a"])}, {}, DataError, "array 'values' .* holds <U1 values"),
        ({"values": np.array([[None]])}, {}, FileError, "plain arrays"),
        (
            {"values": np.zeros((1, 2)), "length": np.array([2])},
            {},
            DataError,
            "holds length beside 'values'",
        ),
        ({"values": np.zeros((1, 2)), "lengths": np.array([3])}, {}, DataError, r"lengths\[0\] is 3"),
        ({"values": np.zeros((1, 2)), "inputs": np.full((1, 2), "a")}, {}, DataError, "inputs"),
        ({"a": np.zeros(3), "b": np.zeros((3, 2))}, {}, DataError, "sequence 1 has observations of shape"),
        ({"values": np.array([[0.5]])}, {"kinds": "count"}, DataError, "holds 0.5 at step 1"),
        ({"values": np.array([[2]])}, {"kinds": "bit"}, DataError, "whole numbers from 0 to 1"),
        ({"values": np.array([[2]])}, {"kinds": {"y": "bit"}}, DataError, "kinds names 'y'"),
        (
            {"values": np.array([[2]])},
            {"sequence": "y", "columns": "a"},
            DataError,
            "takes no sequence, columns",
        ),
        ({}, {}, FileError, "holds no array"),
    ],
)
def test_a_sentence_says_what_is_wrong(save, arrays, options, error, sentence):
    with pytest.raises(error, match=sentence):
        hs.read(save(**arrays), **options)


def test_damaged_files(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, values=np.random.default_rng(0).normal(size=(5, 100)))
    whole = path.read_bytes()
    for cut in (1, 10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileError, match="no readable NPZ file"):
            hs.read(path)
    path.write_bytes(whole[:300] + bytes(50) + whole[350:])
    with pytest.raises(FileError, match="no readable NPZ file"):
        hs.read(path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    path.write_bytes((tmp_path / "one.npy").read_bytes())
    with pytest.raises(FileError, match="one plain array"):
        hs.read(path)
