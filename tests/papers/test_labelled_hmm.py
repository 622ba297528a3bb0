"""Labelled sequences of a hidden Markov model, and the forward algorithm beside other predictions."""

import itertools

import jax.random as jr
import numpy as np
import pytest

from hiddenstate.papers.labelled_hmm import (
    LENGTH,
    compare_predictions,
    divergence,
    draw_labelled,
    hmm_parameters,
    joined,
    mean_and_error,
    summary_of,
)
from hiddenstate.papers.particle_beliefs import filter_of, filtered_states, predicted_symbols


@pytest.fixture(scope="module")
def drawn():
    return draw_labelled(3, 4, train=5, validation=3, test=40, key=jr.key(0))


def by_enumeration(task, symbols):
    """p(H_t | x_1 .. x_t) of one sequence, by summing over every path of hidden states."""
    found = []
    for t in range(len(symbols)):
        totals = np.zeros(len(task.initial))
        for path in itertools.product(range(len(task.initial)), repeat=t + 1):
            chance = task.initial[path[0]] * task.emission[path[0], symbols[0]]
            for s in range(1, t + 1):
                chance *= task.transition[path[s - 1], path[s]] * task.emission[path[s], symbols[s]]
            totals[path[-1]] += chance
        found.append(totals / totals.sum())
    return np.array(found)


def test_the_forward_algorithm_is_the_sum_over_all_paths(drawn):
    filtered = drawn.optimal().filtered
    np.testing.assert_allclose(filtered[0, :5], by_enumeration(drawn.task, drawn.symbols[0, :5]), atol=1e-12)


def test_a_start_symbol_without_a_label_stands_before_every_sequence(drawn):
    assert [len(drawn.train), len(drawn.validation), len(drawn.test)] == [5, 3, 40]
    assert (drawn.train.sources.values[:, 0] == 4).all() and drawn.train.sources.values.shape == (5, LENGTH + 1)
    assert drawn.train.scored.tolist() == [[False] + [True] * LENGTH] * 5
    np.testing.assert_array_equal(drawn.hidden, drawn.task.hidden[8:])


def test_predictions_are_compared():
    forward = np.array([[[0.6, 0.4], [0.2, 0.8]], [[0.9, 0.1], [0.5, 0.5]]])
    predicted, hidden = np.array([[1, 1], [0, 0]]), np.array([[1, 0], [0, 1]])
    found = summary_of(compare_predictions(predicted, forward, hidden))
    assert found["accuracy"] == 0.5 and found["forward_accuracy"] == 0.25 and found["agreement"] == 0.75
    assert found["lost_accuracy"] == pytest.approx(0.2 / 4)
    assert found["advantage"] == 0.25
    twice = joined([compare_predictions(predicted, forward, hidden)] * 2, axis=1)
    assert twice.agree.shape == (2, 4) and summary_of(twice)["agreement"] == 0.75


def test_the_error_of_a_mean_counts_sequences():
    mean, error = mean_and_error(np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    assert mean == 0.5 and error == pytest.approx(np.sqrt(1 / 3) / 2)


def test_divergence_is_that_of_the_definition():
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])
    assert divergence(p, q) == pytest.approx(0.5 * np.log(2))
    assert divergence(p, np.array([1.0, 0.0, 0.0])) == np.inf


def test_free_probabilities_are_counted():
    assert hmm_parameters(2, 3) == 1 + 2 + 4


def test_many_particles_say_what_the_forward_algorithm_says(drawn):
    particles = filter_of(drawn.task, 1000, key=jr.key(1))
    optimal = drawn.optimal()
    said = filtered_states(particles, drawn.symbols, key=jr.key(2))
    assert np.abs(said - optimal.filtered).max() < 0.12  # standard errors are at most 0.5 / sqrt(1000), about 0.016
    assert np.abs(said - optimal.filtered).mean() < 0.016
    ahead = predicted_symbols(particles, drawn.symbols, key=jr.key(3))
    np.testing.assert_allclose(ahead.sum(axis=-1), 1, atol=1e-9)
    assert np.abs(ahead - optimal.predictive).mean() < 0.016


def test_every_sequence_has_random_numbers_of_its_own(drawn):
    alike = np.repeat(drawn.symbols[:1], 40, axis=0)
    said = filtered_states(filter_of(drawn.task, 1000, key=jr.key(1)), alike, key=jr.key(2))
    assert (said.std(axis=0).max(axis=-1) > 0).all()
