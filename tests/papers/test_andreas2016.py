"""Andreas (2016): a network learns the inference of a hidden Markov model from samples."""

from dataclasses import replace

import jax.random as jr
import numpy as np
import pytest

from hiddenstate.papers import andreas2016
from papers.checks import run_and_resume

TINY = replace(
    andreas2016.QUICK,
    hmms=1,
    units=(1, 3),
    sequences=(50, 200),
    learning_rates=(0.05,),
    seeds=1,
    test=100,
    updates=20,
    batch_size=40,
)


@pytest.mark.slow  # figure 5 runs the same network
def test_it_runs(tmp_path):
    rows = run_and_resume("andreas2016", TINY, tmp_path).tables["sequences"]
    assert [(row["sequences"], row["units"]) for row in rows] == [(n, k) for n in (50, 200) for k in (0, 1, 3)]
    counted = [row["divergence"] for row in rows if row["units"] == 0]
    assert counted[1] < counted[0]


def test_all_that_is_learned_from_is_counted():
    few, many = (andreas2016._draw(TINY, n, jr.key(0)) for n in (50, 200))
    assert (len(few.train), len(few.validation), len(many.train), len(many.validation)) == (40, 10, 160, 40)
    np.testing.assert_array_equal(few.symbols, many.symbols)
    assert len(few.test) == 100


def test_probabilities_are_counted_as_by_hand():
    drawn = andreas2016._draw(TINY, 50, jr.key(0))
    initial, transition, emission = np.ones(2), np.ones((2, 2)), np.ones((2, 3))
    for pairs in (drawn.train, drawn.validation):
        for seen, hidden in zip(pairs.sources.values, pairs.targets.values, strict=True):
            for t in range(1, 9):
                emission[hidden[t], seen[t]] += 1
                if t == 1:
                    initial[hidden[t]] += 1
                else:
                    transition[hidden[t - 1], hidden[t]] += 1
    belief = initial / initial.sum()
    transition, emission = (counts / counts.sum(axis=1, keepdims=True) for counts in (transition, emission))
    said = andreas2016._counted(drawn)[0]
    for t, symbol in enumerate(drawn.symbols[0]):
        belief = belief * emission[:, symbol]
        belief = belief / belief.sum()
        np.testing.assert_allclose(said[t], belief, atol=1e-12)
        belief = belief @ transition


def table(agreement, divergence=(0.1, 0.05, 0.001), advantage=0.0):
    """One model; agreement of 1 unit and of 100 at 100, 1000 and 10,000 sequences."""
    named = {"agreement_error": 0.001, "divergence_error": 0.001, "lost_accuracy": 0.001, "lost_accuracy_error": 0.0}
    return {
        "sequences": [
            {
                "hmm": 1,
                "sequences": sequences,
                "units": units,
                "agreement": share,
                "divergence": nats,
                "advantage": advantage,
                "advantage_error": 0.01,
                **named,
            }
            for units, shares in agreement.items()
            for sequences, share, nats in zip((100, 1000, 10_000), shares, divergence, strict=True)
        ]
    }


SOONER = {1: (0.9, 0.95, 0.999), 100: (0.9, 0.995, 0.999)}


@pytest.mark.parametrize(
    ("tables", "holds"),
    [
        (table(SOONER), [True, True, True, True]),
        (table({1: (0.995, 0.995, 0.999), 100: (0.9, 0.995, 0.999)}), [True, True, False, True]),
        (table({1: (0.9, 0.95, 0.98), 100: (0.9, 0.995, 0.999)}), [False, True, True, True]),
        (table(SOONER, divergence=(0.1, 0.05, 0.05)), [True, False, True, True]),
        (table(SOONER, advantage=0.1), [True, True, True, False]),
    ],
)
def test_claims_follow_from_the_tables(tables, holds):
    assert [claim.holds for claim in andreas2016.claims(tables)] == holds


def test_agreement_must_stay():
    rows = [{"sequences": n, "agreement": a} for n, a in ((100, 0.995), (1000, 0.9), (10_000, 0.995))]
    assert andreas2016.needed(rows) == 10_000
    assert andreas2016.needed(rows[:2]) == np.inf
