"""Models whose state is a belief over something hidden, updated by Bayes' rule."""

from hiddenstate.latent import emissions
from hiddenstate.latent.hmm import HMM, HSMM, CategoricalDurations, Hamilton, InputDriven, NegativeBinomialDurations
from hiddenstate.latent.hmm.switch_copy import SwitchCopy
from hiddenstate.latent.linear_gaussian import LinearGaussian, NonlinearGaussian, structural
from hiddenstate.latent.particle import Correction, Inference, ParticleFilter, Proposal, StateSpace
from hiddenstate.latent.switching import RaoBlackwellised, SwitchingLinearGaussian, variational_smooth

__all__ = [
    "HMM",
    "HSMM",
    "CategoricalDurations",
    "Correction",
    "Hamilton",
    "Inference",
    "InputDriven",
    "LinearGaussian",
    "NegativeBinomialDurations",
    "NonlinearGaussian",
    "ParticleFilter",
    "Proposal",
    "RaoBlackwellised",
    "StateSpace",
    "SwitchCopy",
    "SwitchingLinearGaussian",
    "emissions",
    "structural",
    "variational_smooth",
]
