"""Emissions: the distribution of an observation under each hidden state, one file a family."""

from hiddenstate.latent.emissions.autoregressive import Autoregressive
from hiddenstate.latent.emissions.bernoulli import Bernoulli
from hiddenstate.latent.emissions.categorical import Categorical
from hiddenstate.latent.emissions.columns import Columns
from hiddenstate.latent.emissions.emission import Emission, PartialEmission
from hiddenstate.latent.emissions.gaussian import Gaussian
from hiddenstate.latent.emissions.gaussian_mixture import GaussianMixture
from hiddenstate.latent.emissions.infer import emission_for
from hiddenstate.latent.emissions.linear_regression import LinearRegression
from hiddenstate.latent.emissions.negative_binomial import NegativeBinomial
from hiddenstate.latent.emissions.poisson import Poisson
from hiddenstate.latent.emissions.student_t import StudentT

__all__ = [
    "Autoregressive",
    "Bernoulli",
    "Categorical",
    "Columns",
    "Emission",
    "Gaussian",
    "GaussianMixture",
    "LinearRegression",
    "NegativeBinomial",
    "PartialEmission",
    "Poisson",
    "StudentT",
    "emission_for",
]
