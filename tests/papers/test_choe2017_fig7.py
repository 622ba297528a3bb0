"""Figure 7 of Choe, Shin and Spencer (2017) and what they left for later: networks and particle filters."""

from dataclasses import replace

import jax.random as jr
import numpy as np
import pytest

from hiddenstate.papers import choe2017_fig7, choe2017_next
from hiddenstate.papers.labelled_hmm import draw_labelled
from hiddenstate.papers.particle_beliefs import last_move_summed
from papers.checks import run_and_resume

SMALL = {"states": 3, "symbols": 4, "seeds": 1, "train": 200, "validation": 30, "test": 40, "updates": 20}


@pytest.mark.slow  # two filters to compile, which the tests of labelled sequences do too
def test_figure_7_runs(tmp_path):
    config = replace(choe2017_fig7.QUICK, sizes=(2,), many=(300,), many_test=20, batch_size=100, **SMALL)
    rows = run_and_resume("choe2017-fig7", config, tmp_path).tables["sizes"]
    assert [(row["kind"], row["size"]) for row in rows] == [("network", 2), ("particles", 2), ("particles", 300)]
    assert rows[1]["agreement"] < rows[2]["agreement"]
    assert rows[1]["agreement"] < rows[1]["summed_agreement"]
    assert rows[1]["ideal_agreement"] < rows[2]["ideal_agreement"] <= 1


@pytest.mark.slow
def test_next_symbols_run(tmp_path):
    config = replace(choe2017_next.QUICK, sizes=(20,), batch_size=100, **SMALL)
    rows = run_and_resume("choe2017-next", config, tmp_path).tables["sizes"]
    found = {row["kind"]: row["divergence"] for row in rows}
    assert 0 < found["guided"] < found["bootstrap"] < 0.5


def test_without_memory_a_symbol_has_its_share_of_all_sequences():
    drawn = draw_labelled(3, 4, train=1, validation=1, test=20_000, key=jr.key(0))
    shares = np.stack([np.bincount(drawn.symbols[:, t], minlength=4) for t in range(8)]) / 20_000
    assert np.abs(choe2017_next.without_memory(drawn) - shares).max() < 0.015  # over four standard errors


def test_summing_out_the_last_move_gives_the_forward_algorithm_from_exact_beliefs():
    drawn = draw_labelled(3, 4, train=1, validation=1, test=20, key=jr.key(0))
    exact = drawn.optimal().filtered
    np.testing.assert_allclose(last_move_summed(drawn.task, exact, drawn.symbols), exact, atol=1e-12)


def test_most_of_many_draws_are_in_the_most_probable_state_as_often_as_the_binomial_law_says():
    beliefs = np.tile([0.6, 0.4], (4000, 1))
    found = choe2017_fig7.most_drawn(beliefs, 3, key=jr.key(0)) == 0
    expected = 0.6**3 + 3 * 0.6**2 * 0.4  # two or three of three draws
    assert abs(found.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


def sizes(network, particles, many):
    """Agreement at sizes 1 and 10, and at 10,000; that of filters as counted, summed out and drawn from exact beliefs.

    Accuracies are half of it.
    """
    rows = [("network", 1, [network[0]] * 3), ("network", 10, [network[1]] * 3)]
    rows += [("particles", 1, particles[0]), ("particles", 10, particles[1]), ("particles", 10_000, many)]
    named = {"lost_accuracy": 0.01, "summed_lost_accuracy": 0.01, "accuracy_error": 0.001, "agreement_error": 0.001}
    named |= {"summed_agreement_error": 0.001, "ideal_agreement_error": 0.001}
    return {
        "sizes": [
            {"hmm": 1, "kind": k, "size": n, "accuracy": a / 2, "agreement": a, **named}
            | {"summed_agreement": summed, "ideal_agreement": ideal}
            for k, n, (a, summed, ideal) in rows
        ]
    }


FEW = ((0.3, 0.4, 0.5), (0.7, 0.8, 0.9))


@pytest.mark.parametrize(
    ("tables", "holds"),
    [
        (sizes((0.5, 0.9), FEW, (0.996, 0.998, 0.997)), [True, True, True, True]),
        (sizes((0.5, 0.75), FEW, (0.996, 0.998, 0.997)), [True, True, False, True]),  # behind where it is summed out
        (sizes((0.5, 0.6), FEW, (0.996, 0.998, 0.997)), [False, False, False, True]),
        (sizes((0.5, 0.9), FEW, (0.99, 0.998, 0.996)), [True, True, True, False]),  # counts could agree, and do not
        (sizes((0.5, 0.9), FEW, (0.99, 0.998, 0.994)), [True, True, True, True]),  # no counts could
        (sizes((0.5, 0.9), FEW, (0.99, 0.99, 0.994)), [True, True, True, False]),
    ],
)
def test_claims_of_figure_7_follow_from_the_tables(tables, holds):
    assert [claim.holds for claim in choe2017_fig7.claims(tables)] == holds


def divergences(network, bootstrap, guided):
    rows = [("network", network), ("bootstrap", bootstrap), ("guided", guided)]
    return {
        "sizes": [
            {"hmm": 1, "kind": kind, "size": size, "divergence": nats, "divergence_error": 0.001}
            for kind, values in rows
            for size, nats in zip((1, 10, 100), values, strict=True)
        ]
    }


@pytest.mark.parametrize(
    ("tables", "holds"),
    [
        (divergences((0.01, 0.001, 0.0001), (0.5, 0.05, 0.005), (0.1, 0.02, 0.002)), [True, True, True]),
        (divergences((0.01, 0.001, 0.001), (0.5, 0.05, 0.005), (0.1, 0.01, 0.0005)), [True, False, True]),
        (divergences((0.01, 0.06, 0.001), (0.5, 0.05, 0.02), (0.1, 0.02, 0.002)), [False, False, False]),
    ],
)
def test_claims_of_next_symbols_follow_from_the_tables(tables, holds):
    assert [claim.holds for claim in choe2017_next.claims(tables)] == holds
