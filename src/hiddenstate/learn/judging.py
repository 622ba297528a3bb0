"""Predictions of many cases beside what came, column by column: what metrics are computed from."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution, constraints

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, Schema
from hiddenstate.inference import rebatch
from hiddenstate.learn.metrics import (
    crps_gaussian,
    crps_gaussian_mixture,
    crps_samples,
    gaussian_cdf,
    gaussian_mixture_cdf,
    gaussian_mixture_median,
    pit_samples,
)

MOST_COMPONENTS = 32
"""Of a mixture whose scores are computed in closed form, at a cost that grows with their square."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The cases of one column, as arrays with one entry for each."""

    @classmethod
    def joined(cls, parts: Any) -> "Judged":
        """The cases of several parts, one behind the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(frozen=True, eq=False)
class Symbols(Judged):
    """The probability of every symbol, (case, symbol), and the one that came."""

    labels: np.ndarray
    probs: np.ndarray


@dataclass(frozen=True, eq=False)
class Numbers(Judged):
    """What came, the score of its prediction, where it lay in it, and the prediction's mean and median."""

    x: np.ndarray
    crps: np.ndarray
    pit: np.ndarray
    mean: np.ndarray
    median: np.ndarray


@dataclass(frozen=True)
class Drawn:
    """What is known of the predictions of many cases.

    `distribution` has the batch shape (case,), or where it is not `exact` says of what form observations are and no
    more; `samples` draws (sample, case, ...) from the predictions; `probs` are those of symbols, where known.
    """

    distribution: Distribution
    samples: Callable[[], np.ndarray]
    probs: np.ndarray | None = None
    exact: bool = True


def pick(distribution: Distribution, rows: np.ndarray) -> Distribution:
    """The distributions of some cases, counted through all batch axes: of batch shape (case,)."""
    shape = distribution.batch_shape

    def some(array: Any) -> Any:
        inner = array.shape[len(shape) :]
        return jnp.broadcast_to(array, (*shape, *inner)).reshape(-1, *inner)[rows]

    return rebatch(jax.tree.map(some, distribution), (len(rows),))


def judge(drawn: Drawn, values: np.ndarray, schema: Schema, key: PRNGKeyArray) -> list[Judged]:
    """What each column of many cases, values of shape (case,) or (case, column), comes to beside its predictions.

    Entries that are missing (NaN) and cases without a proper prediction are left out; `key` breaks ties.
    """
    table = values.reshape(len(values), -1)
    uniform = np.asarray(jr.uniform(key, table.shape))
    samples: list[np.ndarray] = []

    def draws(i: int) -> np.ndarray:
        if not samples:
            samples.append(drawn.samples())
        return samples[0].reshape(*samples[0].shape[:2], -1)[..., i]

    judged = []
    for i, column in enumerate(schema.columns):
        part = column_part(drawn.distribution, column)
        if is_class(part, column):
            judged.append(_symbols(drawn, part, i, column, table[:, i], draws))
        else:
            judged.append(_numbers(drawn, part, i, table[:, i], uniform[:, i], draws))
    return judged


def column_part(distribution: Distribution, column: Column) -> Distribution:
    """The distribution of a column by itself, where there is one; otherwise that of all."""
    parts = getattr(distribution, "columns", {})
    return parts.get(column.name, distribution)


def is_class(part: Distribution, column: Column) -> bool:
    """Whether a column is predicted as one of a few symbols, rather than as a number."""
    if not part.is_discrete:
        return part.event_shape != () and column.kind in ("symbol", "bit")
    if part.event_shape:
        return column.kind in ("symbol", "bit")
    support: Any = part.support
    return support is constraints.boolean or getattr(support, "upper_bound", None) is not None


# -- symbols -------------------------------------------------------------------------------------------------


def _symbols(
    drawn: Drawn, part: Distribution, i: int, column: Column, x: np.ndarray, draws: Callable[[int], np.ndarray]
) -> Symbols:
    size = 2 if column.kind == "bit" else column.size
    probs = drawn.probs
    if probs is None and drawn.exact:
        probs = class_probs(part, i)
    if probs is None:
        size = max(size, int(np.nanmax(x)) + 1)
        probs = (draws(i)[..., None] == np.arange(size)).mean(axis=0)
    known = ~np.isnan(x)
    return Symbols(x[known].astype(int), np.asarray(probs, np.float64)[known])


def class_probs(part: Distribution, i: int) -> Any:
    """The probability of each class, (case, class); None where only samples tell."""
    if part.event_shape:
        inner = getattr(part, "base_dist", part)
        return _pair(part.mean[..., i]) if inner.support is constraints.boolean else None
    if part.support is constraints.boolean:
        return _pair(part.mean)
    probs = getattr(part, "probs", None)
    if probs is not None:
        return probs
    codes = jnp.arange(int(part.support.upper_bound) + 1)  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    return jnp.exp(jax.lax.map(part.log_prob, codes)).T


def _pair(probs: Any) -> Any:
    return jnp.stack([1 - probs, probs], axis=-1)


# -- numbers -------------------------------------------------------------------------------------------------


def _numbers(
    drawn: Drawn, part: Distribution, i: int, x: np.ndarray, uniform: np.ndarray, draws: Callable[[int], np.ndarray]
) -> Numbers:
    entry = (lambda a: np.asarray(a, np.float64)[..., i]) if part.event_shape else (lambda a: np.asarray(a, np.float64))
    if drawn.exact and is_gaussian(part):
        mean, deviation = entry(part.mean), np.sqrt(entry(part.variance))
        columns = x, crps_gaussian(mean, deviation, x), gaussian_cdf((x - mean) / deviation), mean, mean
    elif drawn.exact and isinstance(part, dist.MixtureSameFamily) and is_gaussian_mixture(part):
        mixing: Any = part.mixing_distribution
        component = part.component_distribution
        mixture = np.asarray(mixing.probs, np.float64), entry(component.mean), np.sqrt(entry(component.variance))
        places = gaussian_mixture_cdf(*mixture, x)
        columns = x, crps_gaussian_mixture(*mixture, x), places, entry(part.mean), gaussian_mixture_median(*mixture)
    else:
        samples = draws(i)
        mean = entry(part.mean) if drawn.exact else samples.mean(axis=0)
        columns = x, crps_samples(samples, x), pit_samples(samples, x, uniform), mean, np.median(samples, axis=0)
    good = np.isfinite(columns[1])
    return Numbers(*(np.asarray(a, np.float64)[good] for a in columns))


def is_gaussian(distribution: Distribution) -> bool:
    """Whether every entry has a Gaussian distribution."""
    if isinstance(distribution, dist.Independent):
        return is_gaussian(distribution.base_dist)
    return isinstance(distribution, dist.Normal | dist.MultivariateNormal | dist.LowRankMultivariateNormal)


def is_gaussian_mixture(mixture: dist.MixtureSameFamily) -> bool:
    """Whether it is a mixture of few Gaussian distributions."""
    return mixture.mixture_size <= MOST_COMPONENTS and is_gaussian(mixture.component_distribution)
