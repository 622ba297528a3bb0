"""Every workload's own side runs, and agrees with the compiled scan, at a tiny size and without any peer."""

import re
import subprocess
import sys

import numpy as np
import pytest
from peers.case import OURS, is_peer
from peers.environment import PEERS, REQUIREMENTS, requirements
from peers.measuring import difference, measure
from peers.pool import Pool
from peers.workloads import WORKLOADS, all_cases, workload_of

from marks import quick

TINY = all_cases("tiny")
IN_PROCESS = [case for case in TINY if workload_of(case) not in ("shell", "scaling", "jobs")]
FIRST = {case.title: case for case in reversed(IN_PROCESS)}.values()


def _params():
    first = [pytest.param(case, id=case.key) for case in FIRST if case.workload in ("hmm", "mingru", "streaming")]
    others = [pytest.param(case, id=case.key) for case in TINY if case.key not in {param.id for param in first}]
    return quick([*first, *others], 3)


@pytest.mark.parametrize("case", _params())
def test_our_contender_agrees_with_the_scan(case):
    own = [name for name in case.makers if not is_peer(name)]
    assert own[0] == OURS
    results = {}
    for name in own:
        run = case.makers[name](case.size)
        run.call()
        results[name] = {key: np.asarray(value) for key, value in run.result().items()}
    assert results[OURS], "there is something to compare"
    assert results[OURS].keys() <= case.agreement.keys()
    for name in own[1:]:
        assert difference(case, results[OURS], results[name]) == ""


@pytest.mark.slow
def test_processes_take_turns_and_say_why_they_cannot(tmp_path):
    (case,) = [case for case in TINY if case.title == "HMM push"]
    pool = Pool("tiny", tmp_path / "workers.log")
    try:
        found = measure(case, pool, ["hiddenstate", "numpy by hand", "excel"], quick=True)
    finally:
        pool.close()
    assert {name: len(times) for name, times in found["seconds"].items()} == {"hiddenstate": 4, "numpy by hand": 4}
    assert found["left_out"] == {"excel": "KeyError: 'excel'"}
    assert found["differ"] == {}


@pytest.mark.parametrize("scale", ["full", "quick", "tiny"])
def test_cases_have_their_own_keys_and_known_workloads(scale):
    cases = all_cases(scale)
    assert len({case.key for case in cases}) == len(cases)
    assert {workload_of(case) for case in cases} == WORKLOADS.keys() - {"memory"}
    assert all(set(map(_library, case.makers)) <= {"hiddenstate", "numpy", *PEERS} for case in cases)


def _library(name):
    return name.split()[0]


def test_full_sizes_are_those_of_the_goals():
    cases = [case for case in all_cases("full") if not case.scaling]
    goals = {(case.title, *case.size.values()): case.goal for case in cases if case.precision == "float32"}
    assert goals["Viterbi", 256, 64, 1_000] == 10
    assert goals["log-likelihood", 5, 1, 100_000] == 4
    assert goals["filter + smoother", 16, 4, 32, 1_000] == 5
    assert goals["LSTM forward + backward", 512, 64, 64] == 2
    assert goals["LSTM forward", 512, 64, 256] == 1.1
    assert goals["GRU forward + backward", 100, 32, 32] == 4
    assert goals["vanilla forward", 4_096, 8, 128] == 2
    assert goals["minLSTM forward + backward", 65_536, 1, 64] == 8


def test_a_smaller_part_says_how_much_it_is_of_the_whole():
    case = next(case for case in all_cases("full") if case.size.get("steps") == 100_000)
    part, whole = case.smaller()
    assert (part["steps"], whole) == (5_000, 20.0)


def test_every_requirement_is_pinned_and_every_peer_required():
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)
    assert PEERS.keys() <= requirements().keys()


def test_listing_loads_no_library():
    code = """
import sys
from peers.workloads import all_cases
all_cases("full")
print(sorted({"jax", "torch", "hmmlearn", "hiddenstate"} & set(sys.modules)))
"""
    path = str(REQUIREMENTS.parent)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path})
    assert done.stdout.strip() == "[]", done.stderr
