"""Records: columns side by side, each of its own kind."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.core import Column, DataError, HiddenStateError, Schema, Sequences, parameter_count
from hiddenstate.heads import Bernoulli, Categorical, Columns, Gaussian, NegativeBinomial
from hiddenstate.inference.observations import check_support, describe

from .examples import HIDDEN, KEY

HEADS = {
    "weather": Categorical(HIDDEN, 3, key=KEY),
    "wind": Gaussian(HIDDEN, 2, location=[5.0, 0.0], scale=[2.0, 1.0], key=KEY),
    "open": Bernoulli(HIDDEN, None, key=KEY),
    "visits": NegativeBinomial(HIDDEN, None, rate=4.0, key=KEY),
}
RECORD = Columns(HEADS)
X = jnp.array([2.0, 5.5, -0.5, 1.0, 6.0])
PARAMETERS = jr.normal(jr.key(1), (RECORD.parameter_count,))
PARTS = jnp.split(PARAMETERS, np.cumsum([3, 4, 1]))


@pytest.fixture(scope="module")
def distribution():
    return RECORD.distribution(PARAMETERS)


def test_log_prob_is_the_sum_over_columns(distribution):
    pieces = jnp.array(2), X[1:3], X[3], X[4]
    each = [head.distribution(p).log_prob(x) for head, p, x in zip(HEADS.values(), PARTS, pieces, strict=True)]
    np.testing.assert_allclose(distribution.log_prob(X), sum(each), rtol=1e-12)


def test_columns_are_reached_by_name(distribution):
    assert list(distribution.columns) == ["weather", "wind", "open", "visits"]
    np.testing.assert_allclose(distribution.columns["weather"].probs, jax.nn.softmax(PARTS[0]), rtol=1e-12)
    assert distribution.columns["wind"].event_shape == (2,)


def test_mean_and_variance_are_those_of_the_columns(distribution):
    probs = np.asarray(jax.nn.softmax(PARTS[0]))
    code = probs @ np.arange(3)
    columns = distribution.columns
    mean = [code, *columns["wind"].mean, columns["open"].mean, columns["visits"].mean]
    np.testing.assert_allclose(distribution.mean, mean, rtol=1e-12)
    spread = probs @ np.arange(3) ** 2 - code**2
    variance = [spread, *columns["wind"].variance, columns["open"].variance, columns["visits"].variance]
    np.testing.assert_allclose(distribution.variance, variance, rtol=1e-11)


def test_encoding_joins_the_columns_codes():
    code = RECORD.encode(X)
    assert RECORD.encoded_size == 3 + 2 + 1 + 1 and RECORD.event_shape == (5,)
    np.testing.assert_allclose(code, [0, 0, 1, 0.25, -0.5, 1.0, np.log(7 / 5)], rtol=1e-12)


def test_one_linear_map_is_made_of_the_heads_own():
    h = jr.normal(jr.key(3), (HIDDEN,))
    together = RECORD(h).columns
    np.testing.assert_allclose(together["wind"].mean, HEADS["wind"](h).mean, rtol=1e-12)
    assert parameter_count(RECORD) == sum(parameter_count(head) for head in HEADS.values())


def test_support_says_what_is_due_in_each_column(distribution):
    said = describe(distribution.support)
    assert "'weather' (whole numbers from 0 to 2)" in said
    assert "'wind' (2 entries, real numbers)" in said
    assert "'open' (0 or 1)" in said and "'visits' (whole numbers from 0 on)" in said


@pytest.mark.parametrize(("entry", "value"), [(0, 3.0), (0, 0.5), (0, -1.0), (3, 2.0), (4, -1.0), (4, 1.5)])
def test_a_value_outside_its_columns_support_is_refused(distribution, entry, value):
    values = np.tile(np.asarray(X), (2, 3, 1))
    check_support(distribution.support, values, np.ones((2, 3), bool))
    values[1, 2, entry] = value
    inside = np.asarray(distribution.support(values))
    assert inside.shape == (2, 3) and not inside[1, 2] and inside.sum() == 5
    with pytest.raises(DataError, match=r"sequence 1 holds .* at step 3; observations must be records of 'weather'"):
        check_support(distribution.support, values, np.ones((2, 3), bool))


def test_heads_that_do_not_fit_together_are_refused():
    with pytest.raises(HiddenStateError, match="at least one column"):
        Columns({})
    with pytest.raises(HiddenStateError, match="must differ"):
        Columns([("a", HEADS["open"]), ("a", HEADS["wind"])])
    with pytest.raises(HiddenStateError, match="same"):
        Columns({"a": HEADS["open"], "b": Bernoulli(HIDDEN + 1, None, key=KEY)})


def test_whole_number_records_may_be_integers():
    head = Columns({"a": Categorical(HIDDEN, 3, key=KEY), "b": Bernoulli(HIDDEN, None, key=KEY)})
    schema = Schema((Column("a", "symbol", 3), Column("b", "bit")), scalar=False)
    data = Sequences.of([[[2, 1], [0, 0]]], schema=schema)
    distribution = head.distribution(jnp.zeros(4))
    check_support(distribution.support, data.values, data.valid)
    expected = np.full((1, 2), -np.log(6))
    np.testing.assert_allclose(jax.vmap(jax.vmap(distribution.log_prob))(data.values), expected, rtol=1e-12)
    np.testing.assert_array_equal(head.encode(jnp.array([2, 1])), [0, 0, 1, 1])
