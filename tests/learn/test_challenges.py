"""Models compared by their answers, and tasks of memory that say who has solved them."""

from math import comb

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.cli.compare import TASKS
from hiddenstate.learn.challenges import CHALLENGES, attempt
from hiddenstate.learn.quality import Quality, exact_match, quality_of
from hiddenstate.report.comparison import meaning
from marks import quick


def test_the_command_line_names_every_task():
    assert TASKS.split(", ") == list(CHALLENGES)


@pytest.mark.parametrize("name", quick(CHALLENGES))
def test_every_task_can_be_tried(name):
    found = attempt(name, list(CHALLENGES[name].contenders)[:1], key=jr.key(0), sequences=8, steps=1, progress=False)
    assert found.rows[0].solved is False  # one update solves nothing
    assert "not solved" in meaning(found)
    assert np.isfinite(found.rows[0].nats_per_step)


def test_a_contender_that_is_none_is_named():
    with pytest.raises(hs.HiddenStateError, match=r"parity has no contender 'gru .7 layers.'; it has gru, mingru"):
        attempt("parity", ["gru (7 layers)"], key=jr.key(0))


@pytest.fixture(scope="module")
def coins():
    """One label for each sequence: whether its last toss was a head."""
    tosses = np.random.default_rng(0).integers(2, size=(60, 4))
    return hs.Pairs.of(hs.Sequences.padded(tosses), tosses[:, -1])


@pytest.mark.slow
def test_models_are_compared_by_their_answers(coins):
    found = hs.compare(coins, ["majority", "vanilla"], key=jr.key(0), hidden=4, progress=False)
    best, worst = found.rows
    assert (best.model, worst.model) == ("vanilla", "majority")
    assert best.measure == worst.measure == "accuracy"
    assert best.quality == 1.0 and worst.quality < 0.9
    assert "vanilla answers best, with an accuracy of 1; majority, which reads nothing" in meaning(found)
    assert worst.nats_per_step == pytest.approx(np.log(2), abs=0.1)


def test_numbers_are_judged_by_their_squared_error():
    data = hs.Pairs.of(hs.Sequences.padded(np.zeros((5, 3))), np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    model = hs.build("majority", data, key=jr.key(0))
    assert quality_of(model, data, key=jr.key(0)) == Quality("squared error", pytest.approx(2.0, rel=1e-5))


def test_a_share_must_rise_above_and_an_error_fall_below():
    assert Quality("accuracy", 0.96).reaches(0.95) and not Quality("accuracy", 0.94).reaches(0.95)
    assert Quality("squared error", 0.004).reaches(0.01) and not Quality("squared error", 0.02).reaches(0.01)


def test_an_answer_matches_if_all_of_it_does():
    pairs = hs.tasks.reversing(length=2, symbols=2, sequences=30, key=jr.key(0))
    model = hs.build("encoder-decoder", pairs, cell="vanilla", hidden=3, key=jr.key(1))
    written = hs.generate(model, pairs.sources).sequences
    same = [list(a) == list(b) for a, b in zip(written, pairs.targets, strict=True)]
    assert exact_match(model, pairs) == np.mean(same)


def test_the_best_possible_answers_are_known_where_the_task_knows_them():
    """The clock is tried on longer sequences than it was learned from, beside its own beliefs."""
    found = attempt("clock", ["turning"], key=jr.key(0), sequences=8, steps=1, progress=False)
    assert found.test.sources.length == 5 * found.train.sources.length == 200
    last, nats = None, []
    for read, answers, scored in zip(found.test.sources, found.test.targets.values, found.test.scored, strict=True):
        for t, symbol in enumerate(read):
            last = (t, symbol) if symbol < 12 else last
            if scored[t]:  # so many slips as the hand is behind, or twelve more, and so on
                steps, behind = t - last[0], (last[1] + t - last[0] - answers[t]) % 12
                slips = np.arange(behind, steps + 1, 12)
                nats.append(-np.log(sum(comb(steps, int(n)) * 0.01**n * 0.99 ** (steps - n) for n in slips)))
    assert found.optimal_nats_per_step == pytest.approx(np.mean(nats), rel=1e-10)
    assert found.rows[0].above_optimal == pytest.approx(found.rows[0].nats_per_step - np.mean(nats))
    assert f"needs {np.mean(nats):.4f} nats per answer here" in meaning(found)
