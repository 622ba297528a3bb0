"""A process in which one library runs: it is asked for one thing at a time, in lines of JSON.

Libraries share no process, since they fight over threads, allocators and JAX's precision. All processes are there from
the beginning to the end of a case and take turns, so that every round sees all contenders in one state of the machine.
"""

import gc
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from peers import peak
from peers.case import Run
from peers.workloads import find

LONG = 1.0
"""Seconds."""


class Worker:
    """The contenders of the present case that live in this process."""

    def __init__(self, scale: Any, library: str):
        self.scale = scale
        self.runs: dict[str, Run] = {}
        if library in ("torch", "pomegranate", "minGRU-pytorch"):
            import torch

            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def prepare(self, case: str, contender: str, size: dict[str, int], results: str | None) -> dict[str, float]:
        """Make the inputs and run twice: the first call compiles. Those that compile nothing run long calls once."""
        found = find(case, self.scale)
        run = found.makers[contender](size)
        first = _timed(run.call, 1)
        second = first if contender in found.probed and first > LONG else _timed(run.call, 1)
        self.runs[contender] = run
        if results is not None:
            np.savez(results, **{name: np.asarray(value) for name, value in run.result().items()})
        return {"first": first, "second": second}

    def time(self, contender: str, number: int) -> dict[str, float]:
        """Seconds of one call, the mean of so many without a pause, after one that is not timed.

        While the others had their turns, caches went cold and the system may have taken memory back.
        """
        self.runs[contender].call()
        return {"seconds": _timed(self.runs[contender].call, number)}

    def drop(self) -> dict[str, float]:
        """The case is done."""
        self.runs.clear()
        gc.collect()
        return {}

    def memory(self, case: str, contender: str, size: dict[str, int]) -> dict[str, float]:
        """Megabytes at the peak, before the first call and after three; of a process that did nothing else."""
        run = find(case, self.scale).makers[contender](size)
        before = _peak_megabytes()
        for _ in range(3):
            run.call()
        return {"before": before, "peak": _peak_megabytes()}

    def peak(self) -> dict[str, float]:
        """What the machine can."""
        return peak.measure()


def _timed(call: Any, number: int) -> float:
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - began) / number
    finally:
        gc.enable()


def _peak_megabytes() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    """Answer line by line until there are no more; whatever libraries print goes to standard error."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    scale, library = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["OMP_NUM_THREADS"])])
    worker = Worker(scale, library)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said = getattr(worker, asked.pop("do"))(**asked)
        except Exception as error:  # whatever a peer raises is a reason to leave it out, and no more
            words = " ".join(str(error).split())[:200]
            said = {"error": f"{type(error).__name__}: {words}"}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
