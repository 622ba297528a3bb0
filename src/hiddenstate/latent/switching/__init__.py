"""Switching linear Gaussian models: a regime that selects how a hidden state moves and is seen."""

from hiddenstate.latent.switching import build
from hiddenstate.latent.switching.belief import SwitchingBelief
from hiddenstate.latent.switching.learning import variational_smooth
from hiddenstate.latent.switching.model import SwitchingLinearGaussian
from hiddenstate.latent.switching.rao_blackwell import RaoBlackwellised

__all__ = ["RaoBlackwellised", "SwitchingBelief", "SwitchingLinearGaussian", "build", "variational_smooth"]
