"""Writes hamilton.npz: what statsmodels says of autoregressions whose mean, or intercept, switches between regimes.

    python make_hamilton_reference.py

needs statsmodels and pytest (the series stands in its tests); nothing else in the project does. The series is the
growth of the real gross national product of the United States, in percent a quarter, 1951 II to 1984 IV, of Hamilton
(1989), "A new approach to the economic analysis of nonstationary time series and the business cycle", Econometrica 57.
"""

import warnings
from pathlib import Path

import numpy as np
import statsmodels
from statsmodels.tsa.regime_switching.markov_autoregression import MarkovAutoregression
from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression
from statsmodels.tsa.regime_switching.tests.test_markov_autoregression import rgnp

HERE = Path(__file__).parent

AR4 = [0.754673, 0.095915, -0.358811, 1.163516, np.exp(-0.262658) ** 2, 0.013486, -0.057521, -0.246983, -0.212923]
"""The maximum likelihood that statsmodels' tests quote."""

AR2 = [0.3812383, 0.3564492, -0.0055216, 1.195482, 0.6677098**2, 0.3710719, 0.4621503, 0.7002937, -0.3206652]
"""That of coefficients that switch, as the same tests quote it (Stata 14's manual)."""

VARIANCES = [0.7, 0.2, 0.2, 0.1, 0.6, 0.2, -1.0, 0.5, 2.0, 0.4, 0.8, 0.3, 0.25]
"""Three regimes with a mean and a variance each, and one lag: numbers of no meaning."""

INTERCEPTS = [0.8, 0.1, -0.3, 0.9, 0.3, -0.1, 0.5, 0.9]
"""Two intercepts and variances, and two lags: numbers of no meaning."""


def described(model, params):
    """The parameters in the terms of hs.Hamilton."""
    named = dict(zip(model.param_names, params, strict=True))
    states = model.k_regimes

    def one(name):
        """A number for each regime, or one for all, which statsmodels names after regime 1 for inputs."""
        if f"{name}[0]" in named:
            return [named[f"{name}[{k}]"] for k in range(states)]
        return named[name] if name in named else named[f"{name}[1]"]

    stems = {name.split("[")[0] for name in named}
    lags = [name for name in (f"{kind}{j}" for kind in ("ar.L", "x") for j in range(1, 9)) if name in stems]
    return {
        "transition": np.asarray(model.regime_transition_matrix(params))[..., 0].T,
        "means": np.array(one("const")),
        "coefficients": np.array([one(name) for name in lags]).T,
        "variances": np.array(one("sigma2")),
    }


def main():
    x = np.array(rgnp)
    lagged = np.stack([x[1:-1], x[:-2]], axis=1)
    cases = {
        "ar4": (MarkovAutoregression(x, k_regimes=2, order=4, switching_ar=False), AR4),
        "ar2-switching": (MarkovAutoregression(x, k_regimes=2, order=2), AR2),
        "three-variances": (
            MarkovAutoregression(x, k_regimes=3, order=1, switching_ar=False, switching_variance=True),
            VARIANCES,
        ),
        "intercept": (
            MarkovRegression(x[2:], k_regimes=2, exog=lagged, switching_exog=False, switching_variance=True),
            INTERCEPTS,
        ),
    }
    arrays = {"made_with": np.array(f"statsmodels {statsmodels.__version__}, numpy {np.__version__}"), "x": x}
    for name, (model, params) in cases.items():
        print(name, model.param_names)
        found = model.smooth(np.array(params))
        arrays |= {f"{name}/{key}": value for key, value in described(model, np.array(params)).items()}
        arrays[f"{name}/log_prob"] = np.array(found.llf)
        arrays[f"{name}/filtered"] = np.asarray(found.filtered_marginal_probabilities)
        arrays[f"{name}/smoothed"] = np.asarray(found.smoothed_marginal_probabilities)
        print(name, found.llf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = cases["ar4"][0].fit(start_params=np.array(AR4), disp=False)
    arrays["ar4/maximum"] = np.array(best.llf)
    print("ar4 at its maximum", best.llf)
    np.savez_compressed(HERE / "hamilton.npz", **arrays)


if __name__ == "__main__":
    main()
