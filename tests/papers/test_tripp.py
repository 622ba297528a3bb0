"""The lecture slides as a run: small, resumed, against closed forms, and with claims that can fail."""

import itertools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.papers import tripp
from hiddenstate.papers.compounding import descents, norms
from hiddenstate.papers.feedback import FEEDBACK, cycles, floors, pendulums, run_freely, side_by_side
from hiddenstate.papers.recall import KEEPING, WAITING

TINY = tripp.Config(
    delays=(3,),
    keep_length=4,
    sequences=8,
    steps=2,
    seeds=2,
    gains=(0.9, 1.2),
    gain_steps=5,
    networks=1,
    gain=2.0,
    wave_length=5,
    updates=2,
    rate=0.1,
    clip=1.0,
    cycle_length=4,
    cycle_steps=2,
    pendulums=8,
    seen=3,
    ahead=3,
    swing_updates=2,
)


@pytest.mark.slow
def test_a_run_gives_claims_and_charts_and_resumes(tmp_path):
    first = hs.papers.reproduce("tripp", config=TINY, folder=tmp_path)
    assert (len(first.claims), len(first.charts)) == (10, 4)
    hs.papers.write_reproduction(first, tmp_path)
    assert (tmp_path / "plot.png").exists()
    said = []
    again = hs.papers.reproduce("tripp", config=TINY, folder=tmp_path, announce=said.append)
    assert again.tables == first.tables
    assert again.claims == first.claims
    assert all(line.endswith("done before") for line in said)


def test_linear_norms_are_powers_of_the_gain():
    for row in norms((0.8, 1.3), 6, jr.key(0)):
        if row["nonlinearity"] == "identity":
            assert row["norm"] == pytest.approx(row["gain"] ** row["step"], rel=1e-5)
        else:
            assert row["norm"] <= np.sqrt(8)


def test_floors_by_enumeration():
    """The best model of order one is made of counts, and the best of all knows the four sequences."""
    values = np.asarray(cycles(7).values)
    nats = 0.0
    for sequence in values:
        nats -= np.log(np.mean(values[:, 0] == sequence[0]))
        for now, then in itertools.pairwise(sequence):
            after = [b for other in values for a, b in itertools.pairwise(other) if a == now]
            nats -= np.log(0.5 if now == 0 else np.mean(np.array(after) == then))
    found = floors(7)
    assert found["through the output"] == pytest.approx(nats / 28, rel=1e-12)
    assert found["through the state"] == pytest.approx(np.log(4) / 7, rel=1e-12)


def test_output_feedback_needs_no_loop():
    (row,) = side_by_side(6, jr.key(1))
    assert row["difference"] < 1e-12
    assert row["loops_at_once"] == 0
    assert row["loops_with_state"] == 1


def test_pendulums_keep_their_energy():
    """The scheme sees angle and speed half a small step apart, so that its energy wavers but does not drift."""
    course = pendulums(5, 30, 60, jr.key(2))
    assert course.shape == (5, 90)
    assert (np.abs(course).max(axis=1) < 2.41).all()
    speed = (course[:, 2:] - course[:, :-2]) / 0.6
    energy = speed**2 / 2 - np.cos(course[:, 1:-1])
    np.testing.assert_allclose(energy, np.broadcast_to(energy.mean(axis=1, keepdims=True), energy.shape), atol=0.08)


def test_a_free_run_is_fed_its_own_means():
    past = np.random.default_rng(4).normal(size=(2, 3))
    model = hs.build("vanilla", hs.Sequences.padded(past), hidden=2, key=jr.key(5))
    found = run_freely(model, jnp.asarray(past), 2)
    for number, xs in enumerate(past):
        for ahead in range(2):
            told = hs.predictive(model, [np.append(xs, [*found[number, :ahead], 0.0])]).mean
            assert found[number, ahead] == pytest.approx(float(told[0, -1]), rel=1e-6)


def test_clipping_nothing_is_plain_descent():
    rows = descents(1, 4, 3, 1e-3, 1e9, 1.0, jr.key(3))
    plain, clipped = ([row["loss"] for row in rows if row["way"] == way] for way in ("plain", "clipped"))
    assert plain == clipped
    assert plain[2] < plain[0]


def test_claims_can_hold_and_fail():
    good, bad = ([claim.holds for claim in tripp.claims(made_up(good))] for good in (True, False))
    assert good == [True] * 10
    assert bad == [False] * 10


def test_charts_show_the_tables():
    assert [len(chart.layers) for chart in tripp.plot(made_up(True))] == [2, 4, 4, 4]


def made_up(good):
    """Tables in which every claim holds, or none."""

    def error(size, seed, ahead):
        return 0.1 + (0.1 * ahead * size if good else 0.01 * seed)

    right = {
        name: 0.9 if name in ("a wide range of them", "skips in time", "gated decay") else 0.3
        for name in WAITING | KEEPING
    }
    if not good:
        right = dict.fromkeys(right, 0.5)
    kinds, ways, seeds = ("relu", "tanh"), ("plain", "clipped"), range(2)
    landed = {"plain_loss": 9.0 if good else 0.5, "clipped_loss": 0.5, "plain_distance": 9.0, "clipped_distance": 0.1}
    return {
        "waiting": [
            {"network": n, "delay": 9, "seed": s, "right": right[n] + 0.01 * s} for n in WAITING for s in seeds
        ],
        "keeping": [{"network": n, "seed": s, "right": right[n] + 0.01 * s} for n in KEEPING for s in seeds],
        "norms": [
            {"nonlinearity": n, "gain": g, "step": t, "norm": g**t if good and n == "identity" else 1.0}
            for n in ("identity", "tanh")
            for g in (0.5, 2.0)
            for t in range(4)
        ],
        "cliffs": [{"nonlinearity": k, "network": 0, "gradient_norm": 9.0, "loss": 1.0, **landed} for k in kinds],
        "landscape": [
            {"nonlinearity": k, "network": 0, "distance": d, "loss": 1.0, "cliff": 0.0} for k in kinds for d in (0, 1)
        ],
        "descents": [
            {"nonlinearity": k, "way": w, "network": 0, "update": u, "loss": 5.0 if good and w == "plain" else 1.0}
            for k in kinds
            for w in ways
            for u in range(2)
        ],
        "feedback": [
            {"network": n, "seed": s, "nats_per_step": f + (0.01 if good else -0.01 if f > 0.2 else 1.0), "floor": f}
            for n, f in zip(FEEDBACK, (0.4, 0.1), strict=True)
            for s in seeds
        ],
        "at_once": [{"difference": 0.0, "loops_at_once": 0 if good else 1, "loops_with_state": 1}],
        "own_past": [
            {"way": w, "seed": s, "ahead": t, "forced": 0.1} | dict.fromkeys(("free", "on_means"), error(size, s, t))
            for w, size in (("teacher forcing", 2), ("scheduled sampling", 1))
            for s in seeds
            for t in (1, 2)
        ],
    }
