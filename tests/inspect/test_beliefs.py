"""Beliefs on the simplex, along principal components and over training: exact networks, plain loops, sums by hand."""

import itertools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs

beliefs = hs.inspect.beliefs


@pytest.fixture(scope="module")
def task():
    return hs.tasks.hmm(3, 3, sequences=60, length=10, key=jr.key(3), concentration=0.5)


@pytest.fixture(scope="module")
def hmm(task):
    return hs.HMM(task.initial, task.transition, hs.emissions.Categorical(probs=task.emission))


@pytest.fixture(scope="module")
def gru(task):
    return hs.cast(hs.build("gru", task.data, hidden=4, layers=2, key=jr.key(1)), jnp.float64)


# -- the simplex ---------------------------------------------------------------------------------------------


def test_an_exact_network_shows_the_true_beliefs(task, hmm):
    found = beliefs.simplex(hs.exact_rnn(hmm), hmm, task.data, key=jr.key(0))
    np.testing.assert_allclose(found.rows("affine"), found.rows("true"), atol=1e-10)
    assert found.true.shape == (15, 10, 3)
    assert abs(found.r_squared - 1) < 1e-10
    odds = beliefs.simplex(hs.exact_rnn(hmm, reduced=True), hmm, task.data, key=jr.key(0), whole_state=True)
    np.testing.assert_allclose(odds.read, odds.true, atol=1e-4)
    assert np.nanmax(odds.divergence) < 1e-6
    assert odds.mean_divergence > 0.1


def test_true_beliefs_are_those_of_the_forward_recursion(task, hmm):
    found = beliefs.simplex(hs.exact_rnn(hmm), hmm, task.data, key=jr.key(0))
    due = {tuple(np.round(row, 9)) for row in task.optimal().predicted.reshape(-1, 3)}
    assert {tuple(np.round(row, 9)) for row in found.rows("true")} <= due


def test_a_layer_is_read_as_the_probe_reads_it(task, hmm, gru):
    probed = hs.inspect.probe(gru, hmm, task.data, key=jr.key(5))
    for number in (0, 1):
        found = beliefs.simplex(gru, hmm, task.data, key=jr.key(5), layer=number)
        assert found.name == probed.layers[number].name
        np.testing.assert_allclose(found.r_squared, probed.layers[number].belief_r_squared, rtol=1e-9)
        np.testing.assert_allclose(np.nanmean(found.divergence), probed.layers[number].divergence, rtol=1e-9)
        assert found.mean_divergence == probed.mean_divergence
    assert "R2" in str(found)


def test_steps_behind_the_end_are_left_out(task, hmm):
    ragged = hs.Sequences.padded(task.data.values, np.resize([10, 4], 60), schema=task.data.schema)
    found = beliefs.simplex(hs.exact_rnn(hmm), hmm, ragged, key=jr.key(0))
    assert np.isnan(found.divergence).any()
    assert (np.isnan(found.divergence) == np.isnan(found.read).all(-1)).all()
    assert np.isfinite(found.rows("read")).all()


def test_reachable_beliefs_are_those_of_all_words_by_bayes_rule(task, hmm):
    found = beliefs.reachable(hmm, 4)
    assert len(found.words) == 81
    for word, belief, prob in zip(found.words, found.beliefs, found.probs, strict=True):
        joint = task.initial
        for symbol in word:
            joint = (joint * task.emission[:, symbol]) @ task.transition
        np.testing.assert_allclose(prob, joint.sum(), rtol=1e-9)
        np.testing.assert_allclose(belief, joint / joint.sum(), atol=1e-9)
    assert {tuple(word) for word in found.words} == set(itertools.product(range(3), repeat=4))


def test_words_that_cannot_be_said_are_left_out():
    golden = hs.HMM([2 / 3, 1 / 3], [[0.5, 0.5], [1.0, 0.0]], hs.emissions.Categorical(probs=np.eye(2)))
    found = beliefs.reachable(golden, 5)
    assert len(found.words) == 13  # words of length 5 without two ones in a row: a Fibonacci number
    np.testing.assert_allclose(found.probs.sum(), 1, atol=1e-6)
    assert {tuple(row) for row in found.beliefs} == {(0.5, 0.5), (1.0, 0.0)}


def test_corners_and_middle_of_the_triangle():
    points = beliefs.in_triangle([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])
    sides = np.linalg.norm(points[[0, 1, 2]] - points[[1, 2, 0]], axis=1)
    np.testing.assert_allclose(sides, 1)
    np.testing.assert_allclose(np.linalg.norm(points[:3] - points[3], axis=1), 1 / np.sqrt(3))
    four = beliefs.in_triangle([[0.2, 0.2, 0.4, 0.2], [0, 0, 1, 0]], (0, 1, 3))
    np.testing.assert_allclose(four[0], points[3])
    assert np.isnan(four[1]).all()


# -- principal components ------------------------------------------------------------------------------------


def test_principal_components_are_the_singular_vectors(task, hmm, gru):
    found = beliefs.principal(gru, task.data, hmm, components=2)
    first, second = hs.states(gru, task.data)
    rows = np.concatenate([first, second], axis=-1).reshape(-1, 8)
    centred = rows - rows.mean(0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(found.shares, sizes**2 / (sizes**2).sum(), atol=1e-9)
    np.testing.assert_allclose(np.abs(found.directions), np.abs(axes[:2]), atol=1e-6)
    np.testing.assert_allclose(found.coordinates.reshape(-1, 2), centred @ found.directions.T, atol=1e-9)
    np.testing.assert_allclose(found.beliefs, task.optimal().predicted, atol=1e-6)
    np.testing.assert_array_equal(found.last[:, 1:], task.data.values[:, :-1])
    assert np.isnan(found.last[:, 0]).all()
    assert found.name == "all 2 layers"


def test_states_along_a_line_have_one_direction(task, hmm):
    """The exact network of two states has hidden vectors (p, 1 - p)."""
    two = hs.HMM(
        [0.5, 0.5], [[0.8, 0.2], [0.1, 0.9]], hs.emissions.Categorical(probs=[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    )
    found = beliefs.principal(hs.exact_rnn(two), task.data)
    np.testing.assert_allclose(found.shares, [1, 0], atol=1e-9)
    np.testing.assert_allclose(np.abs(found.directions[0]), np.sqrt(0.5), rtol=1e-6)
    assert "1 have 99%" in str(found)


# -- over training -------------------------------------------------------------------------------------------


def test_snapshots_are_runs_of_that_length_and_learn(task, hmm):
    network = hs.cast(hs.build("gru", task.data, hidden=4, key=jr.key(1)), jnp.float64)
    method = hs.SGD(batch_size=30, learning_rate=0.02)
    models = beliefs.snapshots(network, task.data, method, (0, 5, 60), key=jr.key(2))
    assert list(models) == [0, 5, 60]
    assert models[0] is network
    on = hs.fit(network, task.data, hs.SGD(batch_size=30, learning_rate=0.02, steps=5), key=jr.key(2), progress=False)
    np.testing.assert_array_equal(hs.log_prob(models[5], task.data), hs.log_prob(on.model, task.data))
    found = beliefs.over_training(models, hmm, task.data, key=jr.key(3))
    assert found.updates == [0, 5, 60]
    above = [-hs.log_prob(m, task.data, total=True) / 600 - task.optimal_nats_per_step for m in models.values()]
    np.testing.assert_allclose(found.frame["above_optimum"], above, rtol=1e-5)
    assert above[2] < 0.5 * above[0]
    probed = hs.inspect.probe(models[60], hmm, task.data, key=jr.key(3)).layers[0]
    assert found.frame["divergence"][2] == probed.divergence
    assert "60 updates" in str(found)


def test_the_optimum_is_not_above_itself(task, hmm):
    found = beliefs.over_training({7: [hs.exact_rnn(hmm)] * 2}, hmm, task.data, key=jr.key(3)).frame
    assert found["network"].to_list() == [0, 1]
    np.testing.assert_allclose(found["above_optimum"], 0, atol=1e-6)
    np.testing.assert_allclose(found["belief_r_squared"], 1, atol=1e-9)


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda h, d: beliefs.reachable(h, 0), "steps is 0; it must be a whole number from 1 on"),
        (lambda h, d: beliefs.reachable(h, 20), "3\\^20 words of 3 symbols; .* take at most 12"),
        (lambda h, d: beliefs.in_triangle([[0.5, 0.5]]), "states are \\(0, 1, 2\\); .* three different ones of 2"),
        (lambda h, d: beliefs.simplex(h, h, d, key=jr.key(0), layer=3), "layer is 3; the model has 1"),
        (lambda h, d: beliefs.simplex(h, h, d, key=jr.key(0)).rows("all"), "which is 'all'; it must be one of true"),
        (lambda h, d: beliefs.principal(h, d, components=0), "components is 0"),
        (lambda h, d: beliefs.over_training({}, h, d, key=jr.key(0)), "models holds none"),
        (lambda h, d: beliefs.snapshots(h, d, hs.EM(), (1,), key=jr.key(0)), "snapshots takes hs.SGD"),
        (lambda h, d: beliefs.snapshots(h, d, hs.SGD(), (-1,), key=jr.key(0)), "updates holds -1"),
        (lambda h, d: beliefs.snapshots(h, d, hs.SGD(decay="cosine"), (1,), key=jr.key(0)), "decay is 'cosine'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(task, hmm, call, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        call(hmm, task.data)
