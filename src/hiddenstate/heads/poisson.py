"""Counts whose variance is their mean."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpyro.distributions as dist
from numpyro.distributions import constraints

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import register
from hiddenstate.heads.stirling import LOG_2_PI, stirling_remainder
from hiddenstate.heads.units import Counted


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


@register("poisson-head")
class Poisson(Counted):
    r"""Counts: independent Poisson distributions of rate :math:`r \exp(W h + b)`.

    `size` is the length of an observation, or None where it is a single count. :math:`r` = `rate` is a fixed
    base (say, the mean of the data; 1 by default). Encoded as :math:`(\log(1 + x) - \log(1 + r)) / s` with
    the fixed `spread` :math:`s` (say, the standard deviation of :math:`\log(1 + x)`; 1 by default). In
    float32, counts above 2^24 are rounded.
    """

    def __init__(self, hidden_size: int, size: int | None, rate: Any = None, spread: Any = None, *, key: PRNGKeyArray):
        self._set_units(size, rate, spread)
        self._initialise(hidden_size, key)

    @property
    def parameter_count(self) -> int:
        """One a count."""
        return self.encoded_size

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """Independent Poisson distributions."""
        log_rate = self.log_rate(parameters.reshape(self.event_shape))
        return PoissonDistribution(log_rate).to_event(len(self.event_shape))
