"""From made-up times to ratios, tables, plots and the page."""

import json

import numpy as np
import pytest
from peers.case import Agreement, Case, Work
from peers.charts import draw_ratios, draw_scaling
from peers.measuring import difference
from peers.page import write_page
from peers.records import Records, best_peer, met, share, suspicious
from peers.table import cells, line, seconds, summary, times
from peers.timing import Plan, against_best_peer, plan, ratio, share_of_peak

TIMES = {
    "hiddenstate": [2.0, 1.0, 4.0],
    "hiddenstate Sequential": [8.0, 6.0, 8.0],
    "dynamax": [10.0, 9.0, 10.0],
    "hmmlearn log": [4.0, 5.0, 8.0],
    "numpy by hand": [1.0, 1.0, 1.0],
}


def case(**more):
    size = {"states": 5, "sequences": 1, "steps": 100}
    return Case("hmm", "Viterbi", size, {}, {"log_prob": Agreement(1e-3)}, **({"goal": 4.0} | more))


def measured(**more):
    return {"seconds": TIMES, "first": {"hiddenstate": 7.0}, "left_out": {}, "differ": {}} | more


def records(tmp_path, **more):
    found = Records(tmp_path / "results.json", "full", resume=False)
    found.told["peak"] = {"float32": {"multiply_adds": 100.0, "bytes": 10.0}}
    found.keep(case(work=Work(20.0, 5.0), **more), measured())
    return found


def test_ratio_is_of_best_times_and_quartiles_are_inside_rounds():
    found = ratio([2.0, 1.0, 4.0], [4.0, 5.0, 8.0, 1.5])  # inside rounds 2, 5 and 2; the last round is theirs alone
    assert found.best == 1.5
    assert (found.low, found.median, found.high) == (2.0, 2.0, 3.5)


def test_best_peer_is_the_fastest_and_no_yardstick():
    found = against_best_peer(TIMES)
    assert found is not None
    assert (found.peer, found.best) == ("hmmlearn log", 4.0)
    assert against_best_peer({"hiddenstate": [1.0], "numpy by hand": [2.0]}) is None
    assert against_best_peer({"torch": [1.0]}) is None


@pytest.mark.parametrize(
    "call, rounds, times, number",
    [(3e-6, 15, 60, 167), (0.01, 15, 3, 1), (0.11, 5, 1, 1), (0.4, 5, 1, 1), (1.5, 2, 1, 1), (3.0, 1, 1, 1)],
)
def test_short_calls_are_repeated_and_long_ones_called_seldom(call, rounds, times, number):
    assert plan(call) == Plan(rounds, times, number)


def test_share_of_peak_is_of_what_limits():
    assert share_of_peak(10.0, 400.0, 10.0, 100.0, 10.0) == 0.4  # 4 s of arithmetic, 1 s of memory
    assert share_of_peak(10.0, 100.0, 60.0, 100.0, 10.0) == 0.6


def test_row_says_ratio_goal_and_share(tmp_path):
    told = records(tmp_path).told
    (row,) = told["cases"].values()
    assert met(row) is True
    assert share(row, told["peak"]) == (0.5, "memory")
    assert cells(row, told["peak"]) == [
        "HMM Viterbi",
        "1 x 100, 5 states",
        "1 s",
        "hmmlearn log",
        "4.00x",
        "2.00x to 3.50x",
        "4.00x",
        "met",
        "6.00x",
        "50% memory",
    ]
    assert "hmmlearn log takes 4.00x as long" in line(row)
    assert summary(told)[0].startswith("1 of 1 goals are met")


def test_summary_names_what_is_far_from_its_goal_and_what_differs(tmp_path):
    found = records(tmp_path, goal=8.0)
    found.keep(case(goal=None), measured(differ={"torch": "x differs"}))
    words = "\n".join(summary(found.told))
    assert "Not the same result, and not timed: Viterbi, 1 x 100, 5 states, torch: x differs" in words
    far = "\n".join(summary(records(tmp_path, goal=8.0).told))
    assert "0 of 1 goals are met" in far
    assert "4.00x of 8.00x. It takes 1 s, and the goal asks for 500 ms; memory alone takes 500 ms" in far


def test_goals_that_not_every_round_meets_are_named(tmp_path):
    (tmp_path / "images").mkdir()
    found = records(tmp_path)  # 4.00x by the best times, 2.00x in a quarter of the rounds
    found.keep(case(goal=2.0, precision="float64"), measured())
    found.keep(Case("hmm", "gradient", {"states": 5}, {}, {}, goal=3.0), measured(seconds={"hiddenstate": [1.0]}))
    named = "Met by the best times, not in every round: Viterbi, 1 x 100, 5 states, float32 (4.00x of 4.00x, lower "
    alone = "1 more without a peer's time to judge by: gradient, 5 states, float32."
    for words in ("\n".join(summary(found.told)), write_page(found.told, [], docs=tmp_path).read_text()):
        assert f"{named}quartile 2.00x)." in words
        assert "2 of 2 goals are met" in words
        assert alone in words
    page = (tmp_path / "benchmarks.md").read_text()
    assert f"**2 of 2 goals are met**, and {alone} A ratio says" in page


def test_only_a_result_that_no_peer_shares_is_suspicious():
    assert not suspicious(measured(differ={"torch": "x differs"}))
    assert suspicious(measured(seconds={"hiddenstate": [1.0]}, differ={"torch": "x differs"}))
    assert suspicious(measured(seconds={}))
    assert not suspicious(measured(seconds={"hiddenstate": [1.0]}))


def test_a_run_goes_on_with_what_is_kept(tmp_path):
    records(tmp_path)
    again = Records(tmp_path / "results.json", "full", resume=True)
    assert case() in again
    assert case() not in Records(tmp_path / "results.json", "quick", resume=True)
    assert case() not in Records(tmp_path / "results.json", "full", resume=False)
    assert json.loads((tmp_path / "results.json").read_text())["machine"]["threads"] == 2


def test_results_are_compared_as_the_case_allows():
    ours = {"log_prob": np.array([-10.0, -20.0])}
    assert difference(case(), ours, {"log_prob": np.array([-10.001, -20.0])}) == ""
    assert difference(case(), ours, {"log_prob": np.array(-30.01)}) == ""  # the sum
    assert "log_prob differs by up to 1" in difference(case(), ours, {"log_prob": np.array([-11.0, -20.0])})
    assert difference(case(), ours, {"log_prob": np.array([np.nan, -20.0])}) != ""


def test_results_can_be_compared_together():
    loose = Case("", "", {}, {}, {"inputs": Agreement(0.1, together=True)})
    ours = {"inputs": np.ones(100)}
    assert difference(loose, ours, {"inputs": np.r_[1.9, np.ones(99)]}) == ""
    assert difference(loose, ours, {"inputs": np.full(100, 1.2)}) != ""


def test_page_and_plots_are_written(tmp_path):
    (tmp_path / "images").mkdir()
    found = records(tmp_path)
    for steps in (10, 100):
        point = Case("hmm", "log-likelihood", {"steps": steps}, {}, {}, scaling="steps")
        found.keep(point, measured())
    plots = [draw_ratios(found.told, tmp_path), draw_scaling(found.told, tmp_path)]
    assert [path.name for path in plots if path] == ["ratios.svg", "scaling.svg"]
    page = write_page(found.told, [path for path in plots if path], docs=tmp_path).read_text()
    assert "**1 of 1 goals are met.** A ratio says" in page
    assert "| HMM Viterbi |" in page
    assert (tmp_path / "images" / "bench-ratios.svg").exists()


def test_nothing_measured_draws_nothing(tmp_path):
    told = Records(tmp_path / "results.json", "full", resume=False).told
    assert draw_ratios(told, tmp_path) is None
    assert draw_scaling(told, tmp_path) is None
    assert "No run was written here yet." in write_page(told, [], docs=tmp_path).read_text()
    assert summary(told) == []


def test_times_have_three_digits_and_a_unit():
    assert [seconds(value) for value in (12.345, 0.012, 3.2e-6, 2.5e-7)] == ["12.3 s", "12 ms", "3.2 µs", "0.25 µs"]
    assert [times(value) for value in (1.234, 12.34, 123.4)] == ["1.23x", "12.3x", "123x"]


def test_best_peer_of_a_row_that_nobody_finished():
    assert best_peer(measured(seconds={})) is None
    assert "not timed: out of memory" in line(measured(seconds={}, left_out={"hiddenstate": "out of memory"}))
