"""Figure 5 of Choe, Shin and Spencer (2017): small networks and the forward algorithm."""

from dataclasses import replace

import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.papers import choe2017_fig5
from papers.checks import run_and_resume

TINY = replace(
    choe2017_fig5.QUICK,
    units=(1, 3),
    seeds=(2, 1),
    learning_rates=(0.05, 0.05),
    train=300,
    validation=50,
    test=60,
    paper_test=20,
    updates=60,
    batch_size=100,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run_and_resume("choe2017-fig5", TINY, tmp_path_factory.mktemp("fig5"))


def test_one_network_is_chosen_by_validation(found):
    for hmm in (1, 2):
        single = [row for row in found.tables["networks"] if (row["hmm"], row["units"]) == (hmm, 1)]
        best = min(single, key=lambda row: row["validation_nats"])
        assert [row["chosen"] for row in single] == [row is best for row in single]


def test_steps_average_to_the_whole(found):
    for row in found.tables["networks"]:
        if row["chosen"]:
            steps = [
                step["agreement"]
                for step in found.tables["steps"]
                if (step["hmm"], step["units"], step["test_sequences"]) == (row["hmm"], row["units"], 60)
            ]
            assert len(steps) == 8 and np.mean(steps) == pytest.approx(row["agreement"])


def table(single: float, many: float, advantage: float = 0.0) -> hs.papers.Tables:
    """Two models: on the first all is recovered, on the second in these shares."""
    rows = [
        {
            "hmm": hmm,
            "units": units,
            "seed": 0,
            "chosen": True,
            "agreement": share,
            "agreement_error": 0.001,
            "few_agreement": share,
            "lost_accuracy": 0.0004,
            "divergence": 0.001,
            "advantage": advantage,
            "advantage_error": 0.01,
        }
        for hmm, shares in ((1, (1.0, 1.0)), (2, (single, many)))
        for units, share in zip((1, 20), shares, strict=True)
    ]
    return {"networks": rows, "steps": []}


@pytest.mark.parametrize(
    ("tables", "holds"),
    [
        (table(1.0, 1.0), [True, True, True, True]),
        (table(1.0, 0.9), [False, True, True, False]),
        (table(0.9, 1.0), [True, False, True, False]),
        (table(1.0, 0.985), [True, True, True, False]),
        (table(1.0, 1.0, advantage=0.1), [True, True, False, True]),
    ],
)
def test_claims_follow_from_the_tables(tables, holds):
    assert [claim.holds for claim in choe2017_fig5.claims(tables)] == holds
