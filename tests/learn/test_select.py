"""Choosing between models: criteria, held-out data, and the table."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.learn import EM, select
from hiddenstate.learn.criteria import free_parameters, observed_steps
from hiddenstate.learn.select import _Cut, ended
from marks import quick

MEANS = np.array([-4.0, 0.0, 4.0])


@pytest.fixture(scope="module")
def true():
    """Three states that are well apart."""
    transition = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    return hs.HMM(np.full(3, 1 / 3), transition, hs.emissions.Gaussian(MEANS, np.ones(3)))


@pytest.fixture(scope="module")
def data(true):
    return hs.sample(true, 60, key=jr.key(0), n=12)


CANDIDATES = [("hmm", {"states": k}) for k in (2, 3, 4)]


@pytest.mark.parametrize("criterion", quick(["bic", "cv"]))
def test_it_finds_three_states(data, criterion):
    found = select(CANDIDATES, data, criterion=criterion, folds=3, restarts=3, key=jr.key(1))
    assert found.chosen == "hmm (states=3)" and found.best.states == 3
    assert found.best is found.models["hmm (states=3)"]
    np.testing.assert_allclose(np.sort(found.best.emission.means), MEANS, atol=0.5)
    values = found.table["criterion"].to_list()
    assert values == sorted(values) and found.table["difference"][0] == 0
    assert found.table["model"].to_list() == [row.model for row in found.candidates]
    for row in found.candidates:
        log_prob = float(np.asarray(hs.log_prob(found.models[row.model], data), np.float64).sum())
        assert row.log_prob == pytest.approx(log_prob, rel=1e-6)
        states = found.models[row.model].states
        assert row.parameters == (states - 1) + states * (states - 1) + 2 * states
        if criterion == "bic":
            assert row.criterion == pytest.approx(-2 * row.log_prob + row.parameters * np.log(720))
    if criterion == "cv":
        assert found.candidates[0].criterion_error > 0 and found.candidates[1].difference_error > 0
        assert found.candidates[0].criterion > found.candidates[0].nats_per_step  # held out is harder than learned
        assert "whole sequences, held out in 3 folds" in found.said


@pytest.mark.parametrize("model", quick(["linear-gaussian", "slds"], 2))
def test_models_that_start_several_times_are_held_out_too(model):
    """Folds are padded to one shape by sequences without steps, of which no start may be made."""
    data = hs.Sequences.padded(np.random.default_rng(0).normal(size=(6, 9)))
    method = EM(iterations=2, restarts=2, start="kmeans")
    found = select([(model, {"states": 2})], data, criterion="cv", folds=2, method=method, key=jr.key(0))
    assert np.isfinite(found.candidates[0].criterion)


@pytest.mark.slow
def test_one_long_sequence_is_predicted_part_by_part(true):
    """Rolling origin: the scores are those of models that saw nothing but the past."""
    data = hs.sample(true, 200, key=jr.key(3), n=1)
    wide = hs.HMM([1.0], [[1.0]], hs.emissions.Gaussian([0.0], [9.0]))
    found = select({"true": true, "one": wide}, data, criterion="cv", folds=3, method=EM(iterations=2), key=jr.key(0))
    assert found.chosen == "true" and "rolling origin" in found.said
    total = 0.0
    for start, stop in ((50, 100), (100, 150), (150, 200)):
        model = hs.fit(true, data.window(0, start), EM(iterations=2), key=jr.key(9)).model
        total -= float(hs.log_prob(model, data.window(0, stop).after(start), total=True))
    assert found.candidates[0].criterion == pytest.approx(total / 150, rel=1e-5)


def test_folds_share_shapes_and_leave_nothing_out(data):
    cut = _Cut(data, 5, jr.key(0))
    held = np.zeros(data.shape[:2], int)
    for fold in range(5):
        train, padded, out = cut._fold(fold)
        assert padded.shape == data.shape and padded.steps == train.steps == data.steps - out.sum()
        held += out
    assert (held == 1).all()


def test_empty_sequences_count_for_nothing(true, data):
    """Data with sequences ended at 0 give the same fit as data without these."""
    lengths = np.where(np.arange(12) % 3 == 0, 0, data.lengths)
    some = hs.fit(true, ended(data, lengths), EM(iterations=3), key=jr.key(0))
    same = hs.fit(true, data[np.flatnonzero(lengths)], EM(iterations=3), key=jr.key(0))
    np.testing.assert_allclose(some.model.emission.means, same.model.emission.means, rtol=1e-6)
    np.testing.assert_allclose(some.history["loss"], same.history["loss"], rtol=1e-6)


def test_networks_and_baselines_take_part():
    data = hs.Sequences.of([np.arange(8) % 2 + 0 for _ in range(12)])
    found = select(["unigram", {"model": "bigram"}], data, criterion="aic", key=jr.key(0))
    assert found.chosen == "bigram" and "AIC" in found.said
    parameters = {row.model: row.parameters for row in found.candidates}
    assert parameters["unigram"] == hs.parameter_count(found.models["unigram"])


def test_steps_that_were_not_observed_do_not_count():
    gaps = hs.Sequences.of([np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])])
    assert observed_steps(gaps) == 2
    assert free_parameters(hs.HMM([1.0], [[1.0]], hs.emissions.Categorical([[0.2, 0.3, 0.5]]))) == 2


def test_bad_arguments_are_told(data):
    wrong = (
        ({"criterion": "dic"}, "criterion is 'dic'; it must be one of bic, aic, cv"),
        ({"folds": 1}, "folds is 1"),
    )
    for options, said in wrong:
        with pytest.raises(hs.HiddenStateError, match=said):
            select(CANDIDATES, data, key=jr.key(0), **options)
    with pytest.raises(hs.HiddenStateError, match="a candidate is 3"):
        select([3], data, key=jr.key(0))
    with pytest.raises(hs.RegistryError, match="no model named 'gpt'"):
        select(["gpt"], data, key=jr.key(0))
    with pytest.raises(hs.DataError, match="no candidate"):
        select([], data, key=jr.key(0))
    with pytest.raises(hs.DataError, match="folds is 5, but the shortest of 1 sequences has 3 steps"):
        select(["unigram"], np.array([1.0, 2.0, 3.0]), criterion="cv", key=jr.key(0))
