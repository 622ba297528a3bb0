"""Models whose state is a belief over something hidden, updated by Bayes' rule."""

from hiddenstate.latent import emissions
from hiddenstate.latent.hmm import HMM, HSMM, CategoricalDurations, InputDriven, NegativeBinomialDurations
from hiddenstate.latent.particle import ParticleFilter, Proposal, StateSpace

__all__ = [
    "HMM",
    "HSMM",
    "CategoricalDurations",
    "InputDriven",
    "NegativeBinomialDurations",
    "ParticleFilter",
    "Proposal",
    "StateSpace",
    "emissions",
]
