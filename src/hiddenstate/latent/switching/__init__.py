"""Switching linear Gaussian models: a regime that selects how a hidden state moves and is seen."""

from hiddenstate.latent.switching.belief import SwitchingBelief
from hiddenstate.latent.switching.model import SwitchingLinearGaussian

__all__ = ["SwitchingBelief", "SwitchingLinearGaussian"]
