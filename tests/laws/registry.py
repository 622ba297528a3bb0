"""Every model of the library, small, for the laws.

A new model joins in `laws.cases`: `test_every_recipe_has_joined` sees to it.

A case is a function of a key that returns the model, and the grid over which its observations are summed.
"""

from laws.cases import chains, filters, gaussian, networks
from laws.cases.parts import Case

CASES: dict[str, Case] = networks.CASES | chains.CASES | gaussian.CASES | filters.CASES
