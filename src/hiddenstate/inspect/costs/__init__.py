"""Time and memory of models against their sizes, beside the theory."""

from hiddenstate.inspect.costs.exponents import Exponent, fit_exponent
from hiddenstate.inspect.costs.sizes import FULL, QUICK, CostSizes
from hiddenstate.inspect.costs.study import Cost, cost
from hiddenstate.inspect.costs.waiting import depth

__all__ = ["FULL", "QUICK", "Cost", "CostSizes", "Exponent", "cost", "depth", "fit_exponent"]
