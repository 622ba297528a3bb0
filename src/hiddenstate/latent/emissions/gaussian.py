"""Real numbers with light tails."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, HiddenStateError, Prior, Steps, register
from hiddenstate.distributions import MultivariateNormalDistribution, NormalDistribution
from hiddenstate.distributions.stirling import LOG_2_PI
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import NOTHING, PartialEmission, enough, replaced
from hiddenstate.latent.emissions.seeding import Seen
from hiddenstate.latent.emissions.triangles import (
    at_least,
    entries_of,
    factor_of,
    half_log_determinant,
    inverse_factor,
    least_share,
)
from hiddenstate.native import normal
from hiddenstate.native.streaming import StreamedEmission
from hiddenstate.ops.sums import sum_of_few

Kind = Literal["full", "diagonal", "spherical", "tied"]
KINDS = ("full", "diagonal", "spherical", "tied")


class Moments(NamedTuple):
    """Weights, and weighted sums of deviations and of their squares (or products), in the emission's units."""

    weight: Array
    first: Array
    second: Array


@register("gaussian-emission")
class Gaussian(PartialEmission):
    r"""Real numbers, normally distributed under each hidden state: :math:`x \sim N(\mu_k, \Sigma_k)`.

    `means` is (state,) where an observation is one number and (state, column) where it is a vector. `covariances` says
    by its shape what is free in the covariance of a vector, or `covariance` says it where K states meet K columns:

    - ``"full"``: (state, column, column);
    - ``"diagonal"``: variances (state, column);
    - ``"spherical"``: one variance a state, (state,);
    - ``"tied"``: one matrix (column, column) for all states.

    The covariances of single numbers are variances (state,), or one variance for all states (tied).

    Inside, means are kept as distances from the given ones and covariances as Cholesky factors, both in units of the
    given standard deviations. EM sums second moments around the given means; missing entries of an observation are
    represented by their expectation given those that were observed. No variance gets below what the precision can
    tell from zero.
    """

    offsets: Float[Array, "states column"]
    spread: Float[Array, "..."]
    centres: Frozen
    scale: Frozen
    scalar: bool = eqx.field(static=True)
    covariance: Kind = eqx.field(static=True)

    def __init__(self, means: Any, covariances: Any, covariance: Kind | None = None):
        dtype = checks.precision(means, covariances)
        centres, given = checks.numbers("means", means, 1, 2), checks.numbers("covariances", covariances)
        self.scalar = centres.ndim == 1
        self.covariance = _kind(centres, given, covariance)
        table = centres[:, None] if self.scalar else centres
        if self.scalar or not self._matrices:
            checks.positive("covariances", given, "variances")
        if self.scalar:
            given = given.reshape(-1, 1)
        if self.covariance in ("full", "tied"):
            given = checks.covariance_matrices("covariances", given, dtype)
            variances = np.diagonal(given, axis1=-2, axis2=-1).reshape(-1, table.shape[1])
            scale = np.sqrt(variances.mean(0))
            self.spread = entries_of(jnp.asarray(np.linalg.cholesky(given / np.outer(scale, scale)), dtype))
        else:
            shared = given.mean() if self.covariance == "spherical" else given.mean(0)
            scale = np.sqrt(np.broadcast_to(shared, table.shape[1:]))
            self.spread = jnp.asarray(0.5 * np.log(given / shared), dtype)
        self.offsets = jnp.zeros(table.shape, dtype)
        self.centres, self.scale = Frozen(jnp.asarray(table, dtype)), Frozen(jnp.asarray(scale, dtype))

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.offsets.shape[0]

    @property
    def columns(self) -> int:
        """The number of entries of an observation."""
        return self.offsets.shape[1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number, or a vector."""
        return () if self.scalar else (self.columns,)

    @property
    def means(self) -> Float[Array, "states *event"]:
        """The mean under each state."""
        means = self.centres.value + self.scale.value * self.offsets
        return means[:, 0] if self.scalar else means

    @property
    def covariances(self) -> Float[Array, "..."]:
        """The covariances, in the shape in which they were given."""
        scale = self.scale.value
        if self._matrices:
            factor = scale[:, None] * factor_of(self.spread, self.columns)
            covariances = factor @ jnp.swapaxes(factor, -2, -1)
        elif self.covariance == "spherical":
            covariances = scale[0] ** 2 * jnp.exp(2 * self.spread)
        else:
            covariances = scale**2 * jnp.exp(2 * self.spread)
        return covariances[..., 0] if self.scalar and not self._matrices else _plain(covariances, self.scalar)

    @property
    def options(self) -> dict[str, Any]:
        """The kind of covariance."""
        return {"covariance": self.covariance}

    @property
    def shared(self) -> tuple[str, ...]:
        """The units, and with tied covariances these."""
        return ("scale", "spread") if self.covariance == "tied" else ("scale",)

    @property
    def _matrices(self) -> bool:
        return self.covariance in ("full", "tied")

    @property
    def _deviations(self) -> Float[Array, "states column"]:
        """The logarithms of standard deviations in the emission's units, where entries are independent."""
        spread = self.spread[:, None] if self.covariance == "spherical" else self.spread
        return jnp.broadcast_to(spread, self.offsets.shape)

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """A normal distribution for each state."""
        scale = self.scale.value
        if self._matrices and not self.scalar:
            factor = scale[:, None] * factor_of(self.spread, self.columns)
            factor = jnp.broadcast_to(factor, (self.states, *factor.shape[-2:]))
            return MultivariateNormalDistribution(self.means, scale_tril=factor, validate_args=False)
        deviations = scale * jnp.exp(self._independent)
        if self.scalar:
            return NormalDistribution(self.means, deviations[:, 0], validate_args=False)
        return NormalDistribution(self.means, deviations, validate_args=False).to_event(1)

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """The log-density under each state: one product of the observation with the inverse factors of all."""
        if self._matrices:
            white, size = self._white(x), half_log_determinant(self.spread, self.columns)
        else:
            white = (self._apart(x) - self.offsets) * jnp.exp(-self._deviations)
            size = self._deviations.sum(-1)
        return -0.5 * sum_of_few(white**2) - size - self._units

    @property
    def _units(self) -> Float[Array, ""]:
        return jnp.log(self.scale.value).sum() + 0.5 * LOG_2_PI * self.columns

    def _white(self, x: Any) -> Float[Array, "states column"]:
        """Deviations from the means as independent standard normal numbers.

        Only one product depends on the observation, so that over many steps it is one large product of matrices. The
        mean of all centres is taken off first: what is lost then is no more than the observation has lost already.
        """
        middle = self.centres.value.mean(0)
        means = (self.centres.value - middle) / self.scale.value + self.offsets
        x = (jnp.asarray(x, means.dtype) - middle) / self.scale.value
        inverse = inverse_factor(self.spread, self.columns)
        if self.covariance == "tied":
            return jnp.matmul(x, inverse.T, precision="highest") - jnp.matmul(means, inverse.T, precision="highest")
        stacked = jnp.moveaxis(inverse, -1, 0).reshape(self.columns, -1)
        seen = jnp.matmul(x, stacked, precision="highest").reshape(self.offsets.shape)
        return seen - jnp.einsum("kij,kj->ki", inverse, means, precision="highest")

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Any) -> Float[Array, " states"]:
        """The log-density of the entries that were observed."""
        if self.scalar:
            return jnp.where(observed, self.log_likelihoods(x), 0.0)
        if self._matrices:
            return super().partial_log_likelihoods(jnp.asarray(x, self.offsets.dtype), u, observed)
        white = (self._apart(x) - self.offsets) * jnp.exp(-self._deviations)
        each = -0.5 * white**2 - self._deviations - jnp.log(self.scale.value) - 0.5 * LOG_2_PI
        return sum_of_few(jnp.where(observed, each, 0.0))

    @property
    def log_likelihoods_natively(self) -> Callable[..., Float[Array, "time states"]]:
        """The log-densities of all steps by a kernel, where entries are independent."""
        deviations, scale = self._independent, self.scale.value
        given = self.centres.value, scale * self.offsets, jnp.exp(-deviations) / scale
        constants = -deviations.sum(-1) - self._units
        return lambda steps: normal.log_densities(*given, constants, self._table(steps), steps.valid)

    @property
    def statistics_natively(self) -> Callable[..., "Moments"]:
        """The statistics of all steps by a kernel, where entries are independent."""
        centres, scale = self.centres.value, self.scale.value
        given = centres, jnp.zeros_like(centres), jnp.broadcast_to(1 / scale, self._independent.shape)

        def moments(weights: Float[Array, "time states"], steps: Steps) -> Moments:
            weight, first, second = normal.moments(*given, weights, self._table(steps), steps.valid)
            if self._matrices:
                return Moments(weight, first, second[..., None])
            return Moments(jnp.broadcast_to(weight[:, None], first.shape), first, second)

        return moments

    @property
    def _independent(self) -> Float[Array, "states column"]:
        """The logarithms of deviations where entries are independent: single numbers, and all but matrices."""
        if self._matrices and not self.scalar:
            raise AttributeError("a Gaussian emission with matrices has no kernel.")
        return jnp.broadcast_to(self.spread, (self.states, 1)) if self._matrices else self._deviations

    def _table(self, steps: Steps) -> Float[Array, "time column"]:
        return jnp.asarray(steps.values, self.offsets.dtype).reshape(steps.length, self.columns)

    def _apart(self, x: Any) -> Float[Array, "states column"]:
        """How far an observation lies from the centres, in units."""
        x = jnp.asarray(x, self.offsets.dtype)
        return (x - self.centres.value) / self.scale.value

    @property
    def streamed(self) -> StreamedEmission:
        """What a compiled stream takes of it."""
        deviations = self._independent
        at_mean = -deviations - jnp.log(self.scale.value) - 0.5 * LOG_2_PI
        arrays = self.centres.value.T, self.offsets.T, jnp.exp(-deviations).T, at_mean.T
        return StreamedEmission("normal", "real", self.event_shape, arrays, self.scale.value)

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Moments:
        """Moments around the centres, with the expectations of what is missing."""
        apart = jax.vmap(self._apart)(steps.values)
        observed = None if steps.observed is None else steps.observed.reshape(len(apart), self.columns)
        if not self._matrices:
            if observed is not None:
                apart = jnp.where(observed[:, None], apart, 0)
            there = jnp.ones_like(apart[:, 0]) if observed is None else observed.astype(weights.dtype)
            weight = jnp.einsum("tk,ti->ki", weights, there, precision="highest")
            first = jnp.einsum("tk,tki->ki", weights, apart, precision="highest")
            second = jnp.einsum("tk,tki->ki", weights, apart**2, precision="highest")
            return Moments(weight, first, second)
        rest = None
        if observed is not None:
            weights = jnp.where(observed.any(-1, keepdims=True), weights, 0)
            apart, rest = jax.vmap(self._completed)(apart, observed)
        weighted = weights[..., None] * apart
        second = jnp.einsum("tki,tkj->kij", weighted, apart, precision="highest")
        if rest is not None:
            second = second + jnp.einsum("tk,tkij->kij", weights, rest, precision="highest")
        return Moments(weights.sum(0), weighted.sum(0), second)

    def _completed(self, apart: Array, observed: Array) -> tuple[Array, Array]:
        """Expected deviations given the observed ones, and the covariance of those that are missing."""
        n = self.columns
        factor = factor_of(self.spread, n)
        covariance = jnp.broadcast_to(factor @ jnp.swapaxes(factor, -2, -1), (self.states, n, n))
        seen = jnp.where(observed[:, None] & observed, covariance, jnp.eye(n, dtype=covariance.dtype))
        across = jnp.where(~observed[:, None] & observed, covariance, 0)
        gain = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(seen), True), jnp.swapaxes(across, -2, -1))
        gain = jnp.swapaxes(gain, -2, -1)
        deviation = jnp.where(observed, apart - self.offsets, 0)
        guess = self.offsets + jnp.einsum("kij,kj->ki", gain, deviation, precision="highest")
        rest = jnp.where(~observed[:, None] & ~observed, covariance - gain @ jnp.swapaxes(across, -2, -1), 0)
        return jnp.where(observed, apart, guess), rest

    def maximise(self, statistics: Moments, prior: Prior = NOTHING) -> "Gaussian":
        """Weighted means and covariances, the latter not below the floor."""
        weight, first, second = statistics
        some = enough(weight)
        safe = jnp.where(some, weight, 1)
        scale, least = self.scale.value, least_share(weight.dtype)
        floor = jnp.asarray(prior.variance_floor, weight.dtype)
        if not self._matrices:
            means = first / safe
            offsets = jnp.where(some, means, self.offsets)
            square = jnp.where(some, second - first * means, 0)
            if self.covariance == "spherical":
                sums = weight.sum(-1)
                variance = square.sum(-1) / jnp.where(sums > 0, sums, 1)
                variance = jnp.maximum(jnp.maximum(variance, least), floor / scale[0] ** 2)
                spread = jnp.where(enough(sums), 0.5 * jnp.log(variance), self.spread)
            else:
                variance = jnp.maximum(jnp.maximum(square / safe, least), floor / scale**2)
                spread = jnp.where(some, 0.5 * jnp.log(variance), self.spread)
            return replaced(self, offsets=offsets, spread=spread)
        means = first / safe[:, None]
        offsets = jnp.where(some[:, None], means, self.offsets)
        square = second - first[:, :, None] * means[:, None, :]
        if self.covariance == "tied":
            whole = jnp.where(some, weight, 0).sum()
            covariance = jnp.where(some[:, None, None], square, 0).sum(0) / jnp.where(whole > 0, whole, 1)
            found = whole > 0
        else:
            covariance, found = square / safe[:, None, None], some[:, None]
            covariance = jnp.where(found[..., None], covariance, jnp.eye(self.columns, dtype=weight.dtype))
        covariance = at_least((covariance + jnp.swapaxes(covariance, -2, -1)) / 2, least)
        units = scale[:, None] * scale
        covariance = at_least(covariance * units, floor) / units
        spread = jnp.where(found, entries_of(jnp.linalg.cholesky(covariance)), self.spread)
        return replaced(self, offsets=offsets, spread=spread)

    def recentred(self) -> "Gaussian":
        """The same distributions, with moments summed around the means."""
        centres = self.centres.value + self.scale.value * self.offsets
        return replaced(self, centres=Frozen(centres), offsets=jnp.zeros_like(self.offsets))

    def in_units_of(self, other: Any) -> "Gaussian":
        """The same distributions in the units of the other."""
        ratio = self.scale.value / other.scale.value
        if self._matrices:
            spread = entries_of(ratio[:, None] * factor_of(self.spread, self.columns))
        else:
            spread = self.spread + jnp.log(ratio[0] if self.covariance == "spherical" else ratio)
        return replaced(self, offsets=ratio * self.offsets, spread=spread, scale=other.scale)

    def around(self, seen: Seen, random: np.random.Generator) -> "Gaussian":
        """Means at random rows, covariances of all rows."""
        table = seen.filled
        _, variances = seen.column_moments()
        means = seen.drawn(self.states, random)
        if self._matrices:
            matrix = overall_covariance(table, variances)
            given = matrix if self.covariance == "tied" else np.broadcast_to(matrix, (self.states, *matrix.shape))
            given = _plain(given, self.scalar)
        elif self.covariance == "spherical":
            given = np.full(self.states, variances.mean())
        else:
            given = np.broadcast_to(variances, means.shape)
            given = given[:, 0] if self.scalar else given
        return self.rebuilt({"means": means[:, 0] if self.scalar else means, "covariances": given})


def overall_covariance(table: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """The covariance of all rows, drawn a little to its diagonal so that it is positive definite."""
    deviations = np.sqrt(variances)
    apart = (table - table.mean(0)) / deviations
    correlation = 0.99 * apart.T @ apart / len(table)
    np.fill_diagonal(correlation, 1.0)
    return deviations[:, None] * correlation * deviations


def _plain(matrix: Any, scalar: bool) -> Any:
    return matrix[..., 0, 0] if scalar else matrix


def _kind(means: np.ndarray, given: np.ndarray, asked: str | None) -> Kind:
    """What is free in the covariances, by their shape."""
    if asked is not None and asked not in KINDS:
        raise HiddenStateError(f"covariance is {asked!r}; it must be one of {', '.join(map(repr, KINDS))}.")
    if means.ndim == 1:
        return _scalar_kind(means, given, asked)
    states, columns = means.shape
    shapes = {
        "full": (states, columns, columns),
        "diagonal": (states, columns),
        "spherical": (states,),
        "tied": (columns, columns),
    }
    if asked is not None:
        if given.shape != shapes[asked]:
            raise HiddenStateError(
                f"covariances has shape {given.shape}; with means of shape {means.shape} and covariance={asked!r} it "
                f"must be {shapes[asked]}."
            )
        return asked  # pyright: ignore[reportReturnType]
    fitting = [kind for kind, shape in shapes.items() if shape == given.shape]
    if not fitting:
        due = ", ".join(f"{shape} ({kind})" for kind, shape in shapes.items())
        raise HiddenStateError(
            f"covariances has shape {given.shape}; with means of shape {means.shape} it must be one of {due}."
        )
    if len(fitting) > 1:
        raise HiddenStateError(
            f"covariances of shape {given.shape} for {states} states and {columns} columns can be diagonal or tied; "
            "say which by covariance='diagonal' or covariance='tied'."
        )
    return fitting[0]  # pyright: ignore[reportReturnType]


def _scalar_kind(means: np.ndarray, given: np.ndarray, asked: str | None) -> Kind:
    shape = () if asked == "tied" else means.shape
    if asked is None and given.shape == ():
        return "tied"
    if given.shape != shape:
        raise HiddenStateError(
            f"covariances has shape {given.shape}; with means of shape {means.shape}, those of single numbers, it must "
            f"be {shape}: {'one variance' if asked == 'tied' else 'a variance for each state'}."
        )
    return "tied" if asked == "tied" else "diagonal"
