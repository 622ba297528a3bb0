"""Normal distributions, single numbers and vectors."""

import numpyro.distributions as dist

from hiddenstate.distributions.precision import OwnPrecision


class NormalDistribution(OwnPrecision, dist.Normal):
    """numpyro's normal distribution, in the precision of its parameters."""


class MultivariateNormalDistribution(OwnPrecision, dist.MultivariateNormal):
    """numpyro's multivariate normal distribution, in the precision of its parameters."""
