"""Whatever a file holds, it is read or refused in words; and what was written is what is read."""

import io
import json
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hiddenstate as hs


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def parquet(frame):
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


cells = st.sampled_from(
    ["", "1", "-2", "0.5", "1e5", "nan", "NA", "inf", "a", "true", "2024-01-01", '"', ",", " ", "'x'"]
)


@given(
    st.lists(st.lists(cells, max_size=4), max_size=6),
    st.sampled_from([",", ";"]),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_read_or_refused_in_words(write, rows, separator, wide, header):
    path = write("t.csv", "\n".join(separator.join(row) for row in rows))
    with suppress(hs.HiddenStateError):
        data = hs.read(path, wide=wide, header=header, sequence="a" if rows and "a" in rows[0] else None)
        assert data.steps >= 1


@given(st.binary(max_size=60), st.sampled_from(["t.csv", "t.ndjson", "t.parquet", "t.npz", "t.txt"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused_in_words(write, content, name):
    with suppress(hs.HiddenStateError):
        hs.read(write(name, content))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(st.dictionaries(st.sampled_from(["x", "y"]), json_values), max_size=4))
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_read_or_refused_in_words(write, rows):
    with suppress(hs.HiddenStateError):
        hs.read(write("t.ndjson", "\n".join(map(json.dumps, rows))))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
            st.none() | st.text("abc é,\"'", min_size=1, max_size=3).map(str.strip).filter(bool),
            st.none() | st.integers(-5, 100),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_what_is_read(write, rows):
    kinds = {"x": "real", "k": "symbol", "n": "real"}
    types = {"id": pl.Int64, "x": pl.Float64, "k": pl.String, "n": pl.Int64}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    read = [
        hs.read(write("t.csv", frame.write_csv()), sequence="id", kinds=kinds),
        hs.read(write("t.parquet", parquet(frame)), sequence="id", kinds=kinds),
        hs.read(write("t.ndjson", frame.write_ndjson()), sequence="id", kinds=kinds),
    ]
    vocabulary = read[0].schema.columns[1].symbols
    for data in read:
        assert data.schema == read[0].schema
        for name, values in zip(data.names, data, strict=True):
            mine = [row for row in rows if str(row[0]) == name]
            expected = [
                [
                    np.nan if x is None else x,
                    np.nan if k is None else vocabulary.index(k),
                    np.nan if n is None else n,
                ]
                for _, x, k, n in mine
            ]
            np.testing.assert_array_equal(values, np.array(expected, float))
