"""Data that say that they are not what a model was made for, and things that are no models."""

from dataclasses import replace

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Column, Schema

KEY = jr.key(0)
SKY = Column("sky", "symbol", 3, ("dry", "rain", "sun"))


def symbols(column: Column) -> hs.Sequences:
    return replace(hs.Sequences.of([[0, 1, 0], [1, 0]]), schema=Schema((column,), True))


def table(*names: str) -> hs.Sequences:
    values = np.random.default_rng(0).normal(size=(2, 3, len(names)))
    return replace(hs.Sequences.padded(values), schema=Schema(tuple(Column(name, "real") for name in names), False))


@pytest.mark.parametrize(
    ("made_for", "given", "said"),
    [
        (
            symbols(SKY),
            symbols(Column("sky", "symbol", 3, ("x", "y", "z"))),
            "'sky' holds the symbols 'x', 'y', 'z', but the model was made for 'dry', 'rain', 'sun'",
        ),
        (
            hs.Sequences.of([[0.5, 1.5, 2.5]]),
            symbols(Column("text", "symbol", 2, ("a", "b"))),
            r"'text' holds symbols \('a', 'b'\), but the model was made for real numbers",
        ),
        (table("a", "b", "c"), table("c", "a", "b"), "column 1 is 'c', but the model was made for 'a' there"),
    ],
)
def test_data_of_other_columns_are_refused(made_for, given, said):
    model = hs.build("gru", made_for, hidden=2, key=KEY)
    for use in (hs.score, hs.log_prob, lambda m, d: hs.fit(m, d, hs.SGD(steps=1), key=KEY)):
        with pytest.raises(hs.DataError, match=said):
            use(model, given)
    with pytest.raises(hs.DataError, match=said):
        hs.fit(model, made_for, hs.SGD(steps=1), validation=given, key=KEY)


def test_answers_of_other_symbols_are_refused():
    moods = hs.Pairs.of([[0, 1], [1, 0]], [0, 1])
    good = replace(moods.targets, schema=Schema((Column("mood", "symbol", 2, ("bad", "good")),), True))
    other = replace(moods.targets, schema=Schema((Column("mood", "symbol", 2, ("good", "bad")),), True))
    model = hs.build("gru", hs.Pairs(moods.sources, good), hidden=2, key=KEY)
    with pytest.raises(hs.DataError, match="'mood' holds the symbols 'good', 'bad', but the model was made for 'bad'"):
        hs.log_prob(model, hs.Pairs(moods.sources, other))


def test_what_data_do_not_say_is_no_contradiction():
    named, plain = symbols(SKY), hs.Sequences.of([[0, 1, 0], [1, 0]])
    fewer = symbols(Column("weather", "symbol", 2, ("dry", "rain")))  # the same codes, fewer of them
    model = hs.build("gru", named, hidden=2, key=KEY)
    np.testing.assert_array_equal(hs.log_prob(model, named), hs.log_prob(model, plain))
    np.testing.assert_array_equal(hs.log_prob(model, named), hs.log_prob(model, fewer))
    numbers = hs.build("gru", table("a", "b"), hidden=2, key=KEY)
    assert np.isfinite(hs.log_prob(numbers, table("x", "y"))).all()
    assert np.isfinite(hs.log_prob(numbers, np.ones((2, 3, 2), int))).all()


@pytest.mark.parametrize("call", [hs.score, hs.log_prob, hs.predictive, hs.states])
def test_what_is_no_model_is_said(call):
    with pytest.raises(hs.HiddenStateError, match=r"model is 'weather.safetensors'; .* hs.load"):
        call("weather.safetensors", [0.5])
    with pytest.raises(hs.HiddenStateError, match=r"model is Sequences.*; the model comes first, then the data"):
        call(hs.Sequences.of([[0.5]]), hs.build("unigram", [0.5, 1.0], key=KEY))
    fit = hs.fit(hs.build("unigram", [0.5, 1.0], key=KEY), [0.5, 1.0], hs.SGD(steps=1), key=KEY)
    with pytest.raises(hs.HiddenStateError, match="model is a Fit; give the model that it holds"):
        call(fit, [0.5])


def test_a_stream_of_what_is_no_model_is_refused():
    with pytest.raises(hs.HiddenStateError, match=r"model is 'weather.safetensors'; .* hs.load"):
        hs.Stream("weather.safetensors")
