"""The checks of the lecture notes: counts by enumeration, decays by closed forms, verdicts on made-up tables."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.papers import linderman
from hiddenstate.papers.em_and_gradients import best_rates, duels, first_within
from hiddenstate.papers.expected_counts import compare_counts, compare_predictions, log_normaliser
from hiddenstate.papers.random_symbols import random_symbols
from hiddenstate.papers.timing import exponent, least_seconds
from hiddenstate.papers.vanishing import of_spectral_radius, rate_per_step, way_back

from .checks import run_and_resume

TINY = replace(
    linderman.QUICK,
    race=replace(
        linderman.QUICK.race,
        problems=1,
        starts=2,
        states=2,
        symbols=3,
        sequences=6,
        length=8,
        batch_size=3,
        passes=4,
        whole_rates=(1.0,),
        plain_rates=(1.0,),
        adam_rates=(0.1,),
    ),
    repeats=1,
    length=12,
    hidden=4,
    radii=(0.5,),
    forget_biases=(1.0,),
    delays=(3,),
    recall_steps=3,
    seeds=2,
    cost_steps=(8, 16),
    cost_units=(2, 4),
)


@pytest.mark.slow
def test_it_runs_and_resumes(tmp_path):
    found = run_and_resume("linderman", TINY, tmp_path)
    assert [claim.holds for claim in found.claims[6:10]] == [True] * 4  # what holds to rounding holds at any size


def test_derivatives_of_the_log_normaliser_are_counts_by_enumeration():
    states, symbols = 3, jnp.array([0, 2, 1, 1])
    keys = jr.split(jr.key(1), 3)
    tables = [jr.normal(key, shape) for key, shape in zip(keys, ((3,), (3, 3), (3, 4)), strict=True)]
    initial, transition, emission = map(np.asarray, tables)
    counts, total = np.zeros((3, 3)), 0.0
    for path in itertools.product(range(states), repeat=len(symbols)):
        weight = initial[path[0]] + sum(transition[a, b] for a, b in itertools.pairwise(path))
        weight = np.exp(weight + sum(emission[z, int(x)] for z, x in zip(path, symbols, strict=True)))
        total += weight
        for a, b in itertools.pairwise(path):
            counts[a, b] += weight
    value, gradient = jax.value_and_grad(log_normaliser, argnums=1)(*tables, symbols)
    np.testing.assert_allclose(value, np.log(total), rtol=1e-12)
    np.testing.assert_allclose(gradient, counts / total, rtol=1e-10)


def test_the_gradient_trick_holds_to_rounding():
    rows = compare_counts(states=3, symbols=4, sequences=3, length=7, key=jr.key(0))
    assert all(row["difference"] < 1e-6 for row in rows)  # probabilities are stored in float32
    free = [row["row_sum"] for row in rows if row["way"] == "log-normaliser"]
    assert min(free) > 0.5  # counts do not sum to zero: only what goes through the softmax does


def test_a_network_predicts_as_the_forward_recursion():
    rows = compare_predictions(states=3, symbols=4, sequences=3, length=7, key=jr.key(0))
    assert [row["network"] for row in rows] == ["beliefs", "log-odds"]
    assert all(row["difference"] < 1e-6 for row in rows)


def test_gradients_of_a_linear_network_are_powers_of_its_matrix():
    data = random_symbols(symbols=3, sequences=2, length=10, key=jr.key(0))
    options = {"nonlinearity": "identity", "recurrent_init": of_spectral_radius(0.7)}
    model = hs.build("vanilla", data, hidden=4, key=jr.key(1), **options)
    found = way_back(model, data)
    matrix = np.asarray(model.cell.recurrent_weight, np.float64)
    assert np.abs(np.linalg.eigvals(matrix)).max() == pytest.approx(0.7, rel=1e-5)
    states, expected = np.asarray(hs.states(model, data)), np.zeros(10)
    for sequence, symbols in enumerate(data.values):
        gradient = -np.asarray(jax.grad(lambda h: model.readout(h).log_prob(symbols[-1]))(states[sequence, -1]))  # noqa: B023
        for lag in range(10):
            expected[lag] += np.linalg.norm(np.linalg.matrix_power(matrix.T, lag) @ gradient) / 2
    np.testing.assert_allclose(found.norms, expected, rtol=1e-5)
    assert found.difference < 1e-5


def test_the_rate_of_a_decay_is_found():
    assert rate_per_step(3 * 0.8 ** np.arange(40.0)) == pytest.approx(0.8)
    assert rate_per_step(np.zeros(10)) == 0.0


def test_powers_are_found():
    sizes = [10, 100, 1000]
    assert exponent(sizes, [2e-3 * size**1.5 for size in sizes]) == pytest.approx(1.5)


def test_works_take_turns():
    calls = []
    found = least_seconds({name: lambda name=name: calls.append(name) for name in "ab"}, repeats=2)
    assert calls == ["a", "b"] * 3
    assert set(found) == {"a", "b"} and all(seconds >= 0 for seconds in found.values())


CURVES = [
    {"problem": 0, "start": 0, "method": "EM", "rate": None, "losses": [3.0, 2.0, 1.0, 1.0]},
    {"problem": 0, "start": 0, "method": "Adam", "rate": 0.1, "losses": [3.0, 2.5, 2.0, 1.5]},
    {"problem": 0, "start": 0, "method": "Adam", "rate": 1.0, "losses": [3.0, 4.0, 9.0, 9.0]},
]


def test_a_duel_counts_passes_to_the_loss_that_both_reach():
    rates = best_rates(CURVES)
    assert rates == {"Adam": 0.1}
    (row,) = duels(CURVES, rates, tolerance=0.5)
    assert (row["target"], row["em_passes"], row["passes"]) == (2.0, 1, 2)
    assert first_within([5.0, 1.0, 2.0], 2.0) == 1


def speeds(passes, em_passes=4, seconds=1.0):
    methods = ("gradient ascent", "SGD", "Adam")
    common = {"rate": 1.0, "em_loss": 1.0, "loss": 1.1, "em_seconds_per_pass": 1.0, "seconds_per_pass": seconds}
    return [{"method": method, "passes": passes, "em_passes": em_passes, **common} for method in methods * 3]


def made_up(**changes):
    rates = [
        {"network": "linear, 0.5", "kind": "linear", "spectral_radius": 0.5, "rate_per_step": 0.501},
        {"network": "vanilla, 0.5", "kind": "vanilla", "spectral_radius": 0.5, "rate_per_step": 0.4},
        {"network": "LSTM, 3", "kind": "LSTM", "spectral_radius": None, "rate_per_step": 1.0},
    ]
    common = {"lags": 80, "left_at_the_end": 0.5, "difference_from_autodiff": 1e-7}
    tables = {
        "speeds": speeds(12),
        "counts": [
            {"table": "log P", "way": way, "difference": 1e-7, "row_sum": 1e-8}
            for way in ("log-normaliser", "through the softmax")
        ],
        "predictions": [{"network": "beliefs", "predictions": 10, "difference": 1e-8}],
        "rates": [{**row, **common} for row in rates],
        "recall": [
            {"network": name, "delay": 40, "seed": seed, "accuracy": accuracy}
            for name, accuracy in (("vanilla", 0.3), ("LSTM", 0.9))
            for seed in range(2)
        ],
        "costs": [
            {
                "model": m,
                "what": what,
                "varied": v,
                "size": n,
                "seconds": n,
                "bytes": n,
                "operations": n ** (1 + (v == "units")),
            }
            for m in ("vanilla", "hmm")
            for what in ("evaluation", "gradient")
            for v in ("steps", "units")
            for n in (10, 100)
        ],
    }
    return tables | changes


def test_all_claims_hold_on_tables_that_bear_them_out():
    assert all(claim.holds for claim in linderman.claims(made_up()))


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"speeds": speeds(5)}, {0, 1, 2}),
        ({"speeds": speeds(12, seconds=0.2)}, {3, 4, 5}),
        ({"counts": [{**row, "difference": 1e-3} for row in made_up()["counts"]]}, {6, 7}),
        ({"predictions": [{"network": "beliefs", "predictions": 10, "difference": 1e-3}]}, {8}),
        ({"rates": [{**row, "difference_from_autodiff": 1e-3} for row in made_up()["rates"]]}, {9}),
        ({"rates": [{**row, "rate_per_step": 0.6} for row in made_up()["rates"]]}, {10, 11}),
        ({"recall": [{**row, "accuracy": 0.9} for row in made_up()["recall"]]}, {12}),
        (
            {"costs": [{**row, "operations": 1, "bytes": row["size"] ** 2} for row in made_up()["costs"]]},
            {13, 14, 15, 16},
        ),
    ],
)
def test_a_claim_can_fail(changes, fails):
    found = linderman.claims(made_up(**changes))
    assert {number for number, claim in enumerate(found) if not claim.holds} == fails
