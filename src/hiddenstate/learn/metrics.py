"""How good probabilities are: accuracy, log-loss and calibration of symbols; CRPS, coverage and errors of numbers.

Everything here is plain arithmetic on arrays in float64. `hs.evaluate` applies it to a model and data.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import polars as pl

from hiddenstate.core import DataError

__all__ = [
    "Reliability",
    "accuracy",
    "brier",
    "coverage",
    "crps_gaussian",
    "crps_gaussian_mixture",
    "crps_samples",
    "log_loss",
    "pit_samples",
    "reliability",
]

LEVELS = (0.5, 0.8, 0.95)
"""The central intervals whose coverage is counted."""

By = Literal["width", "mass"]


# -- symbols -------------------------------------------------------------------------------------------------


def accuracy(probs: Any, labels: Any) -> float:
    """The share of labels that had the highest probability; `probs` is (case, label), `labels` are codes.

    >>> accuracy([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    0.5
    """
    probs, labels = _checked(probs, labels)
    return float((probs.argmax(axis=1) == labels).mean())


def log_loss(probs: Any, labels: Any) -> float:
    """Minus the mean logarithm of the probability that each label had, in nats; infinite where one had none.

    >>> round(log_loss([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    probs, labels = _checked(probs, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(probs[np.arange(len(labels)), labels]).mean())


def brier(probs: Any, labels: Any) -> float:
    r"""The mean squared distance of the probabilities from the truth, between 0 and 2 (Brier 1950).

    .. math::

        \frac{1}{N} \sum_i \sum_k (p_{ik} - [y_i = k])^2
    """
    probs, labels = _checked(probs, labels)
    truth = np.arange(probs.shape[1]) == labels[:, None]
    return float(((probs - truth) ** 2).sum(axis=1).mean())


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often predictions of each confidence were right: a bin is a range of probabilities of the top label.

    `edges` are the bins' limits, `counts` how many predictions fell into each, `confidence` their mean probability
    and `accuracy` the share that was right (NaN in empty bins). A calibrated model has ``accuracy == confidence``.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        r"""The expected calibration error, :math:`\sum_b \frac{n_b}{N} |\mathrm{accuracy}_b - \mathrm{confidence}_b|`.

        Naeini, Cooper and Hauskrecht (2015); Guo et al. (2017, eq. 3).
        """
        full = self.counts > 0
        gaps = np.abs(self.accuracy[full] - self.confidence[full])
        return float((gaps * self.counts[full]).sum() / self.counts.sum())

    def frame(self) -> pl.DataFrame:
        """A row for each bin that is not empty."""
        full = self.counts > 0
        return pl.DataFrame(
            {
                "from": self.edges[:-1][full],
                "to": self.edges[1:][full],
                "count": self.counts[full],
                "confidence": self.confidence[full],
                "accuracy": self.accuracy[full],
            }
        )


def reliability(probs: Any, labels: Any, *, bins: int = 10, by: By = "width") -> Reliability:
    """The top labels' probabilities in bins, and how often the label was right in each.

    The bins are of equal width between 0 and 1, or with ``by="mass"`` hold equally many predictions (those with one
    and the same probability stay together, so that there may be fewer bins).
    """
    probs, labels = _checked(probs, labels)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise DataError(f"bins is {bins!r}; it must be a whole number of at least 1.")
    if by not in ("width", "mass"):
        raise DataError(f"by is {by!r}; it must be 'width' or 'mass'.")
    top, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    edges = np.linspace(0, 1, bins + 1)
    if by == "mass":
        edges = np.unique(np.quantile(top, edges, method="inverted_cdf"))
        edges = np.concatenate([[0.0], edges[1:] if len(edges) > 1 else edges])
    # A bin holds its upper limit, not its lower one.
    place = np.clip(np.searchsorted(edges, top, side="left") - 1, 0, len(edges) - 2)
    counts = np.bincount(place, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        confidence, share = (np.bincount(place, w, len(edges) - 1) / counts for w in (top, right))
    return Reliability(edges, counts, confidence, share)


def _checked(probs: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    probs, labels = np.asarray(probs, np.float64), np.asarray(labels)
    if probs.ndim != 2 or labels.shape != probs.shape[:1] or not len(labels):
        raise DataError(
            f"probs has shape {probs.shape} and labels {labels.shape}; they must be (case, label) and (case,), "
            "with at least one case."
        )
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= probs.shape[1]:
        raise DataError(f"labels must be whole numbers from 0 to {probs.shape[1] - 1}, the columns of probs.")
    return probs, labels


# -- numbers -------------------------------------------------------------------------------------------------


def crps_gaussian(mean: Any, deviation: Any, x: Any) -> np.ndarray:
    r"""The continuous ranked probability score of a Gaussian prediction, in closed form; lower is better.

    .. math::

        \sigma \left( z (2 \Phi(z) - 1) + 2 \varphi(z) - \pi^{-1/2} \right), \qquad z = (x - \mu) / \sigma

    Gneiting and Raftery (2007, eq. 21, with the sign that makes lower better). It has the unit of x, and is the
    absolute error where the prediction is a point.
    """
    mean, deviation, x = (np.asarray(a, np.float64) for a in (mean, deviation, x))
    z = (x - mean) / deviation
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return deviation * (z * (2 * gaussian_cdf(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


def gaussian_cdf(z: Any) -> np.ndarray:
    """The distribution function of the standard Gaussian."""
    return np.asarray(_compiled_cdf()(np.asarray(z)), np.float64)


@cache
def _compiled_cdf() -> Any:
    import jax
    from jax.scipy.special import ndtr

    return jax.jit(ndtr)


def crps_gaussian_mixture(weights: Any, means: Any, deviations: Any, x: Any) -> np.ndarray:
    r"""The continuous ranked probability score of mixtures of Gaussians, arrays (case, component), in closed form.

    .. math::

        \sum_k w_k A(x - \mu_k, \sigma_k) - \tfrac12 \sum_{j,k} w_j w_k A\big(\mu_j - \mu_k, \sqrt{\sigma_j^2 +
        \sigma_k^2}\big), \qquad A(\mu, \sigma) = \mu (2 \Phi(\mu / \sigma) - 1) + 2 \sigma \varphi(\mu / \sigma)

    A is the mean absolute value of a Gaussian number (Grimit et al. 2006).
    """
    weights, means, deviations = (np.asarray(a, np.float64) for a in (weights, means, deviations))
    x = np.asarray(x, np.float64)
    score = np.zeros(x.shape)
    for k in range(weights.shape[-1]):
        score += weights[:, k] * _mean_absolute(x - means[:, k], deviations[:, k])
        for j in range(k + 1):
            pair = weights[:, j] * weights[:, k] * (0.5 if j == k else 1.0)
            score -= pair * _mean_absolute(means[:, j] - means[:, k], np.hypot(deviations[:, j], deviations[:, k]))
    return score


def _mean_absolute(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The mean of the absolute value of Gaussian numbers."""
    z = _standardised(mean, deviation)
    return mean * (2 * gaussian_cdf(z) - 1) + 2 * deviation * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def _standardised(distance: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """In deviations; where there are none, infinitely many or, at no distance, none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance == 0, 0.0, distance / deviation)


def gaussian_mixture_cdf(weights: Any, means: Any, deviations: Any, x: Any) -> np.ndarray:
    """The distribution functions of mixtures of Gaussians, arrays (case, component), at x, (case,)."""
    weights, means, deviations, x = (np.asarray(a, np.float64) for a in (weights, means, deviations, x))
    return (weights * gaussian_cdf(_standardised(x[:, None] - means, deviations))).sum(axis=-1)


def gaussian_mixture_median(weights: Any, means: Any, deviations: Any) -> np.ndarray:
    """The medians of mixtures of Gaussians, which lie between the means of their components, by halving."""
    means = np.asarray(means, np.float64)
    low, high = means.min(axis=-1), means.max(axis=-1)
    for _ in range(30):
        middle = 0.5 * (low + high)
        below = gaussian_mixture_cdf(weights, means, deviations, middle) < 0.5
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def crps_samples(samples: Any, x: Any) -> np.ndarray:
    r"""The continuous ranked probability score from samples, (sample, ...), of the prediction of x, (...).

    .. math::

        \frac{1}{n} \sum_i |X_i - x| - \frac{1}{2 n (n - 1)} \sum_{i,j} |X_i - X_j|

    The fair estimator (Ferro 2014): its mean is the score of the distribution that the samples come from, however
    few there are. A single value of it may be below zero.
    """
    samples, x = np.asarray(samples, np.float64), np.asarray(x, np.float64)
    count = len(samples)
    if count < 2:
        raise DataError(f"there are {count} samples; the score needs at least 2.")
    # The sum over all pairs of sorted samples: each counts by its rank.
    weights = (2 * np.arange(1, count + 1) - count - 1) / (count * (count - 1))
    spread = np.tensordot(weights, np.sort(samples, axis=0), axes=1)
    return np.abs(samples - x).mean(axis=0) - spread


def pit_samples(samples: Any, x: Any, uniform: Any) -> np.ndarray:
    r"""Where x lies among samples, (sample, ...), of its prediction: the probability integral transform.

    .. math::

        \frac{\#\{X_i < x\} + v (1 + \#\{X_i = x\})}{n + 1}, \qquad v \sim \mathrm{Uniform}(0, 1)

    With `uniform`, one random number for each x, it is uniform between 0 and 1 where the predictions are right, for
    any number of samples, and for whole numbers too (Czado, Gneiting and Held 2009).
    """
    samples, x = np.asarray(samples), np.asarray(x)
    below, equal = (samples < x).sum(axis=0), (samples == x).sum(axis=0)
    return (below + np.asarray(uniform, np.float64) * (1 + equal)) / (len(samples) + 1)


def coverage(pit: Any, level: float) -> float:
    """The share of observations inside the central interval that should hold a share `level` of them.

    >>> coverage([0.1, 0.4, 0.6, 0.99], 0.5)
    0.5
    """
    if not 0 < level < 1:
        raise DataError(f"level is {level}; it must be between 0 and 1.")
    return float((np.abs(np.asarray(pit, np.float64) - 0.5) <= level / 2).mean())
