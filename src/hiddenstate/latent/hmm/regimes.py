"""Autoregressions whose level follows a hidden regime: what the observations of Hamilton's model are drawn from."""

from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Frozen, HiddenStateError, Prior, Steps, dtype_of, register
from hiddenstate.distributions import NormalDistribution
from hiddenstate.distributions.stirling import LOG_2_PI
from hiddenstate.latent import checks
from hiddenstate.latent.emissions import Emission
from hiddenstate.latent.emissions.emission import NOTHING, enough, replaced
from hiddenstate.latent.emissions.regression import solved
from hiddenstate.latent.emissions.seeding import Seen
from hiddenstate.latent.emissions.triangles import least_share

Form = Literal["mean", "intercept"]

MOST_TUPLES = 2**20
"""More tuples of regimes than this are refused."""

_ROUNDS = 5
"""So many times the maximisation step goes round its blocks of parameters."""


class TupleMoments(NamedTuple):
    """For each tuple of regimes, weighted sums of products of 1, x_t, x_{t-1} .. x_{t-L}, in the emission's units."""

    products: Float[Array, "tuple moment moment"]


@register("regime-autoregression")
class RegimeAutoregression(Emission):
    r"""Real numbers that return to a level which their hidden regime sets.

    .. math::

        x_t - \mu_{z_t} = \sum_{j=1}^L \phi_j\,(x_{t-j} - \mu_{z_{t-j}}) + \sigma e_t
        \qquad\text{or}\qquad
        x_t = \mu_{z_t} + \sum_{j=1}^L \phi_j\,x_{t-j} + \sigma e_t

    with ``form="mean"`` or ``form="intercept"``; shapes and options are those of `Hamilton`. In the first form the
    distribution depends on the last L + 1 regimes: likelihoods, and the weights of `statistics`, are of tuples,
    numbered as in `Tuples`. What stands before the first observation is not a number, and while any of the last L
    observations is none, the next is drawn from a normal distribution of its own, whatever the regime.

    Numbers are kept in units: distances from the mean of the first observations, over the given standard deviation.
    """

    offsets: Float[Array, " states"]
    slopes: Float[Array, "..."]
    spread: Float[Array, "..."]
    scale: Frozen
    first: Frozen
    form: Form = eqx.field(static=True)

    def __init__(self, means: Any, coefficients: Any, variances: Any, form: Form = "mean", start: Any = None):
        if form not in get_args(Form):
            raise HiddenStateError(f"form is {form!r}; it must be 'mean' or 'intercept'.")
        dtype = checks.precision(means, coefficients, variances)
        levels = checks.numbers("means", means, 1)
        slopes = checks.numbers("coefficients", coefficients, 1, 2)
        given = checks.positive("variances", checks.numbers("variances", variances, 0, 1), "variances")
        for name, array in (("coefficients", slopes if slopes.ndim == 2 else None), ("variances", given)):
            if array is not None and array.ndim:
                checks.same_states("means", len(levels), name, array)
        check_tuples(len(levels), slopes.shape[-1] if form == "mean" else 0)
        begin = (levels.mean(), given.mean() + levels.var()) if start is None else start
        first = checks.shaped("start", checks.numbers("start", begin), (2,), "a mean and a variance")
        checks.refuse(np.array([False, first[1] <= 0]), "start", first, "a variance must be above 0")
        unit = np.sqrt(given.mean())
        self.form = form
        self.first, self.scale = Frozen(jnp.asarray(first, dtype)), Frozen(jnp.asarray(unit, dtype))
        self.slopes = jnp.asarray(slopes, dtype)
        self.spread = jnp.asarray(0.5 * np.log(given / unit**2), dtype)
        self.offsets = jnp.asarray((levels - first[0] * self._pull(slopes)) / unit, dtype)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def states(self) -> int:
        """The number of regimes."""
        return self.offsets.shape[0]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number."""
        return ()

    @property
    def lags(self) -> int:
        """How many past observations the mean depends on."""
        return self.slopes.shape[-1]

    @property
    def history(self) -> int:
        """How many past observations the mean depends on."""
        return self.lags

    @property
    def memory(self) -> int:
        """How many past regimes the mean depends on."""
        return self.lags if self.form == "mean" else 0

    @property
    def start_values(self) -> Float[Array, " lag"]:
        """What stands before the first observation: nothing, which is not a number."""
        return jnp.full(self.lags, jnp.nan, self.offsets.dtype)

    @property
    def shared(self) -> tuple[str, ...]:
        """The units, and what does not switch."""
        slopes = ("slopes",) if self.slopes.ndim == 1 else ()
        spread = ("spread",) if self.spread.ndim == 0 else ()
        return ("scale", "first", *slopes, *spread)

    @property
    def means(self) -> Float[Array, " states"]:
        """The level of each regime: its mean, or its intercept."""
        return self._location * self._pull(self.slopes) + self.scale.value * self.offsets

    @property
    def coefficients(self) -> Float[Array, "..."]:
        """How far the last observations pull, the last one first; (state, lag) where they switch."""
        return self.slopes

    @property
    def variances(self) -> Float[Array, "..."]:
        """The variance around the mean; (state,) where it switches."""
        return (self.scale.value * jnp.exp(self.spread)) ** 2

    @property
    def start(self) -> Float[Array, " moment"]:
        """The mean and the variance of the first observations."""
        return self.first.value

    @property
    def _location(self) -> Float[Array, ""]:
        return self.first.value[0]

    def _pull(self, slopes: Any) -> Any:
        """What a shift of all observations shifts a level by."""
        return 1.0 if self.form == "mean" else 1.0 - slopes.sum(-1)

    # -- how probable --------------------------------------------------------------------------------------------

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """A normal distribution for each tuple of regimes."""
        begun, lags = self._lagged(past)
        means = self._location + self.scale.value * self._expected(lags)
        deviations = self.scale.value * jnp.exp(self._of_tuples(self.spread, 0))
        return NormalDistribution(
            jnp.where(begun, means, self._location),
            jnp.where(begun, deviations, jnp.sqrt(self.first.value[1])),
            validate_args=False,
        )

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " tuple"]:
        """The log-density under each tuple of regimes."""
        begun, lags = self._lagged(past)
        unit = self.scale.value
        apart, log_variance = self._apart(x), jnp.log(self.first.value[1])
        spread = self._of_tuples(self.spread, 0)
        white = (apart - self._expected(lags)) * jnp.exp(-spread)
        moving = -0.5 * white**2 - spread - jnp.log(unit)
        starting = -0.5 * ((apart * unit) ** 2 / self.first.value[1] + log_variance)
        return jnp.where(begun, moving, starting) - 0.5 * LOG_2_PI

    def _apart(self, values: Any) -> Any:
        """Observations in units."""
        return (jnp.asarray(values, self.offsets.dtype) - self._location) / self.scale.value

    def _lagged(self, past: Float[Array, " lag"]) -> tuple[Shaped[Array, ""], Float[Array, " lag"]]:
        """Whether all the last observations are there, and these in units, the last one first."""
        there = jnp.isfinite(past)
        return there.all(), self._apart(jnp.where(there, past, self._location))[::-1]

    def _expected(self, lags: Float[Array, " lag"]) -> Float[Array, " tuple"]:
        """The mean under each tuple, in units."""
        pulled = jnp.matmul(self.slopes, lags, precision="highest")
        levels = jnp.matmul(self._level_weights(self.slopes), self.offsets, precision="highest")
        return levels + self._of_tuples(pulled, 0)

    def _level_weights(self, slopes: Float[Array, "..."]) -> Float[Array, "tuple state"]:
        """How the mean under each tuple depends on the levels of the regimes."""
        present, *past = np.eye(self.states)[self._digits.T].astype(slopes.dtype)
        pulls = self._of_tuples(slopes, 1)
        return present - sum((pulls[:, j, None] * one for j, one in enumerate(past)), jnp.zeros((), slopes.dtype))

    @property
    def _digits(self) -> np.ndarray:
        """The regimes of each tuple, the present one first."""
        sizes = (self.states,) * (self.memory + 1)
        return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes)[::-1], axis=1)

    def _of_tuples(self, values: Float[Array, "..."], rank: int) -> Float[Array, "..."]:
        """A parameter with so many axes, of each regime or of all, at every tuple: that of its present regime."""
        own = values.shape[values.ndim - rank :]
        return jnp.broadcast_to(values, (self.states**self.memory, self.states, *own)).reshape(-1, *own)

    def _of_regimes(self, sums: Float[Array, "tuple *event"]) -> Float[Array, "state *event"]:
        """Sums over the tuples of each present regime."""
        return sums.reshape(-1, self.states, *sums.shape[1:]).sum(0)

    # -- learning ------------------------------------------------------------------------------------------------

    def sums(self, weights: Float[Array, "time tuple"], steps: Steps, pasts: Any = None) -> TupleMoments:
        """Second moments of the last observations, for each tuple of regimes."""
        begun, lags = jax.vmap(self._lagged)(pasts)
        present = self._apart(steps.values)[:, None]
        rows = jnp.where(begun[:, None], jnp.concatenate([jnp.ones_like(present), present, lags], axis=1), 0.0)
        squares = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        total = jnp.matmul(weights.T, squares, precision="highest")
        return TupleMoments(total.reshape(-1, rows.shape[1], rows.shape[1]))

    def maximise(self, statistics: TupleMoments, prior: Prior = NOTHING) -> Any:
        """Levels given coefficients, coefficients given levels, variances given both, several times round.

        Each is in closed form, a weighted least squares, and none makes the expected log-probability fall
        (expectation-conditional-maximisation, Meng and Rubin 1993).
        """

        def turn(_, arrays):
            made = eqx.combine(arrays, rest)
            for improve in (_with_levels, _with_slopes):
                made = improve(made, statistics.products)
            return eqx.filter(_with_spread(made, statistics.products, prior), eqx.is_array)

        arrays, rest = eqx.partition(self, eqx.is_array)
        return eqx.combine(jax.lax.fori_loop(0, _ROUNDS, turn, arrays), rest)

    @property
    def _precisions(self) -> Float[Array, " tuple"]:
        return jnp.exp(-2 * self._of_tuples(self.spread, 0))

    def _deviations(self, products: Float[Array, "tuple moment moment"]) -> Float[Array, "tuple lag lag"]:
        """Second moments of the last observations less their levels, the present one first."""
        digits = self._digits if self.memory else np.repeat(self._digits, self.lags + 1, axis=1)
        levels = self.offsets[digits]
        if self.form == "intercept":
            levels = levels.at[:, 1:].set(0.0)
        crossed = products[:, 1:, 0, None] * levels[:, None, :]
        squares = products[:, 0, 0, None, None] * levels[:, :, None] * levels[:, None, :]
        return products[:, 1:, 1:] - crossed - jnp.swapaxes(crossed, 1, 2) + squares

    # -- starting ------------------------------------------------------------------------------------------------

    def around(self, seen: Seen, random: np.random.Generator) -> Any:
        """Levels at random around all observations, and a part of their common autoregression."""
        values, lags = _columns(seen)
        levels = values.mean() + values.std() * random.normal(size=self.states)
        slopes = random.uniform() * _regressed(values - values.mean(), lags)
        return self._started(levels, slopes, (values - values.mean() - lags @ slopes).var(), values.var())

    def clustered(self, seen: Seen, labels: np.ndarray, random: np.random.Generator) -> Any:
        """The levels of the clusters, and the autoregression of what is left; an empty cluster's level is kept."""
        values, lags = _columns(seen)
        counts = np.bincount(labels, minlength=self.states)
        sums = np.bincount(labels, values, minlength=self.states)
        levels = np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
        left = values - levels[labels]
        slopes = _regressed(left, lags)
        return self._started(levels, slopes, (left - lags @ slopes).var(), values.var())

    def _started(self, levels: np.ndarray, slopes: np.ndarray, variance: float, whole: float) -> Any:
        """These numbers for all regimes alike, in the form and the precision of this one."""
        dtype = dtype_of(self)
        pulls = np.broadcast_to(slopes, self.slopes.shape)
        variance = max(variance, 1e-3 * whole) if whole > 0 else 1.0
        return type(self)(
            np.asarray(levels * self._pull(pulls), dtype),
            np.asarray(pulls, dtype),
            np.full(self.spread.shape, variance, dtype),
            self.form,
            np.asarray(self.first.value),
        )

    def in_units_of(self, other: Any) -> Any:
        """The same distributions in the units of another, of which the first observations are distributed alike."""
        ratio = self.scale.value / other.scale.value
        spread = self.spread + jnp.log(ratio)
        return replaced(self, offsets=self.offsets * ratio, spread=spread, scale=other.scale)


def check_tuples(states: int, memory: int) -> None:
    """Raise if there are more tuples of regimes than can be summed over."""
    if states ** (memory + 1) > MOST_TUPLES:
        raise HiddenStateError(
            f"{states} states and {memory} lags make {states}^{memory + 1} tuples of regimes, which is more than "
            f"{MOST_TUPLES:,}; take fewer of either, or form='intercept', which does not look back at regimes."
        )


def _with_levels(made: RegimeAutoregression, products: Float[Array, "tuple moment moment"]) -> RegimeAutoregression:
    """The best levels given the coefficients: weighted least squares over all regimes at once."""
    design = made._level_weights(made.slopes)
    pulls = made._of_tuples(made.slopes, 1)
    left = products[:, 1, 0] - (pulls * products[:, 2:, 0]).sum(1)
    precisions = made._precisions
    weighted = design * (precisions * products[:, 0, 0])[:, None]
    normal = jnp.matmul(weighted.T, design, precision="highest")
    cross = jnp.matmul(design.T, precisions * left, precision="highest")
    step = solved(normal, cross - jnp.matmul(normal, made.offsets, precision="highest"))
    some = enough(made._of_regimes(products[:, 0, 0]))
    return replaced(made, offsets=jnp.where(some, made.offsets + step, made.offsets))


def _with_slopes(made: RegimeAutoregression, products: Float[Array, "tuple moment moment"]) -> RegimeAutoregression:
    """The best coefficients given the levels: of each regime, or of all together."""
    moments = made._of_regimes(made._deviations(products) * made._precisions[:, None, None])
    if made.slopes.ndim == 1:
        moments = moments.sum(0)
    normal, cross = moments[..., 1:, 1:], moments[..., 1:, 0]
    step = solved(normal, cross - jnp.einsum("...ij,...j->...i", normal, made.slopes, precision="highest"))
    return replaced(made, slopes=made.slopes + step)


def _with_spread(
    made: RegimeAutoregression, products: Float[Array, "tuple moment moment"], prior: Prior
) -> RegimeAutoregression:
    """The best variances given all else."""
    pulls = made._of_tuples(made.slopes, 1)
    contrast = jnp.concatenate([jnp.ones_like(pulls[:, :1]), -pulls], axis=1)
    squares = jnp.einsum("si,sij,sj->s", contrast, made._deviations(products), contrast, precision="highest")
    weight, residual = made._of_regimes(products[:, 0, 0]), made._of_regimes(squares)
    some = enough(weight)
    if made.spread.ndim == 0:
        weight, residual, some = weight.sum(), residual.sum(), weight.sum() > 0
    floor = jnp.asarray(prior.variance_floor, weight.dtype) / made.scale.value**2
    variance = jnp.maximum(jnp.maximum(residual / jnp.where(some, weight, 1), least_share(weight.dtype)), floor)
    return replaced(made, spread=jnp.where(some, 0.5 * jnp.log(variance), made.spread))


def _columns(seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Observations, and those before each less the mean of all, the last one first."""
    assert seen.pasts is not None
    values = seen.filled[:, 0]
    return values, seen.pasts[:, ::-1].astype(float) - values.mean()


def _regressed(values: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """The least squares of observations on those before them."""
    return np.linalg.lstsq(lags, values, rcond=None)[0]
