"""Real numbers with heavy tails."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import digamma

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, Prior, Steps, register
from hiddenstate.distributions import StudentTDistribution
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import NOTHING, PartialEmission, enough, entry_weights, replaced
from hiddenstate.latent.emissions.gammas import gamma_shape
from hiddenstate.latent.emissions.seeding import Seen
from hiddenstate.latent.emissions.triangles import least_share
from hiddenstate.latent.zeros import floored_log

_FEWEST, _MOST = 2.01, 1e4
_EIGHT = 8.0
"""Degrees of freedom are kept as log((degrees - 2) / 8), so that 0 means 10 of them."""


class Precisions(NamedTuple):
    """Weights; expected precisions and their logarithms; deviations and their squares, weighted by precisions too."""

    weight: Array
    precision: Array
    log_precision: Array
    first: Array
    second: Array


@register("student-t-emission")
class StudentT(PartialEmission):
    r"""Real numbers with outliers: independent :math:`t_\nu` with location and scale given the hidden state.

    `locations`, `scales` and `degrees` (of freedom) are (state,) where an observation is one number, (state, column)
    where it is a vector; `degrees` may also be one number a state. Degrees are above 2, so that mean and variance
    exist, and EM keeps them between 2.01 and 10,000.

    EM takes an observation for a normal one of gamma distributed precision, and lets the precisions have any mean
    (PX-EM: Liu, Rubin and Wu 1998), which makes it faster.
    """

    offsets: Float[Array, "states *event"]
    log_scales: Float[Array, "states *event"]
    log_degrees: Float[Array, "states *event"]
    centres: Frozen
    scale: Frozen

    rounds: ClassVar[int] = 20

    def __init__(self, locations: Any, scales: Any, degrees: Any):
        dtype = checks.precision(locations, scales, degrees)
        centres = checks.numbers("locations", locations, 1, 2)
        given = checks.numbers("scales", scales, 1, 2)
        checks.same_states("locations", len(centres), "scales", given)
        checks.positive("scales", checks.shaped("scales", given, centres.shape, "as locations has"), "scales")
        freedom = checks.numbers("degrees", degrees, 1, 2)
        checks.same_states("locations", len(centres), "degrees", freedom)
        if freedom.shape == centres.shape[:1]:
            freedom = np.broadcast_to(freedom.reshape(-1, *(1 for _ in centres.shape[1:])), centres.shape)
        checks.shaped("degrees", freedom, centres.shape, f"as locations has, or {centres.shape[:1]}")
        checks.refuse(freedom <= 2, "degrees", freedom, "degrees of freedom must be above 2 for a variance to exist")
        unit = np.exp(np.log(given).mean(0))
        self.offsets = jnp.zeros(centres.shape, dtype)
        self.log_scales = jnp.asarray(np.log(given / unit), dtype)
        self.log_degrees = jnp.asarray(np.log((freedom - 2) / _EIGHT), dtype)
        self.centres, self.scale = Frozen(jnp.asarray(centres, dtype)), Frozen(jnp.asarray(unit, dtype))

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.offsets.shape[0]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number, or a vector."""
        return self.offsets.shape[1:]

    @property
    def locations(self) -> Float[Array, "states *event"]:
        """The location under each state."""
        return self.centres.value + self.scale.value * self.offsets

    @property
    def scales(self) -> Float[Array, "states *event"]:
        """The scale under each state, which is below the standard deviation."""
        return self.scale.value * jnp.exp(self.log_scales)

    @property
    def degrees(self) -> Float[Array, "states *event"]:
        """The degrees of freedom under each state."""
        return 2 + _EIGHT * jnp.exp(self.log_degrees)

    @property
    def shared(self) -> tuple[str, ...]:
        """The units."""
        return ("scale",)

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """Independent t-distributions for each state."""
        return StudentTDistribution(self.degrees, self.locations, self.scales).to_event(len(self.event_shape))

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Precisions:
        """Posterior expectations of gamma distributed precisions, and moments around the centres."""
        values = jnp.asarray(steps.values, weights.dtype)
        apart = jax.vmap(lambda x: (x - self.centres.value) / self.scale.value)(values)
        degrees = self.degrees
        size = degrees + ((apart - self.offsets) * jnp.exp(-self.log_scales)) ** 2
        precision = (degrees + 1) / size
        log_precision = digamma((degrees + 1) / 2) - jnp.log(size / 2)
        parts = precision, log_precision, precision * apart, precision * apart**2
        if steps.observed is not None:
            parts = tuple(jnp.where(steps.observed[:, None], part, 0) for part in parts)
        summed = (jnp.einsum("tk,tk...->k...", weights, part, precision="highest") for part in parts)
        return Precisions(entry_weights(weights, steps), *summed)

    def maximise(self, statistics: Precisions, prior: Prior = NOTHING) -> "StudentT":
        """Moments that are weighted by the precisions, and the degrees that fit these."""
        weight, precision, log_precision, first, second = statistics
        some = enough(weight)
        safe, by = jnp.where(some, weight, 1), jnp.where(some, precision, 1)
        offsets = first / by
        variance = jnp.where(some, second - first * offsets, 1) / by
        floor = jnp.asarray(prior.variance_floor, weight.dtype) / self.scale.value**2
        variance = jnp.maximum(jnp.maximum(variance, least_share(weight.dtype)), floor)
        excess = floored_log(by / safe) - log_precision / safe
        degrees = 2 * gamma_shape(jnp.where(some, excess, 1), _FEWEST / 2, _MOST / 2)
        return replaced(
            self,
            offsets=jnp.where(some, offsets, self.offsets),
            log_scales=jnp.where(some, 0.5 * jnp.log(variance), self.log_scales),
            log_degrees=jnp.where(some, jnp.log((degrees - 2) / _EIGHT), self.log_degrees),
        )

    def recentred(self) -> "StudentT":
        """The same distributions, with moments summed around the locations."""
        return replaced(self, centres=Frozen(self.locations), offsets=jnp.zeros_like(self.offsets))

    def in_units_of(self, other: Any) -> "StudentT":
        """The same distributions in the units of the other."""
        ratio = self.scale.value / other.scale.value
        log_scales = self.log_scales + jnp.log(ratio)
        return replaced(self, offsets=ratio * self.offsets, log_scales=log_scales, scale=other.scale)

    def around(self, seen: Seen, random: np.random.Generator) -> "StudentT":
        """Locations at random rows, scales of all rows, ten degrees of freedom."""
        _, variances = seen.column_moments()
        rows = seen.drawn(self.states, random)
        both = {"locations": rows, "scales": np.broadcast_to(np.sqrt(0.8 * variances), rows.shape)}
        both["degrees"] = np.full(rows.shape, 10.0)
        return self.rebuilt({name: value.reshape(self.offsets.shape) for name, value in both.items()})
