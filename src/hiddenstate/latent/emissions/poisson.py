"""Counts."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Prior, Steps, register
from hiddenstate.distributions import PoissonDistribution
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import (
    NOTHING,
    PartialEmission,
    enough,
    entry_weights,
    known,
    replaced,
    total,
)
from hiddenstate.latent.emissions.seeding import Seen, standardised
from hiddenstate.latent.zeros import floored_log, logs_of
from hiddenstate.native.streaming import StreamedEmission


class Counts(NamedTuple):
    """The weight of each state, and the sum of counts that it weighs, at each entry."""

    weight: Array
    events: Array


@register("poisson-emission")
class Poisson(PartialEmission):
    """Counts that are independent given the hidden state, with mean counts `rates`.

    `rates` is (state,) where an observation is one count, (state, entry) where it is a vector of counts. A rate that
    is given as 0 (nothing ever happens) stays 0 in learning.
    """

    log_rates: Float[Array, "states *event"]
    possible: Shaped[Array, "states *event"]

    def __init__(self, rates: Any):
        array = checks.numbers("rates", rates, 1, 2)
        checks.refuse(array < 0, "rates", array, "rates are at least 0")
        self.log_rates, self.possible = logs_of(array, checks.precision(rates))

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.log_rates.shape[0]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One count, or a vector of counts."""
        return self.log_rates.shape[1:]

    @property
    def rates(self) -> Float[Array, "states *event"]:
        """The mean counts under each state."""
        return jnp.where(self.possible, jnp.exp(self.log_rates), 0)

    @property
    def free_parameters(self) -> int:
        """One a rate that is not zero."""
        return int(np.asarray(self.possible).sum())

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """Independent Poisson distributions for each state."""
        logs = jnp.where(self.possible, self.log_rates, -jnp.inf)
        return PoissonDistribution(logs).to_event(len(self.event_shape))

    @property
    def streamed(self) -> StreamedEmission:
        """What a compiled stream takes of it."""
        logs = jnp.where(self.possible, self.log_rates, -jnp.inf).reshape(self.states, -1).T
        return StreamedEmission("poisson", "count", self.event_shape, (logs, jnp.exp(logs)))

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Counts:
        """Weights and weighted counts."""
        return Counts(entry_weights(weights, steps), total(weights, known(steps, weights.dtype)))

    def maximise(self, statistics: Counts, prior: Prior = NOTHING) -> "Poisson":
        """The mean counts."""
        some = enough(statistics.weight)
        logs = floored_log(statistics.events / jnp.where(some, statistics.weight, 1))
        logs = jnp.where(some, logs, self.log_rates)
        return replaced(self, log_rates=jnp.where(self.possible, logs, 0))

    def around(self, seen: Seen, random: np.random.Generator) -> "Poisson":
        """The mean counts, times random numbers."""
        rates = mean_counts(seen) * np.exp(0.5 * random.normal(size=(self.states, seen.filled.shape[1])))
        return self.rebuilt({"rates": rates.reshape(self.log_rates.shape) * np.asarray(self.possible)})

    def points(self, seen: Seen) -> np.ndarray:
        """Logarithms of the counts and one."""
        return count_points(seen)


def mean_counts(seen: Seen) -> np.ndarray:
    """The mean of each column; where all counts are 0, that of half an event."""
    return np.maximum(seen.filled.mean(0), 0.5 / len(seen))


def count_points(seen: Seen) -> np.ndarray:
    """Counts as points for k-means: what matters is their ratio."""
    return standardised(np.log1p(seen.filled))
