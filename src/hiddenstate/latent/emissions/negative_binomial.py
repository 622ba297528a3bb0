"""Counts that vary more than Poisson counts."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import digamma

from hiddenstate._types import Array, Float
from hiddenstate.core import Prior, Steps, register
from hiddenstate.distributions import NegativeBinomialDistribution
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
from hiddenstate.latent.emissions.gammas import gamma_shape
from hiddenstate.latent.emissions.poisson import count_points, mean_counts
from hiddenstate.latent.emissions.seeding import Seen
from hiddenstate.latent.zeros import floored_log

_LEAST = 1e-4


class Rates(NamedTuple):
    """Weights, counts, and the expected rates behind the counts and their logarithms."""

    weight: Array
    events: Array
    rate: Array
    log_rate: Array


@register("negative-binomial-emission")
class NegativeBinomial(PartialEmission):
    r"""Counts of variance :math:`\mu + \mu^2 / r`, independent given the hidden state.

    `means` :math:`\mu` and `concentrations` :math:`r` are (state,) where an observation is one count, (state, entry)
    where it is a vector of counts. A large concentration makes them Poisson counts.

    EM takes a count for a Poisson one whose rate is gamma distributed: the expected rates and their logarithms
    determine the concentration; the mean is that of the counts. Concentrations stay between 1e-4 and 1e6.
    """

    log_means: Float[Array, "states *event"]
    log_concentrations: Float[Array, "states *event"]

    rounds: ClassVar[int] = 10

    def __init__(self, means: Any, concentrations: Any):
        dtype = checks.precision(means, concentrations)
        mean = checks.positive("means", checks.numbers("means", means, 1, 2), "means of counts")
        concentration = checks.numbers("concentrations", concentrations, 1, 2)
        checks.same_states("means", len(mean), "concentrations", concentration)
        checks.shaped("concentrations", concentration, mean.shape, "as means has")
        checks.positive("concentrations", concentration, "concentrations")
        self.log_means = jnp.asarray(np.log(mean), dtype)
        self.log_concentrations = jnp.asarray(np.log(concentration), dtype)

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.log_means.shape[0]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One count, or a vector of counts."""
        return self.log_means.shape[1:]

    @property
    def means(self) -> Float[Array, "states *event"]:
        """The mean counts under each state."""
        return jnp.exp(self.log_means)

    @property
    def concentrations(self) -> Float[Array, "states *event"]:
        """The concentrations under each state."""
        return jnp.exp(self.log_concentrations)

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """Independent negative binomial distributions for each state."""
        made = NegativeBinomialDistribution(self.log_means, self.log_concentrations)
        return made.to_event(len(self.event_shape))

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Rates:
        """Weighted counts, and the posterior expectations of gamma distributed rates."""
        x = known(steps, weights.dtype)
        shape = self.concentrations + x[:, None]
        log_inverse = jnp.log1p(jnp.exp(self.log_concentrations - self.log_means))
        log_rates = digamma(shape) - log_inverse
        rates = shape * jnp.exp(-log_inverse)
        if steps.observed is not None:
            rates, log_rates = (jnp.where(steps.observed[:, None], part, 0) for part in (rates, log_rates))
        return Rates(
            entry_weights(weights, steps),
            total(weights, x),
            jnp.einsum("tk,tk...->k...", weights, rates, precision="highest"),
            jnp.einsum("tk,tk...->k...", weights, log_rates, precision="highest"),
        )

    def maximise(self, statistics: Rates, prior: Prior = NOTHING) -> "NegativeBinomial":
        """The mean counts, and the concentrations of the expected rates."""
        weight, events, rate, log_rate = statistics
        some = enough(weight)
        safe = jnp.where(some, weight, 1)
        excess = floored_log(rate / safe) - log_rate / safe
        concentrations = gamma_shape(jnp.where(some, excess, 1), _LEAST, 1e6)
        return replaced(
            self,
            log_means=jnp.where(some, floored_log(events / safe), self.log_means),
            log_concentrations=jnp.where(some, jnp.log(concentrations), self.log_concentrations),
        )

    def around(self, seen: Seen, random: np.random.Generator) -> "NegativeBinomial":
        """The mean counts times random numbers, and concentrations that give the variances of the counts."""
        average = mean_counts(seen)
        _, variances = seen.column_moments()
        concentration = np.clip(average**2 / np.maximum(variances - average, 1e-9), 0.1, 100.0)
        shape = (self.states, average.size)
        means = average * np.exp(0.5 * random.normal(size=shape))
        both = {"means": means, "concentrations": np.broadcast_to(concentration, shape)}
        return self.rebuilt({name: value.reshape(self.log_means.shape) for name, value in both.items()})

    def points(self, seen: Seen) -> np.ndarray:
        """Logarithms of the counts and one."""
        return count_points(seen)
