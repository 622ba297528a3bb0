"""Synchronisation against processes whose curves are known in closed form, over all words of one length."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.inspect.beliefs.settling import settled

synchronisation = hs.inspect.beliefs.synchronisation


def entropy(*probs):
    return -sum(p * np.log(p) for p in probs if p > 0)


def model_of(initial, transition, emission):
    return hs.cast(hs.HMM(initial, transition, hs.emissions.Categorical(probs=emission)), jnp.float64)


def exactly(model, steps, **options):
    """The curves over all words of one length, weighted by their probabilities: no chance in it."""
    words = hs.inspect.beliefs.reachable(model, steps)
    return synchronisation(model, hs.Sequences.padded(words.words), weights=words.probs, **options)


@pytest.fixture(scope="module")
def golden_mean():
    """No two ones in a row: state 0 shows 0, state 1 shows 1, and after 1 comes 0."""
    return model_of([2 / 3, 1 / 3], [[0.5, 0.5], [1.0, 0.0]], np.eye(2))


@pytest.fixture(scope="module")
def even():
    """Ones come in even blocks. The machine: A shows 0 and stays, or 1 and goes to B; B shows 1 and goes to A.

    Hidden states are its arrows: A-0-A, A-1-B, B-1-A.
    """
    transition = [[0.5, 0.5, 0], [0, 0, 1], [0.5, 0.5, 0]]
    return model_of([1 / 3, 1 / 3, 1 / 3], transition, [[1, 0], [0, 1], [0, 1]])


def test_emissions_that_tell_the_state_synchronise_in_one_step(golden_mean):
    found = exactly(golden_mean, 8)
    rate = 2 / 3 * np.log(2)  # a coin is thrown only after a zero
    np.testing.assert_allclose(found.frame["belief_entropy"], [entropy(1 / 3, 2 / 3), *[rate] * 7], atol=1e-12)
    np.testing.assert_allclose(found.frame["state_entropy"][1:], 0, atol=1e-12)
    np.testing.assert_allclose(found.frame["cross_entropy"], found.frame["predictive_entropy"], atol=1e-12)
    np.testing.assert_allclose(found.entropy_rate, rate)
    np.testing.assert_allclose(found.belief_limit, rate)
    assert found.belief_after == found.prediction_after == 1
    assert found.frame["state_entropy"][0] is None


def test_the_even_process_has_its_known_curve(even):
    """After n ones and nothing else the belief over A and B is (2/3, 1/3) or (1/2, 1/2); after a zero it is certain."""
    found = exactly(even, 11)
    machine = [
        0.5 ** (n // 2) * (entropy(1 / 3, 2 / 3) if n % 2 == 0 else 2 / 3 * np.log(2)) for n in range(11)
    ]  # the probability of n ones is 2^(-n/2), or 2/3 of that of n - 1 for odd n
    rate = 2 / 3 * np.log(2)
    np.testing.assert_allclose(found.frame["belief_entropy"], rate + np.array(machine), atol=1e-12)
    by_chance = [entropy(p := 1 / 3, 1 - p) if n % 2 == 0 else entropy(1 / 4, 3 / 4) for n in range(11)]
    ones = [0.5 ** (n // 2) * (1 if n % 2 == 0 else 2 / 3) for n in range(11)]
    in_a = [2 / 3 - p * (2 / 3 if n % 2 == 0 else 1 / 2) for n, p in enumerate(ones)]  # certain, and in A
    due = [p * h + a * np.log(2) for p, h, a in zip(ones, by_chance, in_a, strict=True)]
    np.testing.assert_allclose(found.frame["predictive_entropy"], due, atol=1e-12)
    assert found.frame["cross_entropy_error"].is_null().all()


def test_with_nothing_to_see_the_entropy_becomes_that_of_the_stationary_distribution():
    transition = np.array([[0.9, 0.1], [0.3, 0.7]])
    found = exactly(model_of([1, 0], transition, [[0.5, 0.5]] * 2), 10)
    due = [entropy(*(np.array([1.0, 0]) @ np.linalg.matrix_power(transition, n))) for n in range(10)]
    np.testing.assert_allclose(found.frame["belief_entropy"], due, atol=1e-12)
    assert abs(due[-1] - entropy(0.75, 0.25)) < 0.01
    np.testing.assert_allclose(found.frame["cross_entropy"], np.log(2))
    assert found.prediction_after == 0
    for name in ("belief_low", "belief_median", "belief_high"):
        np.testing.assert_allclose(found.frame[name], due, atol=1e-12)


def test_sampled_sequences_have_the_same_curve(even):
    data = hs.sample(even, 8, key=jr.key(0), n=2000)
    exact, found = exactly(even, 8).frame, synchronisation(even, data).frame
    apart = (found["belief_entropy"] - exact["belief_entropy"]).to_numpy()[1:]
    assert np.abs(apart / found["belief_entropy_error"].to_numpy()[1:]).max() < 4
    assert np.abs(apart).max() > 0


def test_quantiles_and_errors_are_those_of_the_sequences_that_reach_so_far(even):
    data = hs.sample(even, 6, key=jr.key(1), n=40)
    ragged = hs.Sequences.padded(data.values, np.resize([6, 3], 40))
    found = synchronisation(even, ragged).frame
    assert found["sequences"].to_list() == [40] * 3 + [20] * 3
    rows = np.asarray(hs.states(even, ragged))[::2, 4]
    each = np.array([entropy(*row) for row in rows])
    np.testing.assert_allclose(found["belief_entropy"][4], each.mean())
    np.testing.assert_allclose(found["belief_entropy_error"][4], each.std(ddof=1) / np.sqrt(20))
    assert found["belief_median"][4] == pytest.approx(np.sort(each)[9])  # half of 20 do not exceed it
    assert found["belief_high"][4] == pytest.approx(np.sort(each)[17])


@pytest.mark.slow
def test_a_network_is_judged_by_a_probe_and_by_expected_costs(even):
    data = hs.sample(even, 7, key=jr.key(2), n=80)
    exact = hs.exact_rnn(even)
    own = synchronisation(exact, data)  # its state is the belief itself
    np.testing.assert_allclose(own.frame["belief_entropy"], synchronisation(even, data).frame["belief_entropy"])
    gru = hs.cast(hs.build("gru", data, hidden=3, key=jr.key(0)), jnp.float64)
    alone = synchronisation(gru, data)
    assert alone.belief_limit is None
    assert alone.frame["belief_entropy"].is_null().all()
    np.testing.assert_allclose(alone.frame["cross_entropy"], -np.asarray(hs.step_log_probs(gru, data)).mean(0))
    read = synchronisation(gru, data, hmm=even, key=jr.key(3))
    assert read.name == "RNN of GRU, read by a probe"
    assert read.frame["sequences"][0] == 20
    _, held_out = data.split(0.75, key=jr.key(3))
    truth = np.asarray(hs.states(even, held_out)) @ np.array([[1, 0], [0, 1], [0, 1]])
    costs = -(truth * np.log(np.asarray(hs.predictive(gru, held_out).probs))).sum(-1).mean(0)
    np.testing.assert_allclose(read.frame["cross_entropy"], costs, rtol=1e-9)
    assert read.frame["state_entropy"].is_null().all()
    assert "settled" in str(read)


def test_curves_settle_where_they_stay():
    curve = np.array([1.0, 0.1, 0.5, 0.0, 0.02, 0.0, 0.0, 0.0])
    assert settled(curve, 0.05) == (0.0, 3)
    assert settled(curve, 0.01) == (0.0, 5)
    assert settled(curve, 2.0) == (0.0, 0)
    assert settled(np.arange(8.0), 0.1)[1] is None


def test_steps_that_few_sequences_reach_are_not_judged():
    """One long sequence of other symbols does not move what the curves settle to."""
    random = np.random.default_rng(0)
    rows = [random.integers(0, 2, n) for n in (10, 12, 12, 10, 12, 12, 10)] + [np.zeros(40, int)]
    model = hs.build("hmm", hs.Sequences.of(rows), states=2, key=jr.key(0))
    found = synchronisation(model, hs.Sequences.of(rows))
    assert found.judged == 12 and len(found.frame) == 40
    counts, costs = found.frame["sequences"].to_numpy(), found.frame["cross_entropy"].to_numpy()
    due = np.average(costs[9:12], weights=counts[9:12])
    assert counts[9:12].tolist() == [8, 5, 5] and found.entropy_rate == pytest.approx(due)


def test_real_numbers_have_costs_but_no_entropies_of_symbols():
    data = np.random.default_rng(0).normal(size=(6, 5, 1))
    found = synchronisation(hs.build("gru", hs.Sequences.padded(data), hidden=2, key=jr.key(0)), data)
    assert found.frame["predictive_entropy"].is_null().all()
    assert found.frame["cross_entropy"].is_not_null().all()
    assert found.frame.schema["belief_entropy"] == pl.Float64


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tolerance": 0}, "tolerance is 0; it must be a positive number"),
        ({"weights": [1.0]}, "weights have the shape \\(1,\\); there must be one for each of the 4"),
        ({"weights": [0, 0, 0, 0]}, "not all zero"),
    ],
)
def test_wrong_options_are_refused_in_words(even, options, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        synchronisation(even, np.zeros((4, 3), int), **options)


def test_a_network_needs_a_key_and_no_weights(even):
    data = hs.sample(even, 4, key=jr.key(2), n=4)
    gru = hs.build("gru", data, hidden=2, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="key is None"):
        synchronisation(gru, data, hmm=even)
    with pytest.raises(hs.HiddenStateError, match="weights are given"):
        synchronisation(gru, data, hmm=even, weights=np.ones(4))
