"""What keeps the maximisation step of EM proper where data are few."""

from typing import Any, NamedTuple


class Prior(NamedTuple):
    """Numbers that `maximise` takes beside the expected statistics.

    `pseudocount` is added to every expected count of a probability that may be other than zero (a Dirichlet prior of
    parameter 1 + pseudocount). `variance_floor` is a variance that no direction of a covariance goes below: the
    maximum under that constraint, so that EM keeps rising. Both are zero by default: maximum likelihood.
    """

    pseudocount: Any = 0.0
    variance_floor: Any = 0.0
