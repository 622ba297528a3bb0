"""Student-t distributions."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpyro.distributions as dist

from hiddenstate._types import Array
from hiddenstate.core import dtype_of
from hiddenstate.distributions.stirling import LOG_2_PI, stirling_remainder


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
