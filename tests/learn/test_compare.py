"""Comparisons: the split, the table, the baselines."""

import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import hiddenstate as hs
from hiddenstate.learn import LBFGS, default_models
from hiddenstate.learn.scores import score_of
from hiddenstate.report.comparison import meaning


@pytest.fixture(scope="module")
def walk():
    steps = np.random.default_rng(0).normal(0, 1, 200)
    return hs.Sequences.of(np.cumsum(steps))


@pytest.mark.slow
def test_the_table_is_ranked_and_paired(walk):
    found = hs.compare(walk, ["unigram", "last", "ar1", "vanilla"], key=jr.key(0), hidden=4, epochs=30, progress=False)
    assert [r.nats_per_step for r in found.rows] == sorted(r.nats_per_step for r in found.rows)
    by_name = {row.model: row for row in found.rows}
    assert by_name["last"].nats_per_step < by_name["unigram"].nats_per_step  # it is a random walk
    assert found.rows[0].difference == 0 and found.rows[0].difference_error == 0
    best = found.rows[0].model
    for row in found.rows:
        assert row.nats_per_step == pytest.approx(hs.score(found.models[row.model], found.test).nats_per_step)
        gap = (found.step_nats[row.model] - found.step_nats[best]).sum() / found.test.scored_steps
        assert row.difference == pytest.approx(gap)
        assert row.parameters == hs.parameter_count(found.models[row.model])
    assert by_name["unigram"].baseline and not by_name["vanilla"].baseline
    assert found.frame()["model"].to_list() == [row.model for row in found.rows]
    assert found.test.scored_steps == 30 and found.train.steps == 140


def test_many_sequences_are_held_out_whole():
    data = hs.Sequences.of([np.arange(5) % 3 for _ in range(20)])
    found = hs.compare(data, ["unigram", "bigram"], key=jr.key(0), progress=False)
    assert (len(found.train), len(found.test)) == (14, 3) and found.test.context is None
    assert "sequences to learn from" in found.split
    assert found.rows[0].model == "bigram"


def test_a_score_does_not_depend_on_who_else_is_compared():
    data = hs.Sequences.of([np.arange(5) % 3 for _ in range(10)])

    def found(*names):
        return hs.compare(data, names, key=jr.key(0), hidden=2, epochs=2, progress=False).step_nats["vanilla"]

    np.testing.assert_array_equal(found("unigram", "vanilla"), found("vanilla"))


def test_defaults_follow_the_kind_of_data(walk):
    assert {"unigram", "last", "ar1", "gru"} <= set(default_models(walk)) and "bigram" not in default_models(walk)
    assert "bigram" in default_models(hs.Sequences.of([0, 1, 2]))


@pytest.mark.slow
def test_the_best_possible_prediction_is_shown():
    """On data from a known HMM the fitted one comes first, a little above what is possible."""
    task = hs.tasks.hmm(4, 6, sequences=100, length=40, concentration=0.2, key=jr.key(1))
    found = hs.compare(task.data, ["bigram", "hmm"], key=jr.key(0), states=4, optimal=task, progress=False)
    assert [row.model for row in found.rows] == ["hmm", "bigram"]
    best = -task.optimal_log_prob(found.test).sum() / found.test.steps
    assert found.optimal_nats_per_step == pytest.approx(best)
    for row in found.rows:
        assert row.above_optimal == pytest.approx(row.nats_per_step - best, abs=1e-6)
    assert -0.01 < found.rows[0].above_optimal < 0.03 < found.rows[1].above_optimal
    assert "The best possible prediction needs" in meaning(found)
    assert hs.compare(task.data, ["unigram"], key=jr.key(0), progress=False).rows[0].above_optimal is None


def test_unknown_models_and_short_data_are_refused(walk):
    with pytest.raises(hs.RegistryError, match="no model named 'gpt'; known are"):
        hs.compare(walk, ["gpt"], key=jr.key(0))
    with pytest.raises(hs.DataError, match="too few"):
        hs.compare(np.array([1.0, 2.0]), ["unigram"], key=jr.key(0))


def test_baselines_find_their_closed_forms(walk):
    """Without a prior: the sample mean and deviation, the differences' ones, and least squares."""
    x = walk[0]
    method = LBFGS(prior=0.0, tolerance=1e-12)
    fitted = {
        n: hs.fit(hs.build(n, walk, key=jr.key(0)), walk, method, key=jr.key(0)).model
        for n in ("unigram", "last", "ar1")
    }
    expected = stats.norm.logpdf(x, x.mean(), x.std())
    np.testing.assert_allclose(hs.step_log_probs(fitted["unigram"], walk)[0], expected, rtol=1e-5)
    steps = np.diff(x)
    drift, spread = steps.mean(), np.sqrt((steps - steps.mean()) @ (steps - steps.mean()) / len(x))
    predicted = hs.predictive(fitted["last"], walk)
    np.testing.assert_allclose(predicted.mean[0, 1:], x[:-1] + drift, rtol=1e-3, atol=2e-3)
    np.testing.assert_allclose(np.sqrt(predicted.variance[0, 1:]), spread, rtol=1e-3)
    slope, intercept = np.polyfit(x[:-1], x[1:], 1)
    predicted = hs.predictive(fitted["ar1"], walk)
    np.testing.assert_allclose(predicted.mean[0, 1:], slope * x[:-1] + intercept, rtol=1e-3, atol=5e-3)


def test_the_bigram_is_the_table_of_pairs():
    data = hs.tasks.hmm(2, 3, sequences=50, length=40, key=jr.key(1)).data
    model = hs.fit(hs.build("bigram", data, key=jr.key(0)), data, LBFGS(prior=1e-6), key=jr.key(0)).model
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (data.values[:, :-1].ravel(), data.values[:, 1:].ravel()), 1)
    table = pairs / pairs.sum(1, keepdims=True)
    probs = hs.predictive(model, data).probs[:, 1:]
    np.testing.assert_allclose(probs, table[data.values[:, :-1]], atol=2e-3)


def test_standard_errors_cover_the_truth():
    """Of means of independent normal nats, about 95 in 100 lie within two standard errors."""
    random = np.random.default_rng(3)
    data = hs.Sequences.padded(np.zeros((30, 8)), random.integers(2, 9, 30))
    inside = 0
    for _ in range(300):
        nats = np.where(data.valid, 1.0 + random.normal(0, 0.5, data.shape), 0.0)
        found = score_of(nats, data)
        inside += abs(found.nats_per_step - 1.0) < 1.96 * found.standard_error
    assert 270 <= inside <= 297
    alone = score_of(random.normal(1, 0.5, (1, 400)), hs.Sequences.padded(np.zeros((1, 400))))
    assert 0.015 < alone.standard_error < 0.04  # blocks of one sequence; the truth is 0.025


def test_where_values_are_missing_only_models_that_can_do_without_take_part():
    gaps = hs.Sequences.of(np.where(np.arange(40) % 7, np.sin(np.arange(40.0)), np.nan))
    assert hs.default_models(gaps) == ("hmm", "linear-gaussian")
    with pytest.raises(hs.MissingDataError, match="which 'gru' cannot take; compare models that can: noisy, hmm"):
        hs.compare(gaps, ["hmm", "gru"], key=jr.key(0))


def test_a_score_of_one_step_has_no_error():
    model = hs.build("unigram", [[0, 1, 1]], key=jr.key(0))
    said = str(hs.score(model, [[1]]))
    assert "±" not in said and said.endswith("nats per step (1 step)")
    assert "±" in str(hs.score(model, [[1, 0, 1, 1, 0, 1, 0, 0]]))
