"""Generated reviews, read again by hand-written rules."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.data import to_text
from hiddenstate.data.tasks.reviews import INTENSIFIERS, NEGATIONS, NEGATIVE, POSITIVE


@pytest.fixture(scope="module")
def pairs():
    return hs.tasks.reviews(sequences=1500, key=jr.key(0))


def mood(text):
    """What the rules of the docstring say, word by word."""
    text = text.split(" but ")[-1]
    total = 0
    for clause in text.split(" and "):
        words = clause.split()
        value = next(1 if word in POSITIVE else -1 for word in words if word in POSITIVE + NEGATIVE)
        value *= -1 if any(word in NEGATIONS for word in words) else 1
        total += value * (2 if any(word in INTENSIFIERS for word in words) else 1)
    return total


def test_the_mood_follows_from_the_words(pairs):
    moods = np.array([mood(text) for text in to_text(pairs.sources)])
    assert (moods != 0).all()
    np.testing.assert_array_equal(pairs.targets.values[:, 0], moods > 0)


def test_reviews_are_balanced_short_and_of_every_kind(pairs):
    texts = to_text(pairs.sources)
    assert abs(pairs.targets.values.mean() - 0.5) < 4 * 0.5 / np.sqrt(1500)
    assert pairs.sources.lengths.min() == 3 and pairs.sources.lengths.max() <= 23
    assert 0.15 < np.mean([" but " in text for text in texts]) < 0.4
    assert pairs.single and pairs.targets.schema.columns[0].symbols == ("negative", "positive")
    again = hs.tasks.reviews(sequences=1500, key=jr.key(0))
    assert to_text(again.sources) == texts


def test_counting_words_is_right_in_about_four_of_five(pairs):
    """Newton's method for a logistic regression on counts, learned from 1000 and tried on 500."""
    size = pairs.sources.schema.columns[0].size
    counts = np.stack([np.bincount(text, minlength=size) for text in pairs.sources]).astype(float)
    labels, weights = pairs.targets.values[:, 0], np.zeros(size)
    for _ in range(15):
        probs = 1 / (1 + np.exp(-counts[:1000] @ weights))
        slope = counts[:1000].T @ (probs - labels[:1000]) + weights
        curve = (counts[:1000].T * (probs * (1 - probs))) @ counts[:1000] + np.eye(size)
        weights -= np.linalg.solve(curve, slope)
    share = ((counts[1000:] @ weights > 0) == labels[1000:]).mean()
    assert 0.7 < share < 0.87
