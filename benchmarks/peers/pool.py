"""The processes in which libraries run, and what can be asked of them."""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

THREADS = 2
SINGLE_THREADED = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")


class TooSlow(Exception):
    """It did not answer in time."""


class Failed(Exception):
    """It answered that it could not, or ended."""


class Process:
    """One library in one precision."""

    def __init__(self, library: str, precision: str, scale: str, log: Path):
        variables = {f"{name}_NUM_THREADS": str(THREADS) for name in SINGLE_THREADED}
        double = {"JAX_ENABLE_X64": "1"} if precision == "float64" else {}
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log.open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "peers.worker", scale, library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **variables, **double, "PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def ask(self, limit: float, **request: Any) -> dict[str, Any]:
        """The answer; TooSlow after `limit` seconds, with which the process is at an end."""
        stdin, stdout = _pipes(self.process)
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except OSError:
            raise Failed("its process ended") from None
        ready, _, _ = select.select([stdout], [], [], limit)
        if not ready:
            self.end()
            raise TooSlow
        line = stdout.readline()
        if not line:
            raise Failed(f"its process ended (code {self.process.wait()})")
        said = json.loads(line)
        if "error" in said:
            raise Failed(said["error"])
        return said

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self.process.poll() is None

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.wait()
        self.log.close()


def _pipes(process: subprocess.Popen) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


class Pool:
    """One process for each library and precision, started when it is first needed."""

    def __init__(self, scale: str, log: Path):
        self.scale, self.log = scale, log
        self.processes: dict[tuple[str, str], Process] = {}

    def of(self, library: str, precision: str) -> Process:
        """The process of a library; a new one where the last has ended."""
        key = library, precision
        if key not in self.processes or not self.processes[key].alive:
            self.processes[key] = self.fresh(library, precision)
        return self.processes[key]

    def fresh(self, library: str, precision: str) -> Process:
        """A process of its own."""
        return Process(library, precision, self.scale, self.log)

    def drop(self) -> None:
        """Let go of the last case's arrays."""
        for process in self.processes.values():
            with suppress(TooSlow, Failed):
                process.ask(60, do="drop")

    def close(self) -> None:
        """End all."""
        for process in self.processes.values():
            if process.alive:
                process.end()
