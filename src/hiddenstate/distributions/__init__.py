"""Families of distributions in the precision of their parameters, and what is left of one when entries are missing."""

from hiddenstate.distributions.columns import ColumnsDistribution, pieces_of
from hiddenstate.distributions.mixture import MixtureDistribution, mixture
from hiddenstate.distributions.nade import NADEDistribution
from hiddenstate.distributions.negative_binomial import NegativeBinomialDistribution
from hiddenstate.distributions.normal import MultivariateNormalDistribution, NormalDistribution
from hiddenstate.distributions.partial import partial_log_prob
from hiddenstate.distributions.poisson import PoissonDistribution
from hiddenstate.distributions.student_t import StudentTDistribution
from hiddenstate.distributions.subset import SubsetDistribution

__all__ = [
    "ColumnsDistribution",
    "MixtureDistribution",
    "MultivariateNormalDistribution",
    "NADEDistribution",
    "NegativeBinomialDistribution",
    "NormalDistribution",
    "PoissonDistribution",
    "StudentTDistribution",
    "SubsetDistribution",
    "mixture",
    "partial_log_prob",
    "pieces_of",
]
