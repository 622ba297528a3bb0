from itertools import pairwise, product

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import DataError


def brute_force(task, symbols):
    """log p(x_1:t) for every t, by summing over all paths of states."""
    totals = []
    for t in range(1, len(symbols) + 1):
        total = 0.0
        for path in product(range(len(task.initial)), repeat=t):
            p = task.initial[path[0]]
            for a, b in pairwise(path):
                p *= task.transition[a, b]
            for state, symbol in zip(path, symbols[:t], strict=True):
                p *= 1.0 if symbol is None else task.emission[state, symbol]
            total += p
        totals.append(np.log(total))
    return np.array(totals)


@pytest.fixture(scope="module")
def task():
    return hs.tasks.hmm(3, 4, sequences=5, length=6, key=jr.key(0))


def test_forward_recursion_agrees_with_the_sum_over_all_paths(task):
    optimal = task.optimal()
    for i in range(5):
        totals = brute_force(task, task.data[i].tolist())
        np.testing.assert_allclose(np.cumsum(optimal.step_log_probs[i]), totals, rtol=1e-12)
    np.testing.assert_array_equal(task.optimal_log_prob(), optimal.log_prob)


def test_predictions_are_those_of_the_recursion(task):
    optimal = task.optimal()
    symbols = task.data.values
    picked = np.take_along_axis(optimal.predictive, symbols[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(np.log(picked), optimal.step_log_probs, rtol=1e-12)
    for probs in (optimal.predictive, optimal.predicted, optimal.filtered):
        np.testing.assert_allclose(probs.sum(axis=2), 1.0, rtol=1e-12)


def test_other_lengths_and_missing_symbols(task):
    data = hs.Sequences.of([[0, 1, 2], [3]], missing=[[False, True, False], [False]])
    steps = task.optimal(data).step_log_probs
    total = brute_force(task, [0, None, 2])
    np.testing.assert_allclose(np.cumsum(steps[0]), total, rtol=1e-12, atol=1e-14)
    assert steps[0, 1] == 0.0
    np.testing.assert_allclose(steps[1], [brute_force(task, [3])[0], 0.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(task.optimal_log_prob([[0, 1]]), brute_force(task, [0, 1])[-1:], rtol=1e-12)


def test_probabilities_of_all_sequences_sum_to_one(task):
    every = np.array(list(product(range(4), repeat=3)))
    assert np.exp(task.optimal_log_prob(list(every))).sum() == pytest.approx(1.0, abs=1e-12)


def test_the_task_is_what_it_says(task):
    assert task.data.shape == (5, 6) and task.hidden.shape == (5, 6)
    assert task.data.schema.columns[0].size == 4
    assert task.transition.dtype == np.float64
    np.testing.assert_allclose(task.transition.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(task.emission.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(task.stationary @ task.transition, task.stationary, atol=1e-13)
    assert task.optimal_nats_per_step == pytest.approx(-task.optimal_log_prob().sum() / 30)


def test_samples_come_from_the_parameters():
    task = hs.tasks.hmm(2, 3, sequences=4000, length=8, key=jr.key(3))
    # 4000 first states, about 14000 moves and 16000 symbols of each state: four standard errors of a share.
    first = np.bincount(task.hidden[:, 0], minlength=2) / 4000
    np.testing.assert_allclose(first, task.initial, atol=4 * 0.5 / np.sqrt(4000))
    moves = np.zeros((2, 2))
    np.add.at(moves, (task.hidden[:, :-1].ravel(), task.hidden[:, 1:].ravel()), 1)
    emitted = np.zeros((2, 3))
    np.add.at(emitted, (task.hidden.ravel(), task.data.values.ravel()), 1)
    for counts, probs in ((moves, task.transition), (emitted, task.emission)):
        bound = 4 * 0.5 / np.sqrt(counts.sum(axis=1, keepdims=True))
        assert (np.abs(counts / counts.sum(axis=1, keepdims=True) - probs) < bound).all()


def test_no_predictor_beats_the_optimal_one_on_average():
    task = hs.tasks.hmm(3, 3, sequences=300, length=50, key=jr.key(1), concentration=0.3)
    shares = np.bincount(task.data.values.ravel(), minlength=3) / task.data.steps
    unigram = -(shares * np.log(np.maximum(shares, 1e-300))).sum()
    assert task.optimal_nats_per_step < unigram


def test_concentration_makes_sharp_or_flat_models():
    sharp = hs.tasks.hmm(5, 5, sequences=1, length=1, key=jr.key(0), concentration=0.01)
    flat = hs.tasks.hmm(5, 5, sequences=1, length=1, key=jr.key(0), concentration=1e4)
    assert sharp.transition.max(axis=1).min() > 0.8
    np.testing.assert_allclose(flat.transition, 0.2, atol=0.02)


def test_the_key_decides():
    one, two, other = (hs.tasks.hmm(2, 3, sequences=4, length=8, key=jr.key(k)) for k in (0, 0, 1))
    np.testing.assert_array_equal(one.data.values, two.data.values)
    assert (one.transition == two.transition).all() and (one.transition != other.transition).any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"states": 0}, "states is 0; it must be a whole number of at least 1"),
        ({"symbols": 2.5}, "symbols is 2.5"),
        ({"sequences": -1}, "sequences is -1"),
        ({"length": True}, "length is True"),
        ({"concentration": 0.0}, "concentration is 0.0"),
    ],
)
def test_a_sentence_says_what_is_wrong(change, sentence):
    with pytest.raises(DataError, match=sentence):
        hs.tasks.hmm(**{"states": 2, "symbols": 3, "sequences": 1, "length": 2, "key": jr.key(0)} | change)


def test_foreign_symbols_are_refused(task):
    with pytest.raises(DataError, match="whole numbers from 0 to 3; the largest is 4"):
        task.optimal([[0, 4]])
    with pytest.raises(DataError, match="one symbol a step"):
        task.optimal([[0.5]])
