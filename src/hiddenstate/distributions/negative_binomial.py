"""Negative binomial distributions."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpyro.distributions as dist
from numpyro.distributions import constraints

from hiddenstate._types import Array
from hiddenstate.core import dtype_of
from hiddenstate.distributions.poisson import log_stirling_factor
from hiddenstate.distributions.stirling import stirling_remainder


class NegativeBinomialDistribution(dist.Distribution):
    r"""A Poisson distribution of gamma distributed rate, given by the logarithms of mean and concentration.

    The variance is :math:`\mu + \mu^2 / r`. It is numpyro's `NegativeBinomial2`, but in the precision of its
    parameters and exact also where a large concentration :math:`r` makes it a Poisson distribution.
    """

    arg_constraints = {"log_mean": constraints.real, "log_concentration": constraints.real}  # noqa: RUF012
    support = constraints.nonnegative_integer  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, log_mean: Any, log_concentration: Any, *, validate_args: bool = False):
        shape = jax.lax.broadcast_shapes(jnp.shape(log_mean), jnp.shape(log_concentration))
        self.log_mean = jnp.broadcast_to(log_mean, shape)
        self.log_concentration = jnp.broadcast_to(log_concentration, shape)
        super().__init__(shape, validate_args=validate_args)

    @property
    def concentration(self) -> Array:
        """The shape of the gamma distribution of rates."""
        return jnp.exp(self.log_concentration)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Counts of shape (*sample_shape, *batch_shape)."""
        rate_key, count_key = jr.split(key)
        shape = sample_shape + self.batch_shape
        gamma = jr.gamma(rate_key, self.concentration, shape, dtype=dtype_of(self))
        return jr.poisson(count_key, gamma * jnp.exp(self.log_mean - self.log_concentration), shape)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-probability of each count.

        With mean = k e^d and Stirling's remainder s, the log-gammas and the powers of r / (r + mean) come to

            r log((r + k) / (r + mean)) + k log(mean (r + k) / k (r + mean))
            - 1/2 log(1 + k / r) + s(k + r) - s(r) - (log k! - k log k + k)

        where no term is much larger than the sum, and which tends to the Poisson log-probability as r grows.
        """
        k = jnp.asarray(value, self.log_mean.dtype)
        mean, r = self.mean, self.concentration
        positive = k > 0
        n = jnp.where(positive, k, 1.0)
        d = self.log_mean - jnp.log(n)
        excess = jnp.where(positive, n * jnp.expm1(d), mean)
        # Both logarithms from the side where the argument of log1p is above 0. Where k equals the mean,
        # maximum shares its gradient between the sides, and the sum is right.
        below = jnp.log1p(jnp.maximum(-excess, 0) / (r + mean)) - jnp.log1p(jnp.maximum(excess, 0) / (r + k))
        above = jnp.log1p(jnp.maximum(jnp.expm1(d), 0) * (r / (r + mean)))
        above = above - jnp.log1p(jnp.maximum(jnp.expm1(-d), 0) * (r / (r + n)))
        spread = stirling_remainder(k + r) - stirling_remainder(r) - 0.5 * jnp.log1p(k / r)
        return r * below + spread + jnp.where(positive, n * above - log_stirling_factor(n), 0.0)

    @property
    def mean(self) -> Array:
        """The mean."""
        return jnp.exp(self.log_mean)

    @property
    def variance(self) -> Array:
        """The mean plus its square over the concentration."""
        return self.mean * (1 + jnp.exp(self.log_mean - self.log_concentration))
