"""The linear Gaussian model against published numbers and stored results of statsmodels."""

from pathlib import Path

import jax.random as jr
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import hiddenstate as hs
from hiddenstate.latent.linear_gaussian import LinearGaussian, structural
from marks import quick

STORED = np.load(Path(__file__).parents[1] / "reference" / "statsmodels.npz")
AR = np.array([[1.2, -0.5], [1.0, 0.0]])
TREND = structural.local_linear_trend(0.3, 0.05) + structural.seasonal(4, 0.1)
MODELS = {
    "nile": structural.local_level(1469.1).model(emission_noise=15099.0),
    "trend-seasonal": TREND.model(emission_noise=0.5),
    "ar2": LinearGaussian(
        transition=AR,
        transition_noise=[0.7, 0.0],
        emission=[1.0, 0.0],
        emission_noise=0.0,
        initial_covariance=solve_discrete_lyapunov(AR, np.diag([0.7, 0.0])),
    ),
}


@pytest.mark.parametrize(
    "name", quick(["nile-gaps", "trend-seasonal", "nile", "trend-seasonal-gaps", "ar2", "ar2-gaps"], 2)
)
def test_statsmodels(name):
    """Exact diffuse log-likelihoods and smoothed states, without gaps and with."""
    model = MODELS[name.removesuffix("-gaps")]
    data = hs.Sequences.of([STORED[f"{name}/x"]])
    np.testing.assert_allclose(hs.log_prob(model, data)[0], STORED[f"{name}/log_prob"], atol=1e-6)
    found = hs.smooth(model, data)
    np.testing.assert_allclose(found.mean[0], STORED[f"{name}/mean"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.covariance[0], STORED[f"{name}/covariance"], rtol=1e-6, atol=1e-6)


def test_nile():
    """Durbin and Koopman (2012, ch. 2): the forecast, and the log-likelihood, with its first constant and without."""
    model, data = MODELS["nile"], hs.datasets.nile()
    log_prob = float(hs.log_prob(model, data)[0])
    assert round(log_prob, 4) == -633.4646
    assert round(log_prob + 0.5 * np.log(2 * np.pi), 4) == -632.5456
    ahead = hs.forecast(model, data, 3, key=jr.key(0), n=10)
    np.testing.assert_allclose(ahead.mean[0], 798.37, atol=0.01)
    np.testing.assert_allclose(ahead.distribution.variance[0], 4032.16 + 15099 + 1469.1 * np.arange(1, 4), atol=0.5)
