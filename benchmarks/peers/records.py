"""What was measured, as it is kept in results.json: written after every case, so that a run can go on."""

import json
import os
import platform
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from peers.case import OURS, Case, is_peer
from peers.environment import PEERS
from peers.pool import THREADS
from peers.timing import Ratio, against_best_peer, ratios, share_of_peak
from peers.workloads import workload_of


class Records:
    """The results of a run, in a file."""

    def __init__(self, path: Path, scale: str, *, resume: bool):
        self.path = path
        self.told: dict[str, Any] = {"scale": scale, "machine": machine(), "versions": versions(), "peak": {}}
        self.told |= {"cases": {}, "memory": {}, "date": time.strftime("%Y-%m-%d"), "kernels": kernels()}
        if resume and path.exists():
            before = json.loads(path.read_text())
            if before["scale"] == scale:
                self.told |= {name: before[name] for name in ("cases", "memory", "peak")}

    def __contains__(self, case: Case) -> bool:
        return case.key in self.told["cases"]

    def keep(self, case: Case, measured: dict[str, Any]) -> dict[str, Any]:
        """Add a case, and write everything."""
        row = {
            "workload": workload_of(case),
            "title": case.title,
            "size": dict(case.size),
            "sizes": case.sizes,
            "precision": case.precision,
            "goal": case.goal,
            "scaling": case.scaling,
            "note": case.note,
            "work": None if case.work is None else asdict(case.work),
            **measured,
        }
        self.told["cases"][case.key] = row
        self.write()
        return row

    def keep_memory(self, case: Case, megabytes: dict[str, dict[str, float]]) -> None:
        """Add the memory of a case, and write everything."""
        self.told["memory"][case.key] = megabytes
        self.write()

    def write(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".tmp")
        part.write_text(json.dumps(self.told, indent=1) + "\n")
        part.replace(self.path)


def best_peer(row: dict[str, Any]) -> Ratio | None:
    """The ratio to the fastest peer."""
    return against_best_peer(row["seconds"])


def all_ratios(row: dict[str, Any]) -> dict[str, Ratio]:
    """The ratio of every contender to ours."""
    return ratios(row["seconds"])


def met(row: dict[str, Any]) -> bool | None:
    """Whether the goal is reached; None where there is none, or nobody to compare with."""
    found = best_peer(row)
    return None if row["goal"] is None or found is None else found.best >= row["goal"]


def met_seldom(row: dict[str, Any]) -> bool:
    """Whether the goal is reached by the best times, but in less than three quarters of the rounds."""
    found = best_peer(row)
    return found is not None and bool(met(row)) and found.low < row["goal"]


def unjudged(row: dict[str, Any]) -> bool:
    """Whether there is a goal, but no ratio that could reach it."""
    return row["goal"] is not None and met(row) is None


def suspicious(row: dict[str, Any]) -> bool:
    """Whether the mistake may be ours: we failed, or peers differ from us and none agrees."""
    agree = any(is_peer(name) for name in row["seconds"])
    return not row["seconds"].get(OURS) or (any(map(is_peer, row["differ"])) and not agree)


def share(row: dict[str, Any], peak: dict[str, Any]) -> tuple[float, str] | None:
    """The share of the limiting peak that our best time has, and which that is."""
    ours, work, rates = row["seconds"].get(OURS), row["work"], peak.get(row["precision"])
    if not ours or work is None or not rates:
        return None
    arithmetic, memory = work["multiply_adds"] / rates["multiply_adds"], work["bytes"] / rates["bytes"]
    found = share_of_peak(min(ours), work["multiply_adds"], work["bytes"], rates["multiply_adds"], rates["bytes"])
    return found, "arithmetic" if arithmetic >= memory else "memory"


def machine() -> dict[str, Any]:
    """The processor, and how much of it was used."""
    name, flags = platform.processor() or platform.machine(), ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
        told = {key.strip(): value.strip() for key, value in lines.items()}
        name, flags = told.get("model name", name), told.get("flags", "")
    widest = next((said for flag, said in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags.split()), "")
    return {
        "processor": name,
        "vectors": widest,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0,
        "threads": THREADS,
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Those of Python, this library, JAX and the peers."""
    found = {"Python": platform.python_version()}
    for name in ("hiddenstate", "jax", "numpy", *PEERS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def kernels() -> str:
    """Whether the compiled kernels run, in words."""
    try:
        import hiddenstate as hs
    except ImportError:
        return "hiddenstate is not installed here"
    there = hs.native.available()
    return "compiled kernels are in use" if there else "without compiled kernels, which `make native` makes"
