"""Heads: from a cell's output to a distribution over the next observation, one file a family."""

from hiddenstate.distributions import (
    ColumnsDistribution,
    MixtureDistribution,
    NegativeBinomialDistribution,
    PoissonDistribution,
)
from hiddenstate.heads.bernoulli import Bernoulli
from hiddenstate.heads.categorical import Categorical
from hiddenstate.heads.columns import Columns
from hiddenstate.heads.gaussian import Gaussian
from hiddenstate.heads.head import Head
from hiddenstate.heads.infer import head_for
from hiddenstate.heads.mixture import Mixture
from hiddenstate.heads.nade import NADE
from hiddenstate.heads.negative_binomial import NegativeBinomial
from hiddenstate.heads.poisson import Poisson
from hiddenstate.heads.student_t import StudentT
from hiddenstate.heads.subset import Subset

__all__ = [
    "NADE",
    "Bernoulli",
    "Categorical",
    "Columns",
    "ColumnsDistribution",
    "Gaussian",
    "Head",
    "Mixture",
    "MixtureDistribution",
    "NegativeBinomial",
    "NegativeBinomialDistribution",
    "Poisson",
    "PoissonDistribution",
    "StudentT",
    "Subset",
    "head_for",
]
