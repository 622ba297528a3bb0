"""Linear Gaussian models: Kalman filters, smoothers, and what learns them."""

from hiddenstate.latent.linear_gaussian.model import LinearGaussian
from hiddenstate.latent.linear_gaussian.system import Belief

__all__ = ["Belief", "LinearGaussian"]
