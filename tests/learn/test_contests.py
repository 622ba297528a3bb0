"""Tasks of prediction that every model learns from several seeds."""

from dataclasses import replace
from types import SimpleNamespace

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.cli.compare import CONTESTS as NAMED
from hiddenstate.learn.contests import CONTESTS, _rank, contest
from hiddenstate.report.comparison import meaning, write_comparison


def test_the_command_line_names_every_contest():
    assert NAMED.split(", ") == list(CONTESTS)


@pytest.fixture(scope="module")
def found():
    return contest("multimodal", ["vanilla"], key=jr.key(0), seeds=2, sequences=8, steps=1, progress=False)


def test_scores_are_means_over_seeds(found):
    (row,) = found.rows
    assert found.seed_scores["vanilla"].shape == (2,) and row.standard_error > 0
    assert row.nats_per_step == pytest.approx(found.seed_scores["vanilla"].mean())
    assert row.nats_per_step == pytest.approx(found.step_nats["vanilla"].mean())
    assert row.above_optimal == pytest.approx(row.nats_per_step - found.optimal_nats_per_step)
    assert "one standard error over 2 seeds, and differences are taken seed by seed" in meaning(found)


def test_everything_is_written(found, tmp_path):
    write_comparison(found, tmp_path, about={}, key=jr.key(0))
    assert len((tmp_path / "seeds.csv").read_text().splitlines()) == 3
    assert hs.load(tmp_path / "models" / "vanilla.safetensors").cell.hidden_size == 12


def test_models_are_compared_seed_by_seed(found):
    rows = found.rows[0], replace(found.rows[0], model="other", difference=2.0)
    both = replace(found, rows=rows, seed_scores={"vanilla": np.array([1.0, 2.0]), "other": np.array([3.0, 5.0])})
    assert "other is 2.5000 ± 0.5000 behind vanilla." in meaning(both)


def test_the_best_possible_is_that_of_the_task(found):
    task = CONTESTS["multimodal"].make(24, jr.split(jr.key(0), 2)[0])
    np.testing.assert_array_equal(found.test.values, task.data.values[-8:])
    assert found.optimal_nats_per_step == pytest.approx(-task.optimal_log_prob(found.test).sum() / found.test.steps)


def test_errors_and_differences_are_those_of_the_seeds():
    fits = SimpleNamespace(best=SimpleNamespace(model=None, reason=""), fits=[SimpleNamespace(converged=True)])
    scores = {"worse": np.array([4.0, 6.0, 5.0]), "better": np.array([1.0, 3.0, 2.5])}
    better, worse = _rank(dict.fromkeys(scores, (fits, 1.0)), scores, 1.0)
    assert (better.model, better.nats_per_step, better.difference) == ("better", 6.5 / 3, 0.0)
    assert better.above_optimal == pytest.approx(6.5 / 3 - 1)
    assert worse.nats_per_step == 5.0 and worse.standard_error == pytest.approx(1 / np.sqrt(3))
    # 3, 3 and 2.5 apart: far less than two independent errors would say
    assert worse.difference == pytest.approx(8.5 / 3)
    assert worse.difference_error == pytest.approx(np.sqrt(0.5 / 3 / 2 / 3))


def test_the_plain_network_has_as_much_state_and_no_fewer_parameters():
    contenders = CONTESTS["multimodal"].contenders
    data = hs.Sequences.padded(np.zeros((2, 3)) + np.arange(3))
    many, plain = (
        hs.build(contenders[name][0], data, key=jr.key(0), **contenders[name][1]) for name in ("multi-particle", "gru")
    )
    assert many.particles.count * many.cell.hidden_size == plain.cell.hidden_size
    assert hs.parameter_count(many) <= hs.parameter_count(plain)
    assert type(many.particles.rnn.head) is type(plain.head) is hs.heads.Gaussian


def test_one_seed_has_no_standard_error():
    with pytest.raises(hs.HiddenStateError, match="seeds is 1; it must be a whole number from 2 on"):
        contest("multimodal", key=jr.key(0), seeds=1)


def test_a_contender_that_is_none_is_named():
    with pytest.raises(hs.HiddenStateError, match=r"multimodal has no contender 'gru .large.'; it has multi-particle"):
        contest("multimodal", ["gru (large)"], key=jr.key(0))
