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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from peers import peak
from peers.case import Run
from peers.workloads import find

LONG = 1.0
"""Seconds."""

SHORT, MORE = 0.1, 3
"""Calls that take fewer seconds are run so many times more: the second one may still wait for memory."""


class Worker:
    """The contenders of the present case that live in this process."""

    def __init__(self, scale: Any, library: str):
        self.scale = scale
        self.runs: dict[str, Run] = {}
        if library in ("torch", "pomegranate", "minGRU-pytorch"):
            import torch

            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def prepare(self, case: str, contender: str, size: dict[str, int], results: str | None) -> dict[str, float]:
        """Make the inputs and run: the first call compiles, the least of the next ones says what a call takes.

        Those that compile nothing run long calls once.
        """
        found = find(case, self.scale)
        run = found.makers[contender](size)
        first = _timed(run.call)
        second = first if contender in found.probed and first > LONG else _timed(run.call)
        if second < SHORT:
            second = min(second, *(_timed(run.call) for _ in range(MORE)))
        self.runs[contender] = run
        if results is not None:
            np.savez(results, **{name: np.asarray(value) for name, value in run.result().items()})
        return {"first": first, "second": second}

    def time(self, contender: str, times: int, number: int) -> dict[str, float]:
        """Seconds of one call, the least of `times` means over `number` calls, after one that is not timed.

        While the others had their turns, caches went cold and the system may have taken memory back.
        """
        call = self.runs[contender].call
        call()
        with _without_collection():
            return {"seconds": min(_mean(call, number) for _ in range(times))}

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


def _timed(call: Any) -> float:
    with _without_collection():
        return _mean(call, 1)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Nobody's memory is cleaned up while it is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _mean(call: Any, number: int) -> float:
    began = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - began) / number


def _peak_megabytes() -> float:
    """The most memory that this process had; what `getrusage` says on Linux may be that of the one it came from."""
    status = Path("/proc/self/status")
    if status.exists():
        said = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(said["VmHWM"].split()[0]) / 2**10
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
