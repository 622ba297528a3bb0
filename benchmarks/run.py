"""Speed against the peers that are installed, as ratios: above 1, we are faster.

python benchmarks/run.py [recurrent latent] [--repeats 7] [--out benchmarks/results.json]
"""

import argparse
import importlib
import json
from pathlib import Path

import numpy as np
from timing import best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", default=["recurrent", "latent"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    options = parser.parse_args()
    rows = []
    for suite in options.suites:
        for label, phases in importlib.import_module(suite).cases():
            for phase, functions in phases.items():
                times = best(functions, options.repeats)
                peers = {name: took / times["ours"] for name, took in times.items() if name != "ours"}
                rows.append({"suite": suite, "case": label, "phase": phase, "milliseconds": times, "ratios": peers})
                said = "  ".join(f"{name} {times[name]:9.2f} ms, ratio {ratio:6.2f}" for name, ratio in peers.items())
                print(f"{label:44} {phase:18} ours {times['ours']:9.2f} ms  {said}", flush=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")
    for suite in options.suites:
        ratios = [ratio for row in rows if row["suite"] == suite for ratio in row["ratios"].values()]
        if ratios:
            mean = np.exp(np.mean(np.log(ratios)))
            print(f"{suite}: the peers' times over ours, geometric mean {mean:.2f} (above 1: we are faster)")


if __name__ == "__main__":
    main()
