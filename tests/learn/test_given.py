"""Likelihoods given the first steps: in every score, and in learning."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import partition

KEY = jr.key(0)
ROWS = [np.array([0, 2, 1, 1]), np.array([2]), np.array([1, 0])]


@pytest.fixture(scope="module")
def model():
    return hs.build("vanilla", hs.Sequences.of(ROWS), hidden=3, key=KEY)


def test_given_marks_the_first_steps_of_each_sequence_as_context():
    data = hs.Sequences.of(ROWS)
    assert data.given(0) is data
    np.testing.assert_array_equal(data.given(1).context, [1, 1, 1])
    np.testing.assert_array_equal(data.given(2).context, [2, 1, 2])
    assert data.given(2).scored_steps == 2
    np.testing.assert_array_equal(data.given(2).given(1).context, [2, 1, 2])
    np.testing.assert_array_equal(data[[0]].given(3).pieces(2).context, [2, 1])
    with pytest.raises(hs.DataError, match="longest sequence has 4 steps: nothing is left"):
        data.given(4)
    for wrong in (-1, 1.5, True):
        with pytest.raises(hs.DataError, match="given is"):
            data.given(wrong)


def test_scores_leave_the_given_steps_out(model):
    steps = np.asarray(hs.step_log_probs(model, ROWS), np.float64)
    later = steps[0, 1:4].sum() + steps[2, 1]
    np.testing.assert_allclose(hs.log_prob(model, ROWS, given=1), [steps[0, 1:4].sum(), 0, steps[2, 1]], rtol=1e-6)
    np.testing.assert_allclose(hs.log_prob(model, ROWS, given=1, total=True), later, rtol=1e-6)
    score = hs.score(model, ROWS, given=1)
    assert score.steps == 4
    assert np.isclose(score.nats_per_step, -later / 4)
    found = hs.evaluate(model, ROWS, key=KEY, given=1)
    assert found.score == score
    assert found.only.counts[0] == 4


def test_learning_maximises_the_likelihood_given_the_first_steps(model):
    given = hs.fit(model, ROWS, hs.SGD(epochs=3, batch_size=3), key=KEY, given=1, progress=False)
    by_hand = hs.fit(model, hs.Sequences.of(ROWS).given(1), hs.SGD(epochs=3, batch_size=3), key=KEY, progress=False)
    assert eqx.tree_equal(given.model, by_hand.model)
    assert np.isclose(given.history["loss"][0], hs.score(model, ROWS, given=1).nats_per_step, rtol=1e-5)
    start, after = partition(model)[0].start, partition(given.model)[0].start
    assert not jnp.array_equal(start, after)  # what comes before the first step still matters to the later ones


def test_methods_and_models_that_cannot_are_refused(model):
    hmm = hs.build("hmm", hs.Sequences.of(ROWS), states=2, key=KEY)
    with pytest.raises(hs.HiddenStateError, match="EM maximises the likelihood of all steps"):
        hs.fit(hmm, ROWS, hs.EM(), key=KEY, given=1)
    pairs = hs.Pairs.of(ROWS, [np.array([0]), np.array([1]), np.array([0])])
    answering = hs.build("vanilla", pairs, hidden=2, key=KEY)
    with pytest.raises(hs.DataError, match="given is 1, but"):
        hs.score(answering, pairs, given=1)


def test_a_comparison_says_what_is_given_and_scores_the_rest():
    rows = [np.arange(4) % 3 for _ in range(20)]
    found = hs.compare(rows, ["unigram", "bigram"], key=KEY, epochs=2, progress=False, given=2)
    assert found.split.endswith("; the first 2 steps of each sequence read, not scored.")
    np.testing.assert_array_equal(found.test.context, 2)
    assert all(not nats[:, :2].any() and nats[:, 2:].all() for nats in found.step_nats.values())
