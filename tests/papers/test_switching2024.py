"""The note on minGRU as a run: small, resumed, against enumeration, and with claims that can fail."""

import copy

import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.papers import switching2024 as note
from hiddenstate.papers.printed_updates import bound, bound_gaps, printed_updates, right_updates

pytestmark = pytest.mark.xdist_group("switching2024")  # one run for all

TINY = note.Config(
    cells=2,
    units=3,
    cell_length=6,
    layers=20,
    sequences=8,
    length=6,
    levels=3,
    seeds=2,
    clock_sequences=20,
    clock_steps=3,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("switching")
    return hs.papers.reproduce("switching2024", config=TINY, folder=folder), folder


def test_a_resumed_run_is_equal(found):
    first, folder = found
    said = []
    again = hs.papers.reproduce("switching2024", config=TINY, folder=folder, announce=said.append)
    assert again.tables == first.tables
    assert again.claims == first.claims
    assert len(said) == 6
    assert all(line.endswith("done before") for line in said)


def test_there_are_charts_and_files(found, tmp_path):
    first, _ = found
    assert len(first.charts) == 4
    hs.papers.write_reproduction(first, tmp_path)
    assert {"resets.csv", "layers.csv", "updates.csv", "study.csv", "clock.csv", "result.json", "plot.png"} == {
        path.name for path in tmp_path.iterdir()
    }


def test_what_is_exact_holds_at_any_size(found):
    held = {claim.statement: claim.holds for claim in found[0].claims}
    exact = [
        holds for statement, holds in held.items() if "written out as a sum" in statement or "Bayes' rule" in statement
    ]
    assert exact == [True, True]
    printed = [holds for statement, holds in held.items() if "prints" in statement or "printed updates" in statement]
    assert printed == [False, False]


def test_right_updates_give_the_exact_posterior():
    random = np.random.default_rng(0)
    state, likelihood, switch = random.dirichlet(np.ones(3)), random.uniform(0.1, 1, (2, 3)), np.array([0.7, 0.3])
    log_z, log_s = (
        values[0] for values in right_updates(np.log(likelihood)[None], np.log(state)[None], np.log(switch)[None])
    )
    joint = {(z, s): switch[z] * state[s] * likelihood[z, s] for z in range(2) for s in range(3)}
    total = sum(joint.values())
    for (z, s), value in joint.items():
        assert np.exp(log_z[z] + log_s[z, s]) == pytest.approx(value / total, rel=1e-12)


def test_printed_updates_are_those_of_mean_field():
    """At their fixed point no other product Q(z) Q(s) near by has a larger bound."""
    random = np.random.default_rng(1)
    likelihood, state = np.log(random.uniform(0.1, 1, (1, 2, 3))), np.log(random.dirichlet(np.ones(3), 1))
    switch = np.log(np.array([[0.6, 0.4]]))
    log_joint = likelihood + state[:, None] + switch[:, :, None]
    log_z, log_s = printed_updates(likelihood, state, switch)
    best = bound(log_joint, log_z, log_s)[0]
    assert np.ptp(log_s, axis=1).max() == 0
    for _ in range(200):
        z = log_z + 0.1 * random.normal(size=(1, 2))
        s = log_s[:, 0] + 0.1 * random.normal(size=(1, 3))
        z, s = (values - np.log(np.exp(values).sum(-1, keepdims=True)) for values in (z, s))
        assert bound(log_joint, z, np.broadcast_to(s[:, None], likelihood.shape))[0] <= best + 1e-12


def test_a_bound_is_never_above():
    gaps = {row["updates"]: row["mean_gap"] for row in bound_gaps(50, 3)}
    assert gaps["right"] == pytest.approx(0, abs=1e-12)
    assert gaps["as printed"] > gaps["right, without the entropy"] > 1e-4


def test_claims_can_fail(found):
    tables = copy.deepcopy(found[0].tables)
    held = [claim.holds for claim in note.claims(made_up(tables, good=True))]
    assert held == [True] * 8
    failed = [claim.holds for claim in note.claims(made_up(tables, good=False))]
    assert failed == [False] * 8


def made_up(tables, good):
    tables = copy.deepcopy(tables)
    for name in ("resets", "layers"):
        for row in tables[name]:
            row["largest_difference"] = 0.0 if good else 0.1
    for row in tables["updates"]:
        row["largest_gap"] = 0.0 if good else 0.1
    for number, row in enumerate(tables["study"]):
        level = number % TINY.levels
        row["one_pass"] = [1.0, 0.5, 0.0][level] if good else [1.0, 1.5, 0.5][level]
        row |= {"one_pass_error": 0.01, "gate_bound": 1.0, "bound": 0.1 if good else 0.9, "bound_error": 0.01}
    for row in tables["clock"]:
        turning = row["network"] != "minGRU"
        row["right"] = 0.2 + 0.01 * row["seed"] * turning + (0.6 if turning and good else 0.0)
    return tables
