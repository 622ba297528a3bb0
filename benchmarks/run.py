"""Speed against torch.nn, side by side in one process: forward, and forward with backward.

Torch is no requirement of the project; without it only our own times are shown. Runs are interleaved and the best of
several counts; what to read is the ratio, since machines are noisy.

    python benchmarks/run.py [--repeats 7] [--out benchmarks/results.json]
"""

import argparse
import json
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

import hiddenstate as hs

SHAPES = [(64, 512, 64), (1, 4096, 64), (16, 128, 256)]
CELLS = {"vanilla": "RNN", "gru": "GRU", "lstm": "LSTM"}


def ours(name, batch, time_, units):
    cell = {"vanilla": hs.cells.Vanilla, "gru": hs.cells.GRU, "lstm": hs.cells.LSTM, "mingru": hs.cells.MinGRU}[name](
        units, units, key=jr.key(0)
    )
    xs = jr.normal(jr.key(1), (batch, time_, units))

    def outputs(cell, xs):
        states = jax.vmap(lambda x: hs.unroll(cell, x).states)(xs)
        return jax.vmap(jax.vmap(cell.output))(states)

    forward = eqx.filter_jit(lambda c, x: outputs(c, x).sum())
    backward = eqx.filter_jit(eqx.filter_value_and_grad(lambda c, x: (outputs(c, x) ** 2).sum()))
    return lambda: jax.block_until_ready(forward(cell, xs)), lambda: jax.block_until_ready(backward(cell, xs))


def theirs(name, batch, time_, units):
    import torch

    layer = getattr(torch.nn, CELLS[name])(units, units, batch_first=True)
    xs = torch.randn(batch, time_, units)

    def forward():
        with torch.no_grad():
            layer(xs)[0].sum()

    def backward():
        layer.zero_grad()
        (layer(xs)[0] ** 2).sum().backward()

    return forward, backward


def best(functions, repeats):
    for function in functions.values():
        function()
    times = {name: float("inf") for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - began)
    return {name: 1e3 * seconds for name, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401

        peer = True
    except ImportError:
        peer = False
        print("torch is not installed: our own times only")
    rows = []
    for name in ("vanilla", "gru", "lstm", "mingru"):
        for shape in SHAPES:
            mine, other = ours(name, *shape), theirs(name, *shape) if peer and name in CELLS else None
            for i, phase in enumerate(("forward", "forward + backward")):
                times = best({"ours": mine[i], **({"torch": other[i]} if other else {})}, options.repeats)
                row = {"cell": name, "batch": shape[0], "time": shape[1], "units": shape[2], "phase": phase, **times}
                row["ratio"] = times["torch"] / times["ours"] if other else None
                rows.append(row)
                said = f"torch {times['torch']:8.2f} ms  ratio {row['ratio']:.2f}" if other else ""
                print(f"{name:8} {shape!s:16} {phase:20} ours {times['ours']:8.2f} ms  {said}", flush=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")
    if peer:
        ratios = [row["ratio"] for row in rows if row["ratio"]]
        print(
            f"\ntorch's time over ours, geometric mean: {np.exp(np.mean(np.log(ratios))):.2f} (above 1: we are faster)"
        )


if __name__ == "__main__":
    main()
