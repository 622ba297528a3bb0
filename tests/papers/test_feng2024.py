"""The checks of minimal gated networks: counts by their formulas, verdicts on made-up tables, and a whole tiny run."""

from dataclasses import replace

import jax.random as jr
import pytest

import hiddenstate as hs
from hiddenstate.papers import feng2024, feng2024_claims
from hiddenstate.papers.learned_tasks import label, stacked, text_parts
from hiddenstate.papers.training_time import differences, parameter_shares

from .checks import run_and_resume

TINY = replace(
    feng2024.QUICK,
    lengths=(4, 8),
    batch=2,
    hidden=3,
    repeats=1,
    text_networks=(("gru", 0), ("mingru", 2)),
    text_hidden=3,
    text_layers=1,
    text_steps=2,
    text_piece=16,
    copying_length=6,
    copying_tokens=2,
    copying_symbols=3,
    copying_hidden=3,
    copying_steps=2,
    parity_lengths=(4, 8),
    parity_hidden=3,
    parity_steps=2,
    parity_seeds=2,
)


@pytest.mark.slow
def test_it_runs_and_resumes(tmp_path):
    found = run_and_resume("feng2024", TINY, tmp_path)
    assert [claim.holds for claim in found.claims[:3]] == [True] * 3  # what is exact holds at any size


def test_the_scan_gives_the_same_as_the_loop():
    (row,) = differences(("mingru",), length=5, hidden=2, symbols=3, key=jr.key(0))
    assert max(row["loss_difference"], row["gradient_difference"]) < 1e-5


def test_shares_of_parameters_follow_their_formulas():
    for row in parameter_shares(5, (1, 3), key=jr.key(0)):
        small, large = {"mingru": (2, 3), "minlstm": (3, 4)}[row["cell"]]
        width, hidden = 5, 5 * row["expansion"]
        assert row["weights"] == small * hidden * width
        assert row["share"] == pytest.approx(small * width / (large * (width + hidden)))


def test_text_of_a_file_is_cut_in_time(tmp_path):
    (tmp_path / "text.txt").write_text("abcdefghij" * 20)
    train, watched, judged = text_parts(str(tmp_path / "text.txt"), 50)
    assert [part.steps for part in (train, watched, judged)] == [180, 10, 10]
    assert int(train.lengths.max()) == 50


def test_text_of_the_library_is_cut_between_paragraphs():
    parts = text_parts(None, 64)
    assert sum(part.steps for part in parts) == hs.datasets.alice().steps


def test_layers_are_joined_from_two_on():
    assert stacked(1, 8) == {"hidden": 8}
    assert stacked(2, 8) == {"hidden": 8, "layers": 2, "residual": True, "norm": True}
    assert stacked(1, 8, 2) == {"hidden": 8, "feedforward": 2}


def test_networks_are_named_by_what_they_are_made_of():
    assert label("gru", 1) == "gru"
    assert label("gru", 3) == "gru (3 layers)"
    assert label("gru", 1, 2) == "gru (feed-forward)"
    assert label("gru", 3, 2) == "gru (3 layers, feed-forward)"


def times(power, parallel=0.001, size=2):
    rows = []
    for length in (100, 1000):
        sequence = {"seconds": 1e-4 * length**power, "bytes": length, "way": "in sequence", "length": length}
        rows += [{"cell": "gru", **sequence}, {"cell": "mingru", **sequence}]
        rows.append(
            {"cell": "mingru", "way": "in parallel", "length": length, "seconds": parallel, "bytes": size * length}
        )
    return rows


def seeds(network, accuracy, **place):
    return [{"network": network, "seed": seed, "accuracy": accuracy, **place} for seed in range(3)]


def texts(gru, mingru):
    found = (("gru", gru), ("mingru", mingru))
    return [{"network": name, "seed": seed, "nats_per_character": loss} for name, loss in found for seed in range(2)]


def test_curves_of_text_stay_at_the_best_so_far():
    losses = {"gru": (2.0, 1.5, 3.0), "mingru": (2.5, 2.2, 2.1)}
    rows = [
        {"network": name, "updates": 10 * step, "loss": loss, "standard_error": loss / 10}
        for name, each in losses.items()
        for step, loss in enumerate(each)
    ]
    found = feng2024_claims._least_so_far(rows)
    assert [row["loss"] for row in found] == [2.0, 1.5, 1.5, 2.5, 2.2, 2.1]
    assert [row["standard_error"] for row in found[:3]] == pytest.approx([0.2, 0.15, 0.15])
    assert [row["updates"] for row in found] == [0, 10, 20] * 2


def made_up(**changes):
    tables = {
        "times": times(1.0),
        "differences": [{"cell": "mingru", "length": 8, "loss_difference": 1e-7, "gradient_difference": 1e-7}],
        "parameters": parameter_shares(4, (1, 2, 3, 4), key=jr.key(0)),
        "text": texts(2.0, 2.05),
        "copying": seeds("mingru", 0.5) + seeds("mingru (3 layers)", 0.99),
        "parity": [row for n in (20, 160) for row in seeds("gru", 1.0, length=n) + seeds("mingru", 0.6, length=n)],
    }
    return tables | changes


def test_all_claims_hold_on_tables_that_bear_them_out():
    assert all(claim.holds for claim in feng2024.claims(made_up()))


OTHER_PARITY = [row for n in (20, 160) for row in seeds("gru", 1.0, length=n) + seeds("mingru", 1.0, length=n)]


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"differences": [{"length": 8, "loss_difference": 1e-7, "gradient_difference": 1e-2}]}, {0}),
        ({"parameters": [{**row, "share": 0.5} for row in made_up()["parameters"]]}, {1, 2}),
        ({"times": times(0.5)}, {3}),
        ({"times": [{**row, "seconds": row["length"]} for row in times(1.0)]}, {4, 5}),
        ({"times": times(1.0, size=1)}, {6}),
        ({"text": texts(2.0, 2.2)}, {7}),
        ({"copying": seeds("mingru", 0.98) + seeds("mingru (3 layers)", 0.9)}, {8}),
        ({"parity": OTHER_PARITY}, {9}),
    ],
)
def test_a_claim_can_fail(changes, fails):
    found = feng2024.claims(made_up(**changes))
    assert {number for number, claim in enumerate(found) if not claim.holds} == fails
    assert all(claim.measured for claim in found)
