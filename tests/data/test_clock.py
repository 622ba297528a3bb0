"""The clock: its hours and questions against a walk in plain Python, its best answers against enumeration."""

import itertools
from math import log

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import DataError

BLANK, QUESTION = 5, 6


@pytest.fixture(scope="module")
def clock():
    return hs.tasks.clock(hours=5, speed=2, slip=0.2, reset=0.2, ask=0.4, length=30, sequences=400, key=jr.key(0))


def test_the_hour_is_seen_where_the_clock_is_set_and_nowhere_else(clock):
    read, hidden = clock.data.values, clock.targets
    seen = read < 5
    assert seen[:, 0].all() and hidden.min() == 0 and hidden.max() == 4
    np.testing.assert_array_equal(read[seen], hidden[seen])
    np.testing.assert_array_equal(read == QUESTION, clock.scored)
    assert set(np.unique(read[~seen])) == {BLANK, QUESTION}
    count = seen[:, 1:].size  # four standard errors
    assert abs(seen[:, 1:].mean() - 0.2) < 4 * np.sqrt(0.16 / count)
    assert abs(clock.scored[:, 1:].mean() - 0.32) < 4 * np.sqrt(0.32 * 0.68 / count)
    np.testing.assert_allclose(np.bincount(read[seen]) / seen.sum(), 0.2, atol=4 * np.sqrt(0.16 / seen.sum()))


def test_between_two_resets_the_hand_moves_by_its_speed_or_misses_a_step(clock):
    seen = clock.data.values < 5
    moved = (clock.targets[:, 1:] - clock.targets[:, :-1])[~seen[:, 1:]] % 5
    assert set(np.unique(moved)) == {0, 2}
    assert abs((moved == 0).mean() - 0.2) < 4 * np.sqrt(0.16 / moved.size)
    steady = hs.tasks.clock(hours=12, reset=0.0, length=30, sequences=2, key=jr.key(0))
    np.testing.assert_array_equal(steady.targets, (steady.targets[:, :1] + np.arange(30)) % 12)
    np.testing.assert_array_equal(steady.optimal().step_log_probs, 0.0)
    assert steady.optimal().accuracy == 1.0


def test_beliefs_are_those_of_all_paths_of_the_hand():
    """Every way to miss steps since the hour was last seen, each with its probability."""
    task = hs.tasks.clock(hours=3, slip=0.3, reset=0.25, length=7, sequences=6, key=jr.key(1))
    for read, beliefs in zip(task.data.values, task.beliefs(), strict=True):
        for t in range(7):
            last = max(s for s in range(t + 1) if read[s] < 3)
            expected = np.zeros(3)
            for moves in itertools.product((0, 1), repeat=t - last):
                expected[(read[last] + sum(moves)) % 3] += np.prod([0.7 if move else 0.3 for move in moves])
            np.testing.assert_allclose(beliefs[t], expected, atol=1e-14)


def test_the_best_answers_are_as_good_as_they_say(clock):
    """The mean of -log p is the beliefs' entropy, and the likeliest hour is right as often as they say."""
    best, beliefs = clock.optimal(), clock.beliefs()[clock.scored]
    nats = -best.step_log_probs[clock.scored]
    surprise = nats + np.sum(beliefs * np.log(np.where(beliefs > 0, beliefs, 1)), axis=1)
    assert abs(surprise.mean()) < 4 * surprise.std() / np.sqrt(len(surprise))
    sure = beliefs.max(axis=1)
    assert abs(best.accuracy - sure.mean()) < 4 * np.sqrt((sure * (1 - sure)).mean() / len(sure))
    assert 0.2 < nats.mean() < clock.baseline == log(5)
    assert not best.step_log_probs[~clock.scored].any()


def test_only_questions_are_to_be_answered(clock):
    np.testing.assert_array_equal(clock.pairs.scored, clock.scored)
    np.testing.assert_array_equal(clock.optimal(clock.pairs[:7]).step_log_probs, clock.optimal().step_log_probs[:7])


def test_impossible_clocks_are_refused():
    sizes = {"length": 4, "sequences": 2, "key": jr.key(0)}
    for name in ("slip", "reset", "ask"):
        with pytest.raises(DataError, match=f"{name} is 1.5; it must be a probability"):
            hs.tasks.clock(**{name: 1.5}, **sizes)
    with pytest.raises(DataError, match="hours is 0; it must be a whole number"):
        hs.tasks.clock(hours=0, **sizes)
    with pytest.raises(DataError, match=r"speed is 0\.5; it must be a whole number of hours"):
        hs.tasks.clock(speed=0.5, **sizes)
    task = hs.tasks.clock(hours=3, **sizes)
    with pytest.raises(DataError, match="does not begin with an hour"):
        task.beliefs([np.array([3, 0, 4])])
