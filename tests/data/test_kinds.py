import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.data import decode_symbols


@pytest.fixture
def read(tmp_path):
    def read(text, **options):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return hs.read(path, **options)

    return read


def column(*values):
    return "x\n" + "\n".join(map(str, values)) + "\n"


@pytest.mark.parametrize(
    ("values", "kind", "size"),
    [
        ((0.5, 1, 2), "real", 0),
        ((0, 1, 2), "symbol", 3),
        ((0, 1, 1), "symbol", 2),
        ((0, 3, 1), "symbol", 4),  # 3 < 2 * 3
        ((0, 6, 1), "count", 0),  # 6 = 2 * 3
        (range(20), "symbol", 20),
        (range(21), "count", 0),
        ((-1, 0, 1), "real", 0),
        (("b", "a"), "symbol", 2),
        (("true", "False", "TRUE"), "bit", 0),
        (("1e3", "2"), "real", 0),
        (("", ""), "real", 0),
    ],
)
def test_values_suggest_a_kind(read, values, kind, size):
    data = read("x,y\n" + "".join(f"{v},1\n" for v in values), columns="x")
    assert data.schema.kind == kind
    assert data.schema.columns[0].size == size
    assert data.schema.scalar


def test_several_columns_of_whole_numbers_are_bits_or_counts(read):
    bits = read("a,b\n0,1\n1,1\n")
    assert bits.schema.kinds == ("bit", "bit") and bits.values.dtype.kind == "i"
    counts = read("a,b\n0,1\n1,2\n")
    assert counts.schema.kinds == ("count", "count") and counts.values.dtype.kind == "i"
    real = read("a,b\n0,1\n-1,30\n")
    assert real.schema.kinds == ("real", "count") and real.values.dtype.kind == "f"


def test_a_whole_number_column_beside_others_keeps_its_own_kind(read):
    data = read("a,b,c,d\n0.5,0,red,true\n1.5,1,blue,false\n")
    assert data.schema.kinds == ("real", "symbol", "symbol", "bit")
    assert data.schema.kind == "mixed"
    assert data.values.tolist() == [[[0.5, 0.0, 1.0, 1.0], [1.5, 1.0, 0.0, 0.0]]]


def test_several_columns_of_symbols_are_floats(read):
    data = read("a,b\nx,u\ny,\n")
    assert data.schema.kinds == ("symbol", "symbol")
    assert data.values.dtype.kind == "f"
    assert data.observed.tolist() == [[[True, True], [True, False]]]


def test_kinds_say_otherwise(read):
    assert read(column(0, 1, 2), kinds="count").schema.kind == "count"
    assert read(column(0, 1, 2), kinds="real").values.dtype.kind == "f"
    assert read(column(0, 1, 1), kinds={"x": "bit"}).schema.kind == "bit"
    assert read(column("2.0", "3.0"), kinds="count").values.tolist() == [[2, 3]]
    assert read(column("true", "false"), kinds="real").values.tolist() == [[1.0, 0.0]]
    assert read(column("a", "NA"), kinds="symbol").schema.columns[0].symbols == ("NA", "a")
    mixed = read("a,b\n0,1\n1,2\n", kinds={"a": "real"})
    assert mixed.schema.kinds == ("real", "count")


@pytest.mark.parametrize(
    ("values", "symbols"),
    [
        ((10, 300, 20), ("10", "20", "300")),
        (("true", "false", "true"), ("false", "true")),
        ((0.5, 2.5, 0.5), ("0.5", "2.5")),
        ((-1, 1, -1), ("-1", "1")),
        (("1", "b", "a"), ("1", "a", "b")),
    ],
)
def test_anything_can_be_symbols_with_a_vocabulary(read, values, symbols):
    data = read(column(*values), kinds="symbol")
    assert data.schema.columns[0].symbols == symbols
    text = [str(v) for v in values]
    assert decode_symbols(data) == [text]


def test_missing_values_stay_missing(read):
    for mark in ("", "NA", "N/A", "NaN", "nan", "null"):
        real = read("x,y\n" + f"1.5,0\n{mark},0\n2.5,0\n", columns="x")
        assert real.observed.tolist() == [[True, False, True]]
        assert real.schema.kind == "real"
        whole = read("x,y\n" + f"1,0\n{mark},0\n2,0\n", columns="x")
        assert whole.observed.tolist() == [[True, False, True]]
        assert whole.schema.columns[0] == hs.Column("x", "symbol", 3)
    bits = read("x,y\ntrue,0\nNA,0\n", columns="x")
    assert bits.schema.kind == "bit" and bits.observed.tolist() == [[True, False]]


def test_words_of_missingness_are_words_among_words(read):
    data = read(column("NA", "EU", "AF"))
    assert data.schema.columns[0].symbols == ("AF", "EU", "NA") and not data.has_missing


def test_missing_counts_do_not_become_zero(read):
    data = read("a,b\n100,1\n,2\n7,\n")
    assert data.schema.kinds == ("count", "count")
    assert data.observed.tolist() == [[[True, True], [False, True], [True, False]]]


def test_a_column_wholly_missing(read):
    data = read("a,b\n1.5,\n2.5,\n")
    assert data.schema.kinds == ("real", "real")
    assert data.observed.tolist() == [[[True, False], [True, False]]]


@pytest.mark.parametrize(
    ("series", "kind", "values"),
    [
        (pl.Series("x", ["b", "a"], dtype=pl.Categorical), "symbol", [1, 0]),
        (pl.Series("x", ["b", "a"], dtype=pl.Enum(["b", "a", "c"])), "symbol", [1, 0]),
        (pl.Series("x", ["1", "2"]), "symbol", [0, 1]),
        (pl.Series("x", [1, 0], dtype=pl.UInt8), "symbol", [1, 0]),
        (pl.Series("x", [1, 0], dtype=pl.Float32), "real", [1.0, 0.0]),
        (pl.Series("x", [True, False]), "bit", [1, 0]),
        (pl.Series("x", [1000, 0], dtype=pl.UInt64), "count", [1000, 0]),
        (pl.Series("x", ["1.5", "2"]).cast(pl.Decimal(10, 2)), "real", [1.5, 2.0]),
    ],
)
def test_typed_columns_of_parquet(tmp_path, series, kind, values):
    series.to_frame().write_parquet(tmp_path / "t.parquet")
    data = hs.read(tmp_path / "t.parquet")
    assert data.schema.kind == kind
    assert data.values.tolist() == [values]


def test_nan_is_missing_in_parquet_and_json(tmp_path):
    pl.DataFrame({"x": [1.5, float("nan"), None]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.ndjson").write_text('{"x": 1.5}\n{"x": NaN}\n{}\n')
    for name in ("t.parquet", "t.ndjson"):
        assert hs.read(tmp_path / name).observed.tolist() == [[True, False, False]]
