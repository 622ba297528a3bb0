"""Linear Gaussian models: Kalman filters, smoothers, structures, and what learns them."""

from hiddenstate.latent.linear_gaussian import build, structural
from hiddenstate.latent.linear_gaussian.model import LinearGaussian
from hiddenstate.latent.linear_gaussian.nonlinear import NonlinearGaussian
from hiddenstate.latent.linear_gaussian.system import Belief

__all__ = ["Belief", "LinearGaussian", "NonlinearGaussian", "build", "structural"]
