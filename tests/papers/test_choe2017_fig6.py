"""Figure 6 of Choe, Shin and Spencer (2017): more and more hidden states."""

from dataclasses import replace

import pytest

from hiddenstate.papers import choe2017_fig6
from papers.checks import run_and_resume

TINY = replace(
    choe2017_fig6.QUICK, states=(2, 8), units=2, train=200, validation=30, test=40, updates=20, batch_size=100
)


@pytest.mark.slow  # figure 5 runs the same network
def test_it_runs(tmp_path):
    rows = run_and_resume("choe2017-fig6", TINY, tmp_path).tables["states"]
    assert [row["states"] for row in rows] == [2, 8]
    # One-hot of 3 symbols and the start to 2 units, 2 x 2 and a bias; a head of 8 outputs from 2 units.
    assert rows[1]["network_parameters"] == 2 * 4 + 2 * 2 + 2 + 8 * 2 + 8
    assert rows[1]["hmm_parameters"] == 7 + 8 * 7 + 8 * 2


def table(*, network=0.0, agreement=(1.0, 0.9, 0.2), forward=(0.7, 0.4, 0.2)):
    """Three numbers of states; the last has more parameters than the network, whose accuracy is off by `network`."""
    rows = [
        {
            "hmm": 1,
            "states": states,
            "chance": 1 / states,
            "network_parameters": 100,
            "hmm_parameters": parameters,
            "accuracy": best + network,
            "accuracy_error": 0.001,
            "forward_accuracy": best,
            "forward_accuracy_error": 0.001,
            "agreement": share,
            "agreement_error": 0.001,
            "advantage": network,
            "advantage_error": 0.001,
        }
        for states, parameters, best, share in zip((2, 8, 32), (10, 90, 1000), forward, agreement, strict=True)
    ]
    return {"states": rows}


@pytest.mark.parametrize(
    ("tables", "holds"),
    [
        (table(), [True, True, True, True]),
        (table(network=-0.1), [True, False, True, True]),
        (table(agreement=(1.0, 0.3, 0.2)), [True, True, True, False]),
        (table(agreement=(0.9, 0.9, 0.9)), [True, True, False, False]),
        (table(forward=(0.7, 0.2, 0.4)), [False, True, True, True]),
    ],
)
def test_claims_follow_from_the_tables(tables, holds):
    found = [claim.holds for claim in choe2017_fig6.claims(tables)]
    assert found == holds and all(isinstance(one, bool) for one in found)


def test_means_are_over_models():
    tables = table()
    more = [row | {"hmm": 2, "agreement": row["agreement"] - 0.1} for row in tables["states"]]
    first = choe2017_fig6.means_over_models({"states": tables["states"] + more})[0]
    assert first["agreement"] == pytest.approx(0.95) and first["models"] == 2
    assert first["agreement_error"] == pytest.approx(0.001 / 2**0.5)
