"""How often variational EM finds the regimes of a switching linear Gaussian model from random starts.

    python benchmarks/regimes.py [--seeds 10] [--steps 2000] [--restarts 5] [--iterations 150]

Three regimes turn a hidden state of two numbers at different speeds, forwards or backwards, with different damping;
five numbers are seen through a random matrix, with noise. Each seed is another matrix, other data and other starts. A
line says which share of the steps is in the right regime after labels are matched, beside that of smoothing with the
true parameters; the smallest gain of the bound in an iteration; and the bound reached beside the log-probability of the
true parameters, both in nats a step.
"""

import argparse
import time

import jax
import jax.random as jr
import numpy as np
from scipy.optimize import linear_sum_assignment

import hiddenstate as hs

REGIMES = 3
TURNS = ((0.1, 0.995), (0.6, 0.98), (-0.3, 0.95))
"""Angle and damping a step of each regime."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=150)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    found = []
    for seed in range(given.seeds):
        begun = time.perf_counter()
        row = recovered(seed, given.steps, given.restarts, given.iterations)
        found.append(row["right"])
        print(
            f"seed {seed}: right {row['right']:.3f} (true parameters {row['best']:.3f}), smallest gain "
            f"{row['gain']:.1e}, bound {row['bound']:.4f}, true {row['true']:.4f}, {time.perf_counter() - begun:.0f} s",
            flush=True,
        )
    print(f"at least 0.9 in {sum(share >= 0.9 for share in found)} of {len(found)} seeds")


def recovered(seed: int, steps: int, restarts: int, iterations: int) -> dict[str, float]:
    """One data set, learned from random starts."""
    truth_key, fit_key = jr.split(jr.key(seed))
    truth = generator_of(np.random.default_rng(seed))
    drawn = truth.simulate(steps, key=truth_key)
    data, regimes = hs.Sequences.of(np.asarray(drawn.values[0])), np.asarray(drawn.regimes[0])
    method = hs.EM(start="random", restarts=restarts, iterations=iterations)
    fit = hs.fit(blank(), data, method, key=fit_key)
    bounds = -fit.history["loss"].to_numpy()
    found = hs.variational_smooth(fit.model, data).marginals[0]
    known = hs.smooth(truth, data).marginals[0]
    return {
        "right": matched(regimes, np.asarray(found)),
        "best": matched(regimes, np.asarray(known)),
        "gain": float(np.diff(bounds).min()),
        "bound": float(bounds[-1]),
        "true": float(hs.log_prob(truth, data)[0]) / steps,
    }


def generator_of(random: np.random.Generator) -> hs.SwitchingLinearGaussian:
    """The model that the data come from."""
    turns = [d * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a, d in TURNS]
    return hs.SwitchingLinearGaussian(
        initial=np.full(REGIMES, 1 / REGIMES),
        transition=np.full((REGIMES, REGIMES), 0.01) + 0.97 * np.eye(REGIMES),
        dynamics=np.stack(turns),
        dynamics_noise=0.05 * np.eye(2),
        observation=random.normal(size=(5, 2)),
        observation_noise=0.1 * np.eye(5),
    )


def blank() -> hs.SwitchingLinearGaussian:
    """The same form with parameters that say nothing: every start makes its own."""
    return hs.SwitchingLinearGaussian(
        initial=np.full(REGIMES, 1 / REGIMES),
        transition=np.full((REGIMES, REGIMES), 1 / REGIMES),
        dynamics=np.tile(np.eye(2), (REGIMES, 1, 1)),
        dynamics_offset=np.zeros((REGIMES, 2)),
        dynamics_noise=np.tile(np.eye(2), (REGIMES, 1, 1)),
        observation=np.ones((5, 2)),
        observation_offset=np.zeros(5),
        observation_noise=np.eye(5),
    )


def matched(regimes: np.ndarray, marginals: np.ndarray) -> float:
    """The share of steps whose most probable regime is the right one, under the best matching of labels."""
    table = np.zeros((marginals.shape[1], marginals.shape[1]))
    np.add.at(table, (regimes, marginals.argmax(1)), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(regimes))


if __name__ == "__main__":
    main()
