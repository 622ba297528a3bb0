"""Real numbers with heavy tails."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import dtype_of, register
from hiddenstate.heads.head import Dispersion, checked_dispersion, locations_first
from hiddenstate.heads.stirling import LOG_2_PI, stirling_remainder
from hiddenstate.heads.units import Standardised, positive

_LOG_EIGHT = 2.0794415416798357


class StudentTDistribution(dist.StudentT):
    """numpyro's Student-t in its parameters' precision, exact also where many degrees of freedom make it normal."""

    def __init__(self, df: Any, loc: Any, scale: Any, *, validate_args: bool = False):
        self.df, self.loc, self.scale = jnp.broadcast_arrays(df, loc, scale)
        dist.Distribution.__init__(self, self.df.shape, validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*sample_shape, *batch_shape)."""
        standard = jr.t(key, self.df, sample_shape + self.batch_shape, dtype_of(self))
        return self.loc + self.scale * standard

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-density, with the two log-gammas written by Stirling's remainder."""
        df, loc, scale = self.df, self.loc, self.scale
        half = 0.5 * df
        # log Gamma(half + 1/2) - log Gamma(half) - 1/2 log half
        gammas = half * jnp.log1p(0.5 / half) - 0.5 + stirling_remainder(half + 0.5) - stirling_remainder(half)
        y = (value - loc) / scale
        return gammas - 0.5 * LOG_2_PI - jnp.log(scale) - 0.5 * (df + 1) * jnp.log1p(y**2 / df)


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
