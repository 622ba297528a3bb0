"""Hidden Markov models, with explicit durations or without."""

from hiddenstate.latent.hmm.build import hmm, hsmm
from hiddenstate.latent.hmm.durations import CategoricalDurations, NegativeBinomialDurations
from hiddenstate.latent.hmm.hamilton import Hamilton, hamilton
from hiddenstate.latent.hmm.model import HMM
from hiddenstate.latent.hmm.results import Lagged, Smoothed, Statistics
from hiddenstate.latent.hmm.semi_markov import HSMM
from hiddenstate.latent.hmm.switch_copy import SwitchCopy, SwitchSmoothed
from hiddenstate.latent.hmm.transitions import InputDriven, TransitionMatrix

__all__ = [
    "HMM",
    "HSMM",
    "CategoricalDurations",
    "Hamilton",
    "InputDriven",
    "Lagged",
    "NegativeBinomialDurations",
    "Smoothed",
    "Statistics",
    "SwitchCopy",
    "SwitchSmoothed",
    "TransitionMatrix",
    "hamilton",
    "hmm",
    "hsmm",
]
