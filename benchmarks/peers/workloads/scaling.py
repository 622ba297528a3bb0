"""Points of the plots of time against one size."""

from dataclasses import replace

from peers.case import Case, Scale
from peers.workloads import hmm, minimal, recurrent

POINTS = {
    "full": {
        "states": (2, 4, 8, 16, 32, 64, 128),
        "steps": (100, 1_000, 10_000, 100_000),
        "decoded": (2, 8, 32, 128),
        "units": (16, 32, 64, 128, 256),
        "sequences": (1, 4, 16, 64),
        "long": (256, 1_024, 4_096, 16_384, 65_536),
    },
    "quick": {
        "states": (2, 8, 32),
        "steps": (100, 1_000, 10_000),
        "decoded": (2, 8, 32),
        "units": (16, 32, 64),
        "sequences": (1, 4, 16),
        "long": (256, 1_024, 4_096),
    },
    "tiny": {"states": (2,), "steps": (10,), "decoded": (2,), "units": (3,), "sequences": (2,), "long": (10,)},
}
TITLES = {
    "states": "HMM log-likelihood, 64 x 1,000",
    "steps": "HMM log-likelihood, 5 states, one sequence",
    "decoded": "HMM Viterbi, 64 x 1,000",
    "units": "LSTM forward + backward, 512 steps, 64 sequences",
    "sequences": "LSTM forward + backward, 512 steps, 64 units",
    "long": "minGRU forward + backward, one sequence, 64 units",
}
LEFT_OUT = ("hmmlearn log",)
"""Always slower than the other implementation, where it is fast enough to be shown."""

AXES = {
    "states": "states",
    "steps": "steps",
    "decoded": "states",
    "units": "units",
    "sequences": "sequences",
    "long": "steps",
}


def cases(scale: Scale) -> list[Case]:
    """Every plot's, in the order of its x axis."""
    points = POINTS[scale]
    sequences, steps = {"full": (64, 1_000), "quick": (16, 250), "tiny": (2, 10)}[scale]
    length = {"full": 512, "quick": 128, "tiny": 6}[scale]
    found = [
        hmm.case("log-likelihood", {"states": k, "sequences": sequences, "steps": steps}, scaling="states")
        for k in points["states"]
    ]
    found += [
        hmm.case("log-likelihood", {"states": 5, "sequences": 1, "steps": t}, scaling="steps") for t in points["steps"]
    ]
    found += [
        hmm.case("Viterbi", {"states": k, "sequences": sequences, "steps": steps}, scaling="decoded")
        for k in points["decoded"]
    ]
    found += [
        recurrent.case("LSTM", True, {"steps": length, "sequences": sequences, "units": h}, scaling="units")
        for h in points["units"]
    ]
    found += [
        recurrent.case("LSTM", True, {"steps": length, "sequences": b, "units": 64}, scaling="sequences")
        for b in points["sequences"]
    ]
    found += [minimal.case("minGRU", {"steps": t, "sequences": 1, "units": 64}, scaling="long") for t in points["long"]]
    return [
        replace(case, makers={name: one for name, one in case.makers.items() if name not in LEFT_OUT}) for case in found
    ]
