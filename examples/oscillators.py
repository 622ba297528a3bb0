"""Two oscillators, one of which is seen at a time: which one, and where is the other meanwhile?

The experiment of Ghahramani and Hinton (2000): several processes run side by side, and a switch selects the one that
is seen, with noise. Here a slow and a fast oscillator, damped and kicked at random, take turns every 50 steps or so.
A switching model with one chain for each learns both, and the switch, from the mixed signal alone, by variational EM
from windows of the signal sorted by how they move.

Seen: 0.952 of 1000 steps are in the right regime, 0.961 with the true parameters; the periods are found as 39.1 and
8.99 steps, where 40 and 9 are true. While a chain is not seen its oscillation goes on as its dynamics say, and fades as
they forget. What is missed are visits of a few steps.
"""

from collections.abc import Sequence

import jax.random as jr
import numpy as np
from common import report, settings

import hiddenstate as hs
from hiddenstate.report.oscillators import plot_oscillators

PERIODS = (40.0, 9.0)
DAMPING = 0.99
SHOWN = 300


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn two chains from their mixed signal, and compare with the truth."""
    chosen = settings(__file__, __doc__, arguments)
    data_key, fit_key = jr.split(chosen.key)
    truth = of_periods(PERIODS)
    drawn = truth.simulate(120 if chosen.quick else 1000, key=data_key)
    signal, regimes = np.asarray(drawn.values[0]), np.asarray(drawn.regimes[0])
    data = hs.Sequences.of(signal)
    method = hs.EM(start="kmeans", restarts=2 if chosen.quick else 10, iterations=3 if chosen.quick else 200)
    fit = hs.fit(of_periods((20.0, 20.0)), data, method, key=fit_key)
    found = hs.variational_smooth(fit.model, data)
    order, right = matched(regimes, np.asarray(found.marginals[0]))
    known = matched(regimes, np.asarray(hs.variational_smooth(truth, data).marginals[0]))[1]
    chains = seen_chains(fit.model, np.asarray(found.mean[0]))[:, order]
    probability = np.asarray(found.marginals[0])[:, order[1]]
    shown = slice(0, SHOWN)
    plot_oscillators(
        chosen.out / "oscillators.png",
        signal=signal[shown],
        switch=regimes[shown],
        probability=probability[shown],
        chains=chains[shown],
        truth=seen_chains(truth, np.asarray(drawn.states[0]))[shown],
    )
    periods = [period_of(fit.model, k) for k in order]
    report(
        [
            {"model": "learned", "right": right, "slow period": periods[0], "fast period": periods[1]},
            {"model": "true parameters", "right": known, "slow period": PERIODS[0], "fast period": PERIODS[1]},
        ],
        chosen.out,
    )


def of_periods(periods: Sequence[float]) -> hs.SwitchingLinearGaussian:
    """A chain for each period, and a switch that stays for 50 steps in the mean."""
    chains = []
    for period in periods:
        angle = 2 * np.pi / period
        turn = DAMPING * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        chains.append(
            hs.LinearGaussian(
                transition=turn, transition_noise=0.02 * np.eye(2), emission=np.array([1.0, 0.0]), emission_noise=0.1
            )
        )
    return hs.SwitchingLinearGaussian.of_chains(
        chains, transition=np.array([[0.98, 0.02], [0.02, 0.98]]), observation_noise=0.1
    )


def matched(regimes: np.ndarray, marginals: np.ndarray) -> tuple[list[int], float]:
    """Which regime of the model is which, and the share of steps that is then right."""
    right = float((marginals.argmax(1) == regimes).mean())
    return ([0, 1], right) if right >= 0.5 else ([1, 0], 1 - right)


def seen_chains(model: hs.SwitchingLinearGaussian, states: np.ndarray) -> np.ndarray:
    """What each chain would look like if it were the one that is seen, (time, chain)."""
    return states @ np.asarray(model.observation).T + np.asarray(model.observation_offset)


def period_of(model: hs.SwitchingLinearGaussian, chain: int) -> float:
    """The period of a learned chain, from the angle of its eigenvalues; infinite where it does not turn."""
    block = np.asarray(model.dynamics[0])[2 * chain : 2 * chain + 2, 2 * chain : 2 * chain + 2]
    angle = float(np.abs(np.angle(np.linalg.eigvals(block))).max())
    return 2 * np.pi / angle if angle > 0 else float("inf")


if __name__ == "__main__":
    main()
