"""Answers to sequences: `Transducer` and `Summary` against plain NumPy loops, what they refuse, and their recipes."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from cells.examples import EXAMPLES
from hiddenstate.core import cast

KEY = jr.key(0)
SOURCES = [np.random.default_rng(i).normal(size=(n, 3)) for i, n in enumerate((5, 1, 3))]
LABELS = [np.random.default_rng(i).integers(0, 4, n) for i, n in enumerate((5, 1, 3))]


def double(model):
    return cast(model, jnp.float64)


def cell(name, inputs=3, seed=0):
    return {"gru": hs.cells.GRU, "lstm": hs.cells.LSTM, "mingru": hs.cells.MinGRU}[name](inputs, 4, key=jr.key(seed))


def shown(name, cell, xs):
    """What a cell shows after each step, by its equations in NumPy."""
    return np.stack(EXAMPLES[name].loop(cell, xs))


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def log_probs(head, vectors):
    """The log-probability of every symbol under a categorical head, (time, symbol)."""
    return log_softmax(vectors @ np.asarray(head.weight).T + np.asarray(head.bias))


@pytest.mark.parametrize("name", ["gru", "lstm", "mingru"])
def test_a_transducer_answers_every_step_from_what_was_read_so_far(name):
    model = double(hs.Transducer(cell(name), hs.heads.Categorical(4, 4, key=KEY)))
    pairs = hs.Pairs.of(SOURCES, LABELS)
    found, answers = hs.step_log_probs(model, pairs), hs.predictive(model, pairs)
    assert answers.batch_shape == (3, 5)
    for i, (xs, ys) in enumerate(zip(SOURCES, LABELS, strict=True)):
        every = log_probs(model.head, shown(name, model.body, xs))
        np.testing.assert_allclose(found[i, : len(ys)], every[np.arange(len(ys)), ys], rtol=1e-10)
        np.testing.assert_allclose(np.log(answers.probs[i, : len(ys)]), every, rtol=1e-8)
        assert not np.asarray(found[i, len(ys) :]).any()
    np.testing.assert_allclose(hs.log_prob(model, pairs), np.asarray(found).sum(1), rtol=1e-12)
