"""Evaluations in words and as plots, and answers as tables."""

from dataclasses import replace

import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import hiddenstate as hs
from hiddenstate.learn import Classified, Evaluation, Predicted
from hiddenstate.report.answers import answer_table
from hiddenstate.report.evaluation import ahead_tables, evaluation_lines, plot_evaluation, score_words

SCORE = hs.Score(0.5, 0.01, 4)


def classified(horizon):
    probs, labels = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]), np.array([0, 1, 1, 0])
    one = hs.metrics.reliability(probs, labels)
    numbers = (np.full(horizon, a) for a in (0.75, 0.4, 0.3))
    return Classified(*numbers, (one,) * horizon, np.full(horizon, 0.5), np.full(horizon, 4))


def predicted(horizon):
    pit = np.array([0.1, 0.4, 0.5, 0.99])
    inside = {level: np.full(horizon, hs.metrics.coverage(pit, level)) for level in (0.5, 0.8, 0.95)}
    return Predicted(*(np.full(horizon, a) for a in (1.5, 2.5, 2.0)), inside, (pit,) * horizon, np.full(horizon, 4))


def test_what_was_found_is_said():
    lines = evaluation_lines(Evaluation(SCORE, {"sky": classified(1), "temp": predicted(1)}, 1))
    assert lines[:2] == ["sky:", "accuracy         0.7500 (always the most frequent: 0.5000)"]
    assert "coverage         50.0% in the 50%, 75.0% in the 80%, 75.0% in the 95% interval" in lines
    assert score_words(SCORE) == "0.5000 ± 0.0100 nats per answer (4 answers)"


def test_one_bin_is_one():
    sure = hs.metrics.reliability(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 0]))
    lines = evaluation_lines(Evaluation(SCORE, {"sky": replace(classified(1), reliability=(sure,))}, 1))
    assert lines[-1].endswith("from 1 bin of confidence")


def test_steps_ahead_are_rows():
    table = ahead_tables(Evaluation(SCORE, {"temp": predicted(3)}, 3))["temp"]
    assert table.columns == ["ahead", "count", "crps", "rmse", "mae", "within_50%", "within_80%", "within_95%"]
    both = ahead_tables(Evaluation(SCORE, {"a": classified(2), "b": predicted(2)}, 2))
    assert both["a"].columns == ["ahead", "count", "accuracy", "log_loss", "brier", "calibration_error"]
    assert [both["a"].height, both["b"].height, both["b"].width] == [2, 2, 8]


@pytest.mark.parametrize("horizon", [1, 3])
def test_evaluations_are_drawn(tmp_path, horizon):
    path = tmp_path / "found.svg"
    plot_evaluation(Evaluation(SCORE, {"sky": classified(horizon), "temp": predicted(horizon)}, horizon), path)
    written = path.read_text()
    assert "<svg" in written[:500] and len(written) > 20_000


def test_answers_of_several_columns_are_one_table():
    """A vector of Gaussians: means, and the quantiles that 1.645 standard deviations make."""
    schema = hs.Schema((hs.Column("high", "real"), hs.Column("low", "real")), scalar=False)
    pairs = hs.Pairs.of([[0, 1], [1]], [[[1.0, 2.0]], [[3.0, np.nan]]], target_schema=schema)
    answer = dist.Normal(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [1.0, 2.0]])).to_event(1)
    table = answer_table(answer, pairs, key=jr.key(0))
    assert table.columns == [
        "sequence", "high", "high_q0.05", "high_q0.95", "known_high", "low", "low_q0.05", "low_q0.95", "known_low",
    ]  # fmt: skip
    assert table["low_q0.95"].to_list() == pytest.approx([2 + 2 * 1.644854, 4 + 2 * 1.644854])
    assert table["known_low"].to_list() == [2.0, None]


def test_labels_come_by_name_and_counts_by_quantiles_of_samples():
    labels = hs.Schema((hs.Column("mood", "symbol", 2, ("bad", "good")),), scalar=True)
    pairs = hs.Pairs.of([[0, 1], [1]], [0, 1], target_schema=labels)
    table = answer_table(dist.CategoricalProbs(np.array([[0.7, 0.3], [0.1, 0.9]])), pairs, key=jr.key(0))
    assert table["mood"].to_list() == ["bad", "good"] == table["known_mood"].to_list()
    assert table["p(good)"].to_list() == pytest.approx([0.3, 0.9])
    counts = hs.Schema((hs.Column("n", "count"),), scalar=True)
    pairs = hs.Pairs.of([[0, 1], [1]], [4, 1], target_schema=counts)
    table = answer_table(dist.Poisson(np.array([4.0, 100.0])), pairs, key=jr.key(0))
    assert table["n"].to_list() == [4.0, 100.0]
    assert table["q0.05"].to_list() == pytest.approx([1, 84], abs=2) and table["q0.95"][1] == pytest.approx(117, abs=3)
