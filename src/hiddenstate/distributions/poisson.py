"""Poisson distributions."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpyro.distributions as dist
from numpyro.distributions import constraints

from hiddenstate._types import Array, Float
from hiddenstate.distributions.stirling import LOG_2_PI, stirling_remainder


class PoissonDistribution(dist.Distribution):
    """A Poisson distribution given by the logarithm of its rate, in that number's precision.

    numpyro's computes in JAX's default float and loses rates that underflow; its log-probability is the
    difference of numbers as large as the count times its logarithm.
    """

    arg_constraints = {"log_rate": constraints.real}  # noqa: RUF012
    support = constraints.nonnegative_integer  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, log_rate: Any, *, validate_args: bool = False):
        self.log_rate = log_rate
        super().__init__(jnp.shape(log_rate), validate_args=validate_args)

    @property
    def rate(self) -> Array:
        """The rate."""
        return jnp.exp(self.log_rate)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Counts of shape (*sample_shape, *batch_shape)."""
        return jr.poisson(key, self.rate, sample_shape + self.batch_shape)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-probability of each count."""
        k = jnp.asarray(value, self.log_rate.dtype)
        positive = k > 0
        n = jnp.where(positive, k, 1.0)
        # k log rate - rate - log k! with rate = k e^d, so that k log k and log k! cancel on paper
        d = self.log_rate - jnp.log(n)
        return jnp.where(positive, n * (d - jnp.expm1(d)) - log_stirling_factor(n), -self.rate)

    @property
    def mean(self) -> Array:
        """The rate."""
        return self.rate

    @property
    def variance(self) -> Array:
        """The rate."""
        return self.rate


def log_stirling_factor(k: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log k! - k log k + k for k > 0."""
    return stirling_remainder(k) + 0.5 * (LOG_2_PI + jnp.log(k))
