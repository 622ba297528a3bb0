"""Networks as variational models: small, resumed, against sums by hand, and with claims that can fail."""

import copy

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.papers import sohldickstein2015 as paper
from hiddenstate.papers.several_particles import ONCE, REDRAWN, weightings

TINY = paper.Config(
    cells=("mingru",),
    seeds=2,
    scales=(0.1, 1.0),
    sweep_sequences=8,
    sweep_steps=2,
    samples=4,
    filter_particles=8,
    noisy_cells=("vanilla",),
    stretches=1,
    updates=2,
    networks=2,
    contest_seeds=2,
    sequences=8,
    steps=2,
    distance_length=5,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variational")
    return hs.papers.reproduce("sohldickstein2015", config=TINY, folder=folder), folder


@pytest.mark.slow
def test_a_resumed_run_is_equal(found):
    first, folder = found
    said = []
    again = hs.papers.reproduce("sohldickstein2015", config=TINY, folder=folder, announce=said.append)
    assert again.tables == first.tables
    assert again.claims == first.claims
    assert all(line.endswith("done before") for line in said)


@pytest.mark.slow
def test_there_are_charts_and_claims(found, tmp_path):
    first, _ = found
    assert len(first.charts) == 4
    hs.papers.write_reproduction(first, tmp_path)
    assert (tmp_path / "plot.png").exists()
    held = {claim.statement: claim.holds for claim in first.claims}
    assert [holds for said, holds in held.items() if "equation 15" in said] == [True, True]
    assert [holds for said, holds in held.items() if "is a bound on equation 26" in said] == [False]


def test_weightings_by_hand():
    """Log-probabilities of both weightings from the read-outs of each particle, in plain sums and products."""
    rnn = hs.RNN(hs.cells.MinGRU(2, 3, key=jr.key(0)), hs.heads.Bernoulli(3, 2, key=jr.key(1)))
    bits = np.random.default_rng(0).integers(2, size=(4, 3, 2))
    model = hs.MultiParticle(rnn, 3, spread=2.0, key=jr.key(2))
    steps = np.empty((4, 3, 3))
    for number, sequence in enumerate(bits):
        states = list(model.initial())
        for time, x in enumerate(jnp.asarray(sequence)):
            steps[number, time] = [np.exp(rnn.readout(state).log_prob(x)) for state in states]
            states = [rnn.step(state, rnn.prepare(x)) for state in states]
    by_hand = np.log(steps.mean(axis=2)).sum(axis=1) - np.log(steps.prod(axis=1).mean(axis=1))
    trajectory = hs.MultiParticle(rnn, 3, weighting="trajectory", spread=2.0, key=jr.key(2))
    data = hs.Sequences.padded(bits)
    np.testing.assert_allclose(hs.log_prob(model, data) - hs.log_prob(trajectory, data), by_hand, atol=1e-10)


def test_weightings_are_normalised_and_differ():
    for row in weightings(1, jr.key(3)):
        assert row["total_step"] == pytest.approx(1, abs=1e-12)
        assert row["total_trajectory"] == pytest.approx(1, abs=1e-12)
        assert row["single"] < 1e-12
        assert min(row["above"], row["below"]) > 0.01


def test_claims_can_hold_and_fail():
    good, bad = ([claim.holds for claim in paper.claims(made_up(good))] for good in (True, False))
    assert good == [True] * 10
    assert bad == [False] * 10


def test_charts_show_the_tables():
    charts = paper.plot(made_up(True))
    assert [len(chart.layers) for chart in charts] == [2, 2, 1, 4]


def made_up(good):
    """Tables in which every claim holds, or none."""
    nats = {"one state": 1.0, "one state of 48": 0.9, "particles": 0.2, "particles as printed": 0.3}
    redrawn = {**nats, "particles by trajectory": 0.5} if good else dict.fromkeys(REDRAWN, 0.5)
    once = {**redrawn, "particles by trajectory": 0.1} if good else dict.fromkeys(ONCE, 0.5)
    contest = [
        {
            "network": name,
            "task": task,
            "seed": seed,
            "nats_per_step": scores[name] + 0.001 * seed,
            "optimal": 0.0,
            "parameters": 10,
            "first_distance": 1.0,
            "last_distance": 0.5,
        }
        for task, scores, names in (("redrawn", redrawn, REDRAWN), ("once", once, ONCE))
        for name in names
        for seed in range(2)
    ]
    far = 0.0 if good else 0.5
    return copy.deepcopy(
        {
            "bounds": [{"cell": "gru", "bits": b, "largest_difference": far, "size": 10.0} for b in (32, 64)],
            "sweep": [
                {
                    "seed": seed,
                    "scale": scale,
                    "bound": 0.0,
                    "lost": scale if good else -scale,
                    "lost_error": 0.001,
                    "filtered_above": scale if good else 0.0,
                    "filtered_above_error": 0.001,
                }
                for seed in range(2)
                for scale in (0.1, 1.0)
            ],
            "noise": [
                {"cell": "gru", "update": update, "seed": seed, "scale": 1.0 if update == 0 else 0.01 + far}
                for update in (0, 10)
                for seed in range(2)
            ],
            "weightings": [{"total_step": 1 + far, "total_trajectory": 1.0, "single": far, "above": far, "below": 0.5}],
            "particles": contest,
            "distances": [
                {"cell": cell, "bias": bias, "step": step, "distance": 1.0 / step}
                for cell in ("mingru", "gru")
                for bias in (False, True)
                for step in (1, 2)
            ],
        }
    )
