"""The head that fits the data."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.core import Column, DataError, HiddenStateError, Schema, Sequences
from hiddenstate.heads import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Mixture,
    NegativeBinomial,
    Poisson,
    StudentT,
    head_for,
)

KEY = jr.key(0)
SYMBOLS = Sequences.of([[0, 2, 1], [2, 2]])
BITS = Sequences.of([np.array([[0, 1], [1, 1]]), np.array([[0, 0]])])
COUNTS = Sequences.of([np.array([[0, 3], [4, 0]]), np.array([[2, 9]])])
REALS = Sequences.of([np.array([[900.0, 1.0], [940.0, 1.0]]), np.array([[700.0, 1.0]])])
LEVELS = Sequences.of([[900.0, 940.0], [700.0]])
MIXED = Sequences.of(
    [np.array([[2.0, 0.5, 1.0, 4.0], [0.0, -0.5, 0.0, 2.0]])],
    schema=Schema(
        (
            Column("sky", "symbol", 4),
            Column("heat", "real"),
            Column("open", "bit"),
            Column("visits", "count"),
        ),
        scalar=False,
    ),
)


def named(kind: str, size: int = 0) -> Schema:
    return Schema((Column("x", kind, size),), scalar=True)  # pyright: ignore[reportArgumentType]


def test_the_kind_of_the_data_decides():
    symbols = head_for(SYMBOLS, 3, key=KEY)
    assert isinstance(symbols, Categorical) and symbols.symbols == 3
    bits = head_for(BITS, 3, key=KEY)
    assert isinstance(bits, Bernoulli) and bits.event_shape == (2,)
    assert isinstance(head_for(COUNTS, 3, key=KEY), NegativeBinomial)
    reals = head_for(REALS, 3, key=KEY)
    assert isinstance(reals, Gaussian) and reals.covariance == "diagonal" and reals.event_shape == (2,)
    assert head_for(LEVELS, 3, key=KEY).event_shape == ()
    bit = head_for(Sequences.of([[0, 1, 1]], schema=named("bit")), 3, key=KEY)
    assert isinstance(bit, Bernoulli) and bit.event_shape == ()
    count = head_for(Sequences.of([[0, 5, 1]], schema=named("count")), 3, key=KEY)
    assert isinstance(count, NegativeBinomial) and count.event_shape == ()


def test_the_vocabulary_of_the_schema_counts_even_where_unseen():
    head = head_for(Sequences.of([[0, 1]], schema=named("symbol", 7)), 3, key=KEY)
    assert isinstance(head, Categorical) and head.symbols == 7


def test_records_get_one_head_a_column():
    head = head_for(MIXED, 3, key=KEY)
    assert isinstance(head, Columns) and head.names == ("sky", "heat", "open", "visits")
    assert [type(family) for family in head.families] == [Categorical, Gaussian, Bernoulli, NegativeBinomial]
    assert head.event_shape == (4,)
    two = Sequences.of([[[1, 0], [0, 2]]], schema=Schema((Column("a", "symbol", 2), Column("b", "symbol", 3)), False))
    head = head_for(two, 3, key=KEY)
    assert isinstance(head, Columns) and head.parameter_count == 5


def test_units_are_those_of_the_observed_values():
    gaussian = head_for(REALS, 3, key=KEY)
    assert isinstance(gaussian, Gaussian)
    values = np.array([900.0, 940.0, 700.0])
    np.testing.assert_allclose(gaussian.location.value, [values.mean(), 1.0])
    np.testing.assert_allclose(gaussian.scale.value, [values.std(), 1.0])  # a constant column has no scale: 1
    counts = head_for(COUNTS, 3, key=KEY)
    assert isinstance(counts, NegativeBinomial)
    np.testing.assert_allclose(counts.rate.value, [2.0, 4.0])
    np.testing.assert_allclose(counts.spread.value, [np.log1p([0, 4, 2]).std(), np.log1p([3, 0, 9]).std()])


def test_missing_and_padded_values_do_not_count():
    data = Sequences.of([[1.0, np.nan, 3.0], [5.0]])
    head = head_for(data, 3, key=KEY)
    assert isinstance(head, Gaussian)
    np.testing.assert_allclose(head.location.value, 3.0)
    np.testing.assert_allclose(head.scale.value, np.std([1.0, 3.0, 5.0]))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_constant_columns_give_finite_heads(constant):
    head = head_for(Sequences.of([np.full(7, constant)]), 3, key=KEY)
    assert np.isfinite(head.encode(jnp.array(constant))).all()
    assert np.isfinite(head(jnp.zeros(3)).log_prob(constant))


def test_counts_that_are_all_zero_give_a_small_rate():
    head = head_for(Sequences.of([np.zeros((5, 1), int)]), 3, key=KEY, head="poisson")
    np.testing.assert_allclose(head.distribution(jnp.zeros(1)).mean, 0.1)


@pytest.mark.parametrize(
    ("name", "data", "family"),
    [
        ("categorical", SYMBOLS, Categorical),
        ("bernoulli", BITS, Bernoulli),
        ("gaussian", COUNTS, Gaussian),
        ("gaussian-full", REALS, Gaussian),
        ("student-t", REALS, StudentT),
        ("poisson", COUNTS, Poisson),
        ("poisson", SYMBOLS, Poisson),
        ("negative-binomial", BITS, NegativeBinomial),
        ("columns", REALS, Columns),
    ],
)
def test_another_family_may_be_named(name, data, family):
    plain = head_for(data, 3, key=KEY, head=name)
    assert isinstance(plain, family) and plain.event_shape == data.event_shape
    mixture = head_for(data, 3, key=KEY, head=f"mixture-{name}", components=2)
    assert isinstance(mixture, Mixture) and mixture.components == 2
    assert isinstance(mixture.family, family) and mixture.event_shape == data.event_shape


@pytest.mark.parametrize("name", ["bernoulli", "nade"])
def test_bits_start_at_their_odds(name):
    head = head_for(BITS, 3, key=KEY, head=name)
    np.testing.assert_allclose(head.bias[:2], np.log([1.5 / 2.5, 2.5 / 1.5]), rtol=1e-6)


@pytest.mark.parametrize(("name", "data"), [("gaussian", LEVELS), ("student-t", LEVELS), ("bernoulli", BITS)])
def test_components_start_between_observations_and_their_mean(name, data):
    count = int(data.lengths.sum())
    mixture = head_for(data, 3, key=KEY, head=f"mixture-{name}", components=count)
    assert isinstance(mixture, Mixture)
    each = np.asarray(mixture.bias[count:]).reshape(count, -1)
    means = np.array([mixture.family.distribution(jnp.asarray(part)).mean for part in each])
    seen = data.values[data.valid].astype(float)
    expected = 0.75 * seen + 0.25 * seen.mean(0)
    expected = np.clip(expected, 0.01, 0.99) if name == "bernoulli" else expected
    np.testing.assert_allclose(np.sort(means, 0), np.sort(expected, 0), rtol=1e-5)


def test_components_start_at_random_where_nothing_was_seen_whole():
    data = Sequences.of([np.array([[np.nan, 1.0], [2.0, np.nan]])])
    mixture = head_for(data, 3, key=KEY, head="mixture-gaussian", components=3)
    assert np.isfinite(mixture.bias).all() and len(np.unique(np.asarray(mixture.bias[3:]))) == 12


def test_options_reach_the_head():
    full = head_for(REALS, 3, key=KEY, covariance="full")
    assert isinstance(full, Gaussian) and full.covariance == "full"
    mixture = head_for(REALS, 3, key=KEY, head="mixture-gaussian")
    assert isinstance(mixture, Mixture) and mixture.components == 5


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (REALS, {"head": "gamma"}, "head is 'gamma'; it must be one of categorical, bernoulli, nade, subset, gaussian"),
        (REALS, {"head": "mixture-"}, "head is 'mixture-'"),
        (REALS, {"head": "gaussian", "components": 3}, "no option 'components'"),
        (SYMBOLS, {"covariance": "full"}, "no option 'covariance'"),
    ],
)
def test_unknown_names_and_options_are_refused(data, options, sentence):
    with pytest.raises(HiddenStateError, match=sentence):
        head_for(data, 3, key=KEY, **options)


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (
            Sequences.of([[-1.0, 2.0]]),
            "poisson",
            "column 'x' holds -1, but a poisson head takes whole numbers from 0",
        ),
        (Sequences.of([[0.5, 2.0]]), "negative-binomial", "holds 0.5, but a negative-binomial head"),
        (COUNTS, "bernoulli", "column 'x0' holds 4, but a bernoulli head takes 0 and 1"),
        (COUNTS, "categorical", "observations are vectors"),
        (LEVELS, "columns", "observations are single numbers"),
        (LEVELS, "gaussian-full", "observations are single numbers"),
        (LEVELS, "mixture-bernoulli", "a bernoulli head takes 0 and 1"),
        (
            Sequences.of([[0, 1]], schema=Schema((Column("sky", "symbol", 2, ("clear", "dull")),), True)),
            "gaussian",
            "column 'sky' holds names, but a gaussian head takes numbers",
        ),
    ],
)
def test_data_that_a_head_cannot_take_are_refused(data, name, sentence):
    with pytest.raises(DataError, match=sentence):
        head_for(data, 3, key=KEY, head=name)
