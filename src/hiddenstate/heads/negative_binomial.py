"""Counts whose variance is above their mean."""

from typing import Any

import equinox as eqx
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import register
from hiddenstate.distributions import NegativeBinomialDistribution
from hiddenstate.heads.head import Dispersion, checked_dispersion, locations_first
from hiddenstate.heads.units import Counted


@register("negative-binomial-head")
class NegativeBinomial(Counted):
    r"""Overdispersed counts: negative binomials of mean :math:`r \exp(a)` and concentration :math:`\exp(c)`.

    Both :math:`a` and :math:`c` come from the state; the variance is mean + mean² / concentration. `size`,
    `rate`, `spread` and the encoding are those of `Poisson`. With ``dispersion="constant"`` only the means
    follow the state.
    """

    dispersion: Dispersion = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        size: int | None,
        rate: Any = None,
        spread: Any = None,
        *,
        dispersion: Dispersion = "state",
        key: PRNGKeyArray,
    ):
        self.dispersion = checked_dispersion(dispersion)
        self._set_units(size, rate, spread)
        self._initialise(hidden_size, key)

    @property
    def parameter_count(self) -> int:
        """Means and concentrations."""
        return 2 * self.encoded_size

    @property
    def driven(self) -> np.ndarray:
        """The locations, and with ``dispersion="state"`` the rest too."""
        return locations_first(self, self.dispersion)

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """Independent negative binomial distributions."""
        mean, concentration = parameters.reshape(2, *self.event_shape)
        return NegativeBinomialDistribution(self.log_rate(mean), concentration).to_event(len(self.event_shape))
