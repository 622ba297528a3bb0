"""Emissions: the distribution of an observation under each hidden state, one file a family."""

from hiddenstate.latent.emissions.bernoulli import Bernoulli
from hiddenstate.latent.emissions.categorical import Categorical
from hiddenstate.latent.emissions.emission import Emission, PartialEmission
from hiddenstate.latent.emissions.gaussian import Gaussian
from hiddenstate.latent.emissions.infer import emission_for
from hiddenstate.latent.emissions.poisson import Poisson

__all__ = ["Bernoulli", "Categorical", "Emission", "Gaussian", "PartialEmission", "Poisson", "emission_for"]
