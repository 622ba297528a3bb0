"""Homomorphisms and probes against exact networks, sums by hand, and states that know nothing."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inspect.regression import least_squares, r_squared, softmax_regression
from hiddenstate.networks.exact import log_odds


@pytest.fixture(scope="module")
def task():
    return hs.tasks.hmm(3, 4, sequences=60, length=12, key=jr.key(3), concentration=0.5)


@pytest.fixture(scope="module")
def hmm(task):
    return hs.HMM(task.initial, task.transition, hs.emissions.Categorical(probs=task.emission))


@pytest.fixture(scope="module")
def exact(hmm):
    return hs.exact_rnn(hmm)


@pytest.fixture(scope="module")
def gru(task):
    return hs.cast(hs.build("gru", task.data, hidden=5, key=jr.key(1)), jnp.float64)


def identity(belief):
    return belief


# -- homomorphisms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reduced", "phi"), [(False, identity), (True, log_odds)])
def test_exact_networks_have_no_residuals(task, hmm, reduced, phi):
    found = hs.inspect.homomorphism(hmm, hs.exact_rnn(hmm, reduced), phi, task.data)
    for residual in (found.start, found.update, found.readout, found.states):
        assert residual.relative_largest < 1e-12
    assert abs(found.network_divergence) < 1e-12
    assert abs(found.image_divergence) < 1e-12
    assert found.steps == task.data.steps


def test_a_linear_map_of_the_beliefs_is_found(task, hmm, exact):
    found = hs.inspect.homomorphism(hmm, exact, "linear", task.data)
    for residual in (found.start, found.update, found.readout, found.states):
        assert residual.relative_largest < 1e-12
    assert found.steps == 15 * 12  # a quarter of the sequences


def test_residuals_are_those_summed_by_hand():
    """Two states, two symbols, one sequence: every condition written out with numbers for a map that is wrong."""
    initial, transition = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.2, 0.8]])
    emission = np.array([[0.9, 0.1], [0.4, 0.6]])
    hmm = hs.HMM(initial, transition, hs.emissions.Categorical(probs=emission))

    def phi(belief):
        return jnp.array([0.5, 0.2]) + 0.3 * belief

    def update(h, x):
        joint = h * emission[:, x]
        return joint / joint.sum() @ transition

    beliefs = np.array([initial, update(initial, 1)])
    images = 0.3 * beliefs + [0.5, 0.2]
    missed = [0.3 * update(beliefs[t], x) + [0.5, 0.2] - update(images[t], x) for t in (0, 1) for x in (0, 1)]
    missed = np.linalg.norm(missed, axis=1).reshape(2, 2)
    expected = beliefs @ emission
    read = images / images.sum(axis=1, keepdims=True) @ emission  # the network normalises what it reads
    found = hs.inspect.homomorphism(hmm, hs.exact_rnn(hmm), phi, np.array([1, 0]))
    got = [found.start.mean, found.update.mean, found.update.largest, found.update.spread]
    got += [found.readout.mean, found.states.largest, found.image_divergence]
    due = [
        np.linalg.norm(images[0] - initial),
        (missed * expected).sum(axis=1).mean(),
        missed.max(),
        np.linalg.norm(beliefs.std(axis=0)),
        np.linalg.norm(expected - read, axis=1).mean(),
        np.linalg.norm(images - beliefs, axis=1).max(),
        (expected * np.log(expected / read)).sum(axis=1).mean(),
    ]
    np.testing.assert_allclose(got, due, rtol=1e-10)


@pytest.mark.slow
def test_an_untrained_network_is_no_homomorphism(task, hmm, gru):
    linear = hs.inspect.homomorphism(hmm, gru, "linear", task.data)
    bent = hs.inspect.homomorphism(hmm, gru, "mlp", task.data, key=jr.key(0))
    held_out = task.data[45:]
    best, own = task.optimal(held_out).predictive, hs.predictive(gru, held_out).probs
    lost = (best * np.log(best / own)).sum(axis=-1).mean()
    for found in (linear, bent):
        assert found.update.relative > 0.1
        assert found.readout.relative > 0.1
        np.testing.assert_allclose(found.network_divergence, lost, rtol=1e-9)
    assert bent.start.relative < linear.start.relative
    assert "C.2" in str(linear)


def test_training_brings_the_conditions_nearer(task, hmm, gru):
    method = hs.SGD(steps=150, batch_size=60, learning_rate=0.02)
    trained = hs.fit(gru, task.data, method, key=jr.key(0)).model
    before, after = (hs.inspect.homomorphism(hmm, model, "linear", task.data) for model in (gru, trained))
    assert after.readout.relative < 0.5 * before.readout.relative
    assert after.image_divergence < 0.2 * before.image_divergence
    assert after.update.relative > 1e-3


@pytest.mark.parametrize(
    ("phi", "said"),
    [
        ("cubic", "phi is 'cubic'; it must be a function of a belief, 'linear' or 'mlp'"),
        ("mlp", "key is None; phi='mlp'"),
        (lambda belief: belief[:2], "phi makes 2 numbers of a belief; a state of the network has 3"),
    ],
)
def test_maps_that_are_none_are_refused(task, hmm, exact, phi, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.inspect.homomorphism(hmm, exact, phi, task.data)


def test_models_and_data_that_do_not_fit_are_refused(task, hmm, exact):
    reals = hs.build("ar1", np.array([0.0, 1.0, 0.5]), key=jr.key(0))
    fewer = hs.build("unigram", np.array([0, 1, 2]), key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="rnn is a RNN of LastValue that does not predict symbols"):
        hs.inspect.homomorphism(hmm, reals, "linear", task.data)
    with pytest.raises(hs.HiddenStateError, match="hmm has 4 symbols, but rnn 3"):
        hs.inspect.homomorphism(hmm, fewer, "linear", task.data)
    with pytest.raises(hs.HiddenStateError, match="data hold one sequence"):
        hs.inspect.homomorphism(hmm, exact, "linear", task.data[:1])


# -- probes --------------------------------------------------------------------------------------------------


def test_the_belief_is_read_from_exact_networks(task, hmm, exact):
    found = hs.inspect.probe(exact, hmm, task.data, key=jr.key(0)).layers[0]
    assert abs(found.belief_r_squared - 1) < 1e-12
    assert abs(found.hidden_r_squared - 1) < 1e-12
    assert np.isnan(found.belief_r_squared_by_step[0])
    np.testing.assert_allclose(found.belief_r_squared_by_step[1:], 1, atol=1e-12)
    reduced = hs.exact_rnn(hmm, reduced=True)
    by_odds = hs.inspect.probe(reduced, hmm, task.data, key=jr.key(0), whole_state=True)
    assert by_odds.layers[0].divergence < 1e-9  # the softmax of log-odds is the belief
    assert by_odds.layers[0].belief_r_squared < 0.999
    assert by_odds.mean_divergence > 0.1


def test_every_layer_is_probed(task, hmm):
    stacked = hs.build("gru", task.data, hidden=5, layers=2, key=jr.key(1))
    found = hs.inspect.probe(stacked, hmm, task.data, key=jr.key(0))
    assert [layer.name for layer in found.layers] == ["layer 1, GRU", "layer 2, GRU"]
    for layer in found.layers:
        assert 0.05 < layer.belief_r_squared < 0.999
        assert layer.divergence > 1e-3
        assert layer.divergence_by_step.shape == (12,)
    assert "layer 2, GRU" in str(found)


def test_what_is_read_from_noise_is_nothing():
    random = np.random.default_rng(0)
    beliefs, noise = random.dirichlet(np.ones(3), 4000), random.normal(size=(4000, 5))
    known, other = slice(0, 3000), slice(3000, None)
    read = least_squares(noise[known], beliefs[known])(noise[other])
    assert abs(r_squared(beliefs[other], read, np.ones(1000, bool))) < 0.02
    log_probs = softmax_regression(noise[known], beliefs[known])(noise[other])
    np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(np.exp(log_probs).mean(0), beliefs.mean(0), atol=0.02)


def test_softmax_regression_finds_the_logits_behind_its_targets():
    random = np.random.default_rng(1)
    inputs, weight, bias = random.normal(size=(300, 3)), random.normal(size=(3, 4)), random.normal(size=4)
    logits = inputs @ weight + bias
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    np.testing.assert_allclose(softmax_regression(inputs, np.exp(expected))(inputs), expected, atol=1e-6)


def test_ragged_sequences_count_only_their_own_steps(task, hmm, exact):
    ragged = hs.Sequences.padded(task.data.values, np.resize([12, 7, 3, 12], 60), schema=task.data.schema)
    found = hs.inspect.probe(exact, hmm, ragged, key=jr.key(5)).layers[0]
    assert abs(found.belief_r_squared - 1) < 1e-12
    assert hs.inspect.homomorphism(hmm, exact, identity, ragged).steps == ragged.steps


def test_a_state_that_is_no_belief_is_refused(task, exact, gru):
    with pytest.raises(hs.HiddenStateError, match="hmm is a RNN of GRU whose state is no belief"):
        hs.inspect.probe(exact, gru, task.data, key=jr.key(0))


@pytest.mark.parametrize(
    ("phi", "sentence"),
    [
        (lambda belief: 1.0, "phi makes 1.0 of a belief; it must be an array"),
        (lambda belief: [], "it must be an array"),
        (lambda belief: belief[:1], "phi makes 1 numbers of a belief"),
    ],
)
def test_a_map_to_something_else_is_refused(hmm, exact, task, phi, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        hs.inspect.homomorphism(hmm, exact, phi, task.data)


def test_models_of_other_symbols_are_refused(hmm, task):
    more = hs.tasks.hmm(2, 5, sequences=2, length=30, key=jr.key(1)).data
    with pytest.raises(hs.HiddenStateError, match="hmm has 4 symbols, but rnn 5; they must be the same"):
        hs.inspect.homomorphism(hmm, hs.build("gru", more, hidden=3, key=jr.key(0)), "linear", task.data)


def test_reduced_is_yes_or_no(hmm):
    with pytest.raises(hs.HiddenStateError, match="reduced is 'yes'; it must be True or False"):
        hs.exact_rnn(hmm, reduced="yes")
