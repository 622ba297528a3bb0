"""Real numbers with heavy tails."""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import register
from hiddenstate.heads.precision import OwnPrecision
from hiddenstate.heads.stirling import LOG_2_PI, stirling_remainder
from hiddenstate.heads.units import Standardised, positive

_LOG_EIGHT = 2.0794415416798357


class StudentTDistribution(OwnPrecision, dist.StudentT):
    """numpyro's Student-t, exact also where many degrees of freedom make it a normal distribution in float32."""

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-density, with the two log-gammas written by Stirling's remainder."""
        df: Any = self.df
        half = 0.5 * df
        # log Gamma(half + 1/2) - log Gamma(half) - 1/2 log half
        gammas = (
            half * jnp.log1p(0.5 / half) - 0.5 + stirling_remainder(half + 0.5) - stirling_remainder(half)
        )
        y = (value - self.loc) / self.scale
        return gammas - 0.5 * LOG_2_PI - jnp.log(self.scale) - 0.5 * (df + 1) * jnp.log1p(y**2 / df)


@register("student-t-head")
class StudentT(Standardised):
    r"""Real numbers with outliers: independent :math:`t_\nu` with location, scale and :math:`\nu` from the state.

    The degrees of freedom :math:`\nu = 2 + 8 e^p` are above 2, so that mean and variance exist (below p = -17 in
    float32, -37 in float64, :math:`\nu` rounds to 2 and the variance is infinite); p = 0 gives 10, and a large p a
    normal distribution. `size`, `location`, `scale` and the encoding are those of `Gaussian`; `scale` multiplies the
    t's own scale, which is below its standard deviation.
    """

    def __init__(
        self,
        hidden_size: int,
        size: int | None,
        location: Any = None,
        scale: Any = None,
        *,
        key: PRNGKeyArray,
    ):
        self._set_units(size, location, scale)
        self._initialise(hidden_size, key)

    @property
    def parameter_count(self) -> int:
        """Locations, scales and degrees of freedom."""
        return 3 * self.encoded_size

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """Independent t-distributions with these standardised locations and scales, in the units of the data."""
        location, spread, tail = parameters.reshape(3, *self.event_shape)
        loc, scale = self.in_units(location, positive(spread))
        df = 2 + jnp.exp(tail + _LOG_EIGHT)
        return StudentTDistribution(df, loc, scale, validate_args=False).to_event(len(self.event_shape))
