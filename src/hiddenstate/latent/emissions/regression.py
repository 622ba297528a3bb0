"""What regressions have in common, whether on inputs or on past observations."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, Prior, Steps, dtype_of
from hiddenstate.distributions import NormalDistribution
from hiddenstate.distributions.stirling import LOG_2_PI
from hiddenstate.latent.emissions.emission import NOTHING, Emission, enough, replaced
from hiddenstate.latent.emissions.seeding import Seen, standardised
from hiddenstate.latent.emissions.triangles import least_share

_TRIES = 4
"""So many starts at random compete with the one by k-means."""


class Gram(NamedTuple):
    """Weights, and weighted sums of products of regressors and of deviations, for each state and column."""

    weight: Array
    regressors: Array
    cross: Array
    square: Array


class Regression(Emission):
    r"""Real numbers, normal around a linear function of regressors: :math:`x \sim N(b_k + W_k r, \sigma_k^2)`.

    Coefficients are kept as distances from the given ones, in units of the given standard deviations and of the
    regressors' own location and scale (which are 0 and 1 until `restart` has seen data).
    """

    offsets: Float[Array, "states column coefficient"]
    spread: Float[Array, "states column"]
    centres: Frozen
    scale: Frozen
    regressor_location: Frozen
    regressor_scale: Frozen
    scalar: bool = eqx.field(static=True)

    def _set(self, intercepts: np.ndarray, weights: np.ndarray, variances: np.ndarray, dtype: np.dtype) -> None:
        """Set all fields from checked (state, column), (state, column, regressor) and (state, column)."""
        centres = np.concatenate([intercepts[..., None], weights], axis=-1)
        unit = variances.mean(0)
        count = weights.shape[-1]
        self.offsets = jnp.zeros(centres.shape, dtype)
        self.spread = jnp.asarray(0.5 * np.log(variances / unit), dtype)
        self.centres, self.scale = Frozen(jnp.asarray(centres, dtype)), Frozen(jnp.asarray(np.sqrt(unit), dtype))
        self.regressor_location = Frozen(jnp.zeros(count, dtype))
        self.regressor_scale = Frozen(jnp.ones(count, dtype))

    @abstractmethod
    def regressors(self, u: Any, past: Any) -> Float[Array, " regressor"]:
        """What the mean is a linear function of."""

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.spread.shape[0]

    @property
    def columns(self) -> int:
        """The number of entries of an observation."""
        return self.spread.shape[1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number, or a vector."""
        return () if self.scalar else (self.columns,)

    @property
    def shared(self) -> tuple[str, ...]:
        """The units."""
        return ("scale", "regressor_location", "regressor_scale")

    @property
    def coefficients(self) -> Float[Array, "states column coefficient"]:
        """Intercepts and weights in the units of the data."""
        moved = self.scale.value[:, None] * self.offsets
        weights = moved[..., 1:] / self.regressor_scale.value
        intercepts = moved[..., :1] - (weights * self.regressor_location.value).sum(-1, keepdims=True)
        return self.centres.value + jnp.concatenate([intercepts, weights], axis=-1)

    @property
    def variances(self) -> Float[Array, "states *event"]:
        """The variance around the mean under each state."""
        return self._shown((self.scale.value * jnp.exp(self.spread)) ** 2)

    def _shown(self, table: Array) -> Array:
        return table[:, 0] if self.scalar else table

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """Normal distributions around the linear functions."""
        r = self.regressors(u, past)
        means = self._reference(r) + self.scale.value * _times(self.offsets, self._standardised(r))
        deviations = self.scale.value * jnp.exp(self.spread)
        made = NormalDistribution(self._shown(means), self._shown(deviations), validate_args=False)
        return made.to_event(len(self.event_shape))

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """The log-density under each state."""
        return self._each(x, self.regressors(u, past)).sum(-1)

    def _each(self, x: Any, r: Float[Array, " regressor"]) -> Float[Array, "states column"]:
        apart = self._apart(x, r) - _times(self.offsets, self._standardised(r))
        white = apart * jnp.exp(-self.spread)
        return -0.5 * white**2 - self.spread - jnp.log(self.scale.value) - 0.5 * LOG_2_PI

    def _reference(self, r: Float[Array, " regressor"]) -> Float[Array, "states column"]:
        """The given linear function."""
        return self.centres.value[..., 0] + _times(self.centres.value[..., 1:], r)

    def _apart(self, x: Any, r: Float[Array, " regressor"]) -> Float[Array, "states column"]:
        """How far an observation lies from the given linear function, in units."""
        return (jnp.asarray(x, self.spread.dtype) - self._reference(r)) / self.scale.value

    def _standardised(self, r: Float[Array, " regressor"]) -> Float[Array, " coefficient"]:
        moved = (r - self.regressor_location.value) / self.regressor_scale.value
        return jnp.concatenate([jnp.ones(1, moved.dtype), moved])

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Gram:
        """Gram matrices of the regressors and the deviations."""
        r = jax.vmap(self.regressors)(steps.inputs, pasts)
        regressors = jax.vmap(self._standardised)(r)
        apart = jax.vmap(self._apart)(jnp.asarray(steps.values, weights.dtype), r)
        if steps.observed is None:
            products = jnp.einsum("tk,ti,tj->kij", weights, regressors, regressors, precision="highest")
            products = jnp.broadcast_to(products[:, None], (*self.offsets.shape, self.offsets.shape[-1]))
        else:
            there = steps.observed.reshape(len(weights), 1, self.columns)
            apart = jnp.where(there, apart, 0)
            products = jnp.einsum(
                "tk,td,ti,tj->kdij",
                weights,
                there[:, 0].astype(weights.dtype),
                regressors,
                regressors,
                precision="highest",
            )
        cross = jnp.einsum("tk,tkd,ti->kdi", weights, apart, regressors, precision="highest")
        square = jnp.einsum("tk,tkd->kd", weights, apart**2, precision="highest")
        return Gram(products[..., 0, 0], products, cross, square)

    def maximise(self, statistics: Gram, prior: Prior = NOTHING) -> Any:
        """Weighted least squares, in the directions that the regressors show."""
        weight, products, cross, square = statistics
        some = enough(weight)
        missing = cross - jnp.einsum("kdij,kdj->kdi", products, self.offsets, precision="highest")
        offsets = self.offsets + solved(products, missing)
        half = jnp.einsum("kdij,kdj->kdi", products, offsets, precision="highest") - 2 * cross
        residual = (square + jnp.einsum("kdi,kdi->kd", offsets, half, precision="highest")) / jnp.where(some, weight, 1)
        floor = jnp.asarray(prior.variance_floor, weight.dtype) / self.scale.value**2
        variance = jnp.maximum(jnp.maximum(residual, least_share(weight.dtype)), floor)
        return replaced(
            self,
            offsets=jnp.where(some[..., None], offsets, self.offsets),
            spread=jnp.where(some, 0.5 * jnp.log(variance), self.spread),
        )

    def recentred(self) -> Any:
        """The same distributions, with deviations from their own means."""
        return replaced(self, centres=Frozen(self.coefficients), offsets=jnp.zeros_like(self.offsets))

    def in_units_of(self, other: Any) -> Any:
        """The same distributions in the units of the other."""
        made = self.recentred()
        return replaced(
            made,
            spread=made.spread + jnp.log(made.scale.value / other.scale.value),
            scale=other.scale,
            regressor_location=other.regressor_location,
            regressor_scale=other.regressor_scale,
        )

    # -- starting ------------------------------------------------------------------------------------------------

    def around(self, seen: Seen, random: np.random.Generator) -> Any:
        """The least squares of all rows, with coefficients moved at random."""
        table, r = seen.filled, self._rows(seen)
        location, spread = r.mean(0), r.std(0)
        spread = np.where(spread > 1e-12 * np.maximum(np.abs(location), 1e-300), spread, 1.0)
        design = np.concatenate([np.ones((len(r), 1)), (r - location) / spread], axis=1)
        solution = np.linalg.lstsq(design, table, rcond=None)[0].T
        residual = (table - design @ solution.T).var(0)
        residual = np.where(residual > 1e-9 * table.var(0), residual, 1e-9 * table.var(0))
        residual = np.where(residual > 0, residual, 1.0)
        shape = (self.states, *solution.shape)
        moved = solution + 0.5 * np.sqrt(table.var(0))[:, None] * random.normal(size=shape)
        weights = moved[..., 1:] / spread
        intercepts = moved[..., 0] - weights @ location
        dtype = dtype_of(self)
        made = replaced(
            self,
            offsets=jnp.zeros_like(self.offsets),
            spread=jnp.zeros_like(self.spread),
            centres=Frozen(jnp.asarray(np.concatenate([intercepts[..., None], weights], axis=-1), dtype)),
            scale=Frozen(jnp.asarray(np.sqrt(residual), dtype)),
            regressor_location=Frozen(jnp.asarray(location, dtype)),
            regressor_scale=Frozen(jnp.asarray(spread, dtype)),
        )
        return made

    def points(self, seen: Seen) -> np.ndarray:
        """Observations and regressors together."""
        return standardised(np.concatenate([seen.filled, self._rows(seen)], axis=1))

    def clustered(self, seen: Seen, labels: np.ndarray, random: np.random.Generator) -> Any:
        """The best of a few mixtures of regressions: one begun from the clusters, others at random."""
        dtype = dtype_of(self)
        steps, pasts = seen.steps(dtype), seen.lags(dtype)
        starts = [super().clustered(seen, labels, random), self]
        starts += [self.around(seen, random) for _ in range(_TRIES - 1)]
        tried = [_improved(start, steps, pasts, seen.floor) for start in starts]
        return max(tried, key=lambda each: float(each[1]))[0].recentred()

    def _rows(self, seen: Seen) -> np.ndarray:
        dtype = dtype_of(self)
        return np.asarray(jax.vmap(self.regressors)(seen.steps(dtype).inputs, seen.lags(dtype)), float)


def _times(coefficients: Float[Array, "*batch n"], r: Float[Array, " n"]) -> Float[Array, "*batch"]:
    return jnp.matmul(coefficients, r, precision="highest")


def solved(products: Float[Array, "*batch n n"], cross: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
    """The smallest solution of the normal equations: nothing in directions that the regressors do not show."""
    size = jnp.sqrt(jnp.diagonal(products, axis1=-2, axis2=-1))
    size = jnp.where(size > 0, size, 1)
    values, vectors = jnp.linalg.eigh(products / (size[..., :, None] * size[..., None, :]))
    shown = values > 32 * values.shape[-1] * jnp.finfo(values.dtype).eps
    along = jnp.einsum("...ji,...j->...i", vectors, cross / size, precision="highest")
    along = jnp.where(shown, along / jnp.where(shown, values, 1), 0)
    return jnp.einsum("...ij,...j->...i", vectors, along, precision="highest") / size


@eqx.filter_jit
def _improved(emission, steps, pasts, floor):
    """Some rounds of EM for a mixture of the states, and its log-probability."""
    prior = Prior(variance_floor=floor)
    arrays, static = eqx.partition(emission, eqx.is_array)

    def logs(current):
        if steps.observed is None:
            return jax.vmap(current.log_likelihoods)(steps.values, steps.inputs, pasts)
        return jax.vmap(current.partial_log_likelihoods)(steps.values, steps.inputs, steps.observed)

    def once(_, arrays):
        current = eqx.combine(arrays, static)
        weights = jax.nn.softmax(logs(current), axis=-1)
        return eqx.filter(current.maximise(current.statistics(weights, steps, pasts), prior), eqx.is_array)

    made = eqx.combine(jax.lax.fori_loop(0, 20, once, arrays), static)
    return made, jax.nn.logsumexp(logs(made), axis=-1).sum()
