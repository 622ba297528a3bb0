"""Real numbers with heavy tails."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import register
from hiddenstate.distributions import StudentTDistribution
from hiddenstate.heads.head import Dispersion, checked_dispersion, locations_first
from hiddenstate.heads.units import Standardised, positive

_LOG_EIGHT = 2.0794415416798357


@register("student-t-head")
class StudentT(Standardised):
    r"""Real numbers with outliers: independent :math:`t_\nu`, location, scale and :math:`\nu` from the state.

    The degrees of freedom :math:`\nu = 2 + 8 e^p` are above 2, so that mean and variance exist (below p = -17
    in float32, -37 in float64, :math:`\nu` rounds to 2 and the variance is infinite); p = 0 gives 10, and a
    large p a normal distribution. `size`, `location`, `scale` and the encoding are those of `Gaussian`;
    `scale` multiplies the t's own scale, which is below its standard deviation. With
    ``dispersion="constant"`` only the locations follow the state.
    """

    dispersion: Dispersion = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        size: int | None,
        location: Any = None,
        scale: Any = None,
        *,
        dispersion: Dispersion = "state",
        key: PRNGKeyArray,
    ):
        self.dispersion = checked_dispersion(dispersion)
        self._set_units(size, location, scale)
        self._initialise(hidden_size, key)

    @property
    def parameter_count(self) -> int:
        """Locations, scales and degrees of freedom."""
        return 3 * self.encoded_size

    @property
    def driven(self) -> np.ndarray:
        """The locations, and with ``dispersion="state"`` the rest too."""
        return locations_first(self, self.dispersion)

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """Independent t-distributions with these standardised parameters, in the units of the data."""
        location, spread, tail = parameters.reshape(3, *self.event_shape)
        loc, scale = self.in_units(location, positive(spread))
        df = 2 + jnp.exp(tail + _LOG_EIGHT)
        return StudentTDistribution(df, loc, scale).to_event(len(self.event_shape))
