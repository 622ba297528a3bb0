"""Sequential Monte Carlo: any latent model, run by weighted particles."""

from hiddenstate.latent.particle.corrected import Correction, Inference
from hiddenstate.latent.particle.filter import ParticleFilter
from hiddenstate.latent.particle.proposal import Proposal
from hiddenstate.latent.particle.state import Filtered, Information, ParticleState, Smoothed
from hiddenstate.latent.particle.state_space import Simulated, StateSpace

__all__ = [
    "Correction",
    "Filtered",
    "Inference",
    "Information",
    "ParticleFilter",
    "ParticleState",
    "Proposal",
    "Simulated",
    "Smoothed",
    "StateSpace",
]
