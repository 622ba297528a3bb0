"""How time and memory of SwitchCopy grow with its states, beside those of the hidden Markov model it stands for.

    python benchmarks/switch_copy.py [--states 100 300 1000 3000 10000] [--dense 1000] [--steps 10000]

Each line is a process of its own: the log-probability of one sequence under Gaussian emissions in single precision,
its gradient, or the posterior of all states and switches. Seconds are those of the second run, without compilation.
"program" are the megabytes that the compiled program says it needs, "process" those by which the process grew at its
highest, with the compiler's own. The exponents are fitted to the three largest sizes: 1 is linear in the states, 2 is
quadratic. Log-probabilities and gradients of SwitchCopy take memory for 128 steps at a time. The posterior is an array
of steps times states in either model; that of the hidden Markov model holds all pairs of states too, and is left out
where these would be more than a gigabyte.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

RESET = 0.05
WORK = ("score", "gradient", "smooth")
PAIRS = 2**28


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, nargs="+", default=[100, 300, 1000, 3000, 10_000])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--dense", type=int, default=1000, help="the most states of the hidden Markov model")
    parser.add_argument("--work", nargs="+", choices=WORK, default=["score", "gradient"])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        model, work, states = given.one
        print(json.dumps(measured(model, work, int(states), given.steps)))
        return
    columns = f"{'seconds':>9} {'program':>9} {'process':>9} {'nats per step':>14}"
    print(f"{given.steps} steps\n{'model':12} {'work':10} {'states':>7} {columns}")
    for work in given.work:
        for model, most in (("switch-copy", max(given.states)), ("dense", given.dense)):
            sizes = [k for k in given.states if k <= most]
            if (model, work) == ("dense", "smooth"):
                sizes = [k for k in sizes if given.steps * k * k <= PAIRS]
            table(model, work, sizes, given.steps)


def table(model: str, work: str, sizes: list[int], steps: int) -> None:
    """A line for each size, and how fast they grow."""
    found = []
    for states in sizes:
        command = [sys.executable, __file__, "--steps", str(steps), "--one", model, work, str(states)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{model:12} {work:10} {states:7} did not run: {done.stderr.strip().splitlines()[-1:]}", flush=True)
            continue
        one = json.loads(done.stdout.splitlines()[-1])
        found.append((states, one["seconds"], one["program"]))
        said = f"{one['seconds']:9.3f} {one['program']:9.1f} {one['process']:9.1f} {one['nats']:14.6f}"
        print(f"{model:12} {work:10} {states:7} {said}", flush=True)
    last = np.log(np.array(found[-3:]))
    if len(last) == 3:
        time_, memory = (np.polyfit(last[:, 0], last[:, column], 1)[0] for column in (1, 2))
        print(f"{model:12} {work:10} grows like states to the power {time_:.2f} in time, {memory:.2f} in memory")


def measured(model: str, work: str, states: int, steps: int) -> dict[str, float]:
    """Seconds, megabytes and the log-probability of one case, in this process."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import hiddenstate as hs
    from hiddenstate.core import partition
    from hiddenstate.inference import arrays_for, masked_log_probs, sequences_for, steps_of

    random = np.random.default_rng(0)
    means = np.linspace(-10, 10, states, dtype=np.float32)
    fresh = np.cumsum(random.uniform(size=steps) < RESET)
    xs = (random.choice(means, fresh.max() + 1)[fresh] + random.normal(size=steps)).astype(np.float32)
    jax.block_until_ready(hs.log_prob(_model("switch-copy", means[:1]), xs[:2]))  # what JAX itself needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chain = _model(model, means)
    learned, rest = partition(chain)
    arrays = jax.tree.map(jnp.asarray, arrays_for(chain, sequences_for(chain, xs)))

    def score(learned):
        return masked_log_probs(eqx.combine(learned, rest), arrays, hs.Auto())[0].sum()

    def smooth(learned):
        model = eqx.combine(learned, rest)
        return score(learned), jax.vmap(lambda steps: model.smooth(steps, hs.Sequential()))(steps_of(arrays))

    call: Any = jax.jit({"score": score, "gradient": jax.value_and_grad(score), "smooth": smooth}[work])
    program = call.lower(learned).compile()
    needs = program.memory_analysis()
    size = needs.temp_size_in_bytes + needs.argument_size_in_bytes + needs.output_size_in_bytes
    jax.block_until_ready(program(learned))
    began = time.perf_counter()
    value = jax.block_until_ready(program(learned))
    seconds = time.perf_counter() - began
    total = value if work == "score" else value[0]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": seconds, "program": size / 2**20, "process": grown / 2**10, "nats": -float(total) / steps}


def _model(kind: str, means: np.ndarray):
    import hiddenstate as hs

    states = len(means)
    prior = np.full(states, 1 / states, np.float32)
    emission = hs.emissions.Gaussian(means=means, covariances=np.ones_like(means))
    if kind == "switch-copy":
        return hs.SwitchCopy(RESET, prior, emission)
    matrix = (1 - RESET) * np.eye(states, dtype=np.float32) + np.float32(RESET) * prior
    return hs.HMM(prior, matrix.astype(np.float32), emission)


if __name__ == "__main__":
    main()
