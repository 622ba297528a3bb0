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


def sizes(network, particles, largest=1.0):
    """Agreement and accuracy at sizes 1 and 10, and for filters alone the agreement at 1000."""
    rows = [("network", 1, network[0]), ("network", 10, network[1])]
    rows += [("particles", 1, particles[0]), ("particles", 10, particles[1]), ("particles", 1000, largest)]
    named = {"agreement_error": 0.001, "accuracy_error": 0.001, "lost_accuracy": 0.01}
    named |= {"summed_agreement_error": 0.001, "summed_lost_accuracy": 0.01}
    return {
        "sizes": [
            {"hmm": 1, "kind": k, "size": n, "agreement": a, "summed_agreement": a, "accuracy": a / 2, **named}
            for k, n, a in rows
        ]
    }


@pytest.mark.parametrize(
    ("tables", "holds"),
    [
        (sizes((0.5, 0.9), (0.3, 0.7)), [True, True, True]),
        (sizes((0.5, 0.9), (0.3, 0.95)), [False, False, True]),
        (sizes((0.5, 0.9), (0.3, 0.7), largest=0.99), [True, True, False]),
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
