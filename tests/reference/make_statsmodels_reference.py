"""Writes statsmodels.npz: what statsmodels says of a few structural models.

    python make_statsmodels_reference.py

needs statsmodels; nothing else in the project does.
"""

from pathlib import Path

import numpy as np
import statsmodels
from statsmodels.tsa.statespace.mlemodel import MLEModel

HERE = Path(__file__).parent


def model(x, transition, noise, emission, emission_noise, *, diffuse=True, stationary=False):
    """A state space model of single numbers in statsmodels' own terms."""
    n = len(transition)
    made = MLEModel(np.asarray(x, float), k_states=n, k_posdef=n)
    made["transition"] = transition
    made["selection"] = np.eye(n)
    made["state_cov"] = noise
    made["design"] = np.reshape(emission, (1, n))
    made["obs_cov"] = np.reshape(emission_noise, (1, 1))
    if stationary:
        made.ssm.initialize_stationary()
    elif diffuse:
        made.ssm.initialize("diffuse")
    return made.ssm


def seasonal_trend(period):
    """A local linear trend and seasons."""
    n = 2 + period - 1
    transition = np.zeros((n, n))
    transition[:2, :2] = [[1, 1], [0, 1]]
    transition[2, 2:] = -1
    transition[3:, 2:-1] = np.eye(period - 2)
    emission = np.zeros(n)
    emission[[0, 2]] = 1
    return transition, np.diag([0.3, 0.05, 0.1] + [0.0] * (period - 2)), emission


def main():
    rng = np.random.default_rng(0)
    nile = np.loadtxt(HERE.parents[1] / "src/hiddenstate/data/sets/nile.csv", delimiter=",", skiprows=1)[:, -1]
    gaps = nile.copy()
    gaps[20:40] = np.nan
    gaps[60:80] = np.nan
    walk = np.cumsum(rng.normal(size=40)) + np.tile([2.0, -1.0, 0.5, -1.5], 10) + rng.normal(size=40)
    holes = walk.copy()
    holes[[0, 2, 3, 17]] = np.nan
    coefficients = np.array([[1.2, -0.5], [1.0, 0.0]])
    cases = {
        "nile": model(nile, [[1.0]], [[1469.1]], [1.0], 15099.0),
        "nile-gaps": model(gaps, [[1.0]], [[1469.1]], [1.0], 15099.0),
        "trend-seasonal": model(walk, *seasonal_trend(4), 0.5),
        "trend-seasonal-gaps": model(holes, *seasonal_trend(4), 0.5),
        "ar2": model(walk, coefficients, np.diag([0.7, 0.0]), [1.0, 0.0], 0.0, stationary=True),
        "ar2-gaps": model(holes, coefficients, np.diag([0.7, 0.0]), [1.0, 0.0], 0.0, stationary=True),
    }
    arrays = {"made_with": np.array(f"statsmodels {statsmodels.__version__}, numpy {np.__version__}")}
    for name, made in cases.items():
        found = made.smooth()
        arrays[f"{name}/x"] = np.asarray(made.endog)[0] if np.asarray(made.endog).shape[0] == 1 else made.endog[:, 0]
        arrays[f"{name}/log_prob"] = np.array(found.llf_obs.sum())
        arrays[f"{name}/mean"] = found.smoothed_state.T
        arrays[f"{name}/covariance"] = np.moveaxis(found.smoothed_state_cov, -1, 0)
        print(name, found.llf_obs.sum())
    np.savez_compressed(HERE / "statsmodels.npz", **arrays)


if __name__ == "__main__":
    main()
