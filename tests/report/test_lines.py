import json

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.lines import describe_prediction, parse_line, prediction_line


def model_of(*columns, scalar=False, name="unigram"):
    schema = hs.Schema(columns, scalar=scalar)
    values = np.zeros((2, 3) if scalar else (2, 3, len(columns)))
    whole = all(column.kind != "real" for column in columns) and (scalar or "symbol" not in schema.kinds)
    data = hs.Sequences.padded(values.astype(np.int32) if whole else values, schema=schema)
    return hs.build(name, data, key=jr.key(0))


NUMBERS = model_of(hs.Column("x", "real"), scalar=True)
DIGITS = model_of(hs.Column("digit", "symbol", 3, ("1", "2", "x y")), scalar=True)
CODES = model_of(hs.Column("code", "symbol", 3), scalar=True)
BITS = model_of(hs.Column("a", "bit"), hs.Column("b", "bit"))


@pytest.mark.parametrize(
    ("model", "line", "expected"),
    [
        (NUMBERS, "1.5\n", 1.5),
        (NUMBERS, " -2e3 \r\n", -2000.0),
        (DIGITS, "2\n", 1),
        (DIGITS, '"2"\n', 1),
        (DIGITS, "x y\n", 2),
        (CODES, "2\n", 2),
        (CODES, "2.0\n", 2),
    ],
)
def test_a_line_is_an_observation(model, line, expected):
    x, u, following = parse_line(line, model)
    assert (x, u, following) == (expected, None, None)
    assert type(x) is type(expected)


@pytest.mark.parametrize("line", ["null\n", "NaN\n", "nan\n"])
def test_a_missing_number_has_several_names(line):
    assert np.isnan(parse_line(line, NUMBERS)[0])


def test_vectors_are_arrays_and_truth_values_bits():
    np.testing.assert_array_equal(parse_line("[1, false]\n", BITS)[0], [1, 0])


@pytest.mark.parametrize(
    ("model", "line", "said"),
    [
        (NUMBERS, "warm\n", "'x' is \"warm\"; it must be a number."),
        (NUMBERS, "[1]\n", "'x' is [1]; it must be a number."),
        (NUMBERS, "true\n", "it must be a number"),
        (DIGITS, "3\n", "'3' is no symbol of 'digit'; known are '1', '2', 'x y'."),
        (BITS, "1\n", "it is 1; due is a JSON array of 2: a, b."),
        (BITS, "[1, 0, 1]\n", "due is a JSON array of 2"),
        (NUMBERS, "\n", "it is blank"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(model, line, said):
    with pytest.raises(hs.DataError) as caught:
        parse_line(line, model)
    assert said in str(caught.value)


def test_values_out_of_range_are_refused_by_the_stream():
    with pytest.raises(hs.DataError, match="whole numbers from 0 to 2"):
        hs.Stream(CODES).push(parse_line("7\n", CODES)[0])


def test_records_of_a_chain_are_told_column_by_column():
    """The marginal of a mixture is the mixture of the marginals."""
    emission = hs.emissions.Columns(
        {
            "sky": hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]),
            "temp": hs.emissions.Gaussian(means=[1.0, 5.0], covariances=[1.0, 4.0]),
        }
    )
    model = hs.HMM([0.25, 0.75], [[0.5, 0.5], [0.5, 0.5]], emission)
    columns = (hs.Column("sky", "symbol", 2, ("dry", "wet")), hs.Column("temp", "real"))
    said = describe_prediction(hs.Stream(model).predictive(), columns)["columns"]
    assert said["sky"]["probs"] == pytest.approx({"dry": 0.375, "wet": 0.625})
    assert said["temp"]["mean"] == pytest.approx(4.0)
    assert said["temp"]["sd"] == pytest.approx(np.sqrt(0.25 * 1 + 0.75 * 4 + 0.25 * 9 + 0.75 * 1))


def test_predictions_are_plain_json():
    stream = hs.Stream(CODES)
    line = json.loads(prediction_line(stream, stream.predictive(), float("-inf")))
    assert (line["step"], line["log_prob"]) == (0, None)
    assert list(line["probs"]) == ["0", "1", "2"]
    vector = json.loads(prediction_line(hs.Stream(BITS), hs.Stream(BITS).predictive()))
    assert len(vector["mean"]) == len(vector["sd"]) == 2
