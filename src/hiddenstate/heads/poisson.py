"""Counts whose variance is their mean."""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import register
from hiddenstate.distributions import PoissonDistribution
from hiddenstate.heads.units import Counted
from hiddenstate.native.streaming import StreamedHead


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

    @property
    def streamed(self) -> StreamedHead:
        """What a compiled stream takes of it."""
        rate = self.rate.value
        units: Any = {"shift": jnp.log1p(rate), "spread": self.spread.value, "location": jnp.log(rate)}
        return StreamedHead("poisson", "count", self.event_shape, *self.whole_linear, reading="count", **units)

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """Independent Poisson distributions."""
        log_rate = self.log_rate(parameters.reshape(self.event_shape))
        return PoissonDistribution(log_rate).to_event(len(self.event_shape))
