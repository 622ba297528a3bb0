"""One emission of every family with two or three states, and observations for it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate.core import Steps
from hiddenstate.latent.emissions import (
    Autoregressive,
    Bernoulli,
    Categorical,
    Columns,
    Emission,
    Gaussian,
    GaussianMixture,
    LinearRegression,
    NegativeBinomial,
    Poisson,
    StudentT,
)

TIME = 40
_random = np.random.default_rng(0)

FULL = np.array([[[2.0, 0.6], [0.6, 1.0]], [[0.5, -0.1], [-0.1, 0.3]], [[1.0, 0.0], [0.0, 4.0]]])
MEANS = np.array([[0.0, 1.0], [2.0, -1.0], [-1.0, 0.5]])
VARIANCES = np.array([[1.0, 2.0], [0.5, 0.2], [3.0, 1.5]])
MIXED = np.array([[0.3, 0.7], [1.0, 0.0]])


class Example(NamedTuple):
    emission: Emission
    steps: Steps
    pasts: Any = None

    @property
    def weights(self) -> Any:
        drawn = np.random.default_rng(1).gamma(0.5, size=(self.steps.length, self.emission.states)) + 1e-3
        return drawn / drawn.sum(1, keepdims=True)


def pasts_of(values: np.ndarray, lags: int) -> np.ndarray:
    """The `lags` observations before each, the oldest first; zeros before the first."""
    longer = np.concatenate([np.zeros((lags, *values.shape[1:])), values])
    return np.stack([longer[i : i + len(values)] for i in range(lags)], axis=1)


def total(emission: Emission, weights: Any, steps: Steps, pasts: Any = None) -> Any:
    """The expected complete log-likelihood, as far as the emission goes."""
    if steps.observed is None:
        logs = jax.vmap(emission.log_likelihoods)(steps.values, steps.inputs, pasts)
    else:
        logs = jax.vmap(emission.partial_log_likelihoods)(steps.values, steps.inputs, steps.observed)  # type: ignore
    return jnp.where(weights > 0, weights * logs, 0).sum()


_reals, _vectors = 2 * _random.normal(size=TIME), 2 * _random.normal(size=(TIME, 2))
_inputs = _random.normal(size=(TIME, 3))
_counts = _random.negative_binomial(2, 0.2, size=TIME)
_records = np.stack([_random.integers(0, 3, TIME), _reals, _counts, *_vectors.T], axis=1)

EXAMPLES: dict[str, Example] = {
    "categorical": Example(
        Categorical(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])), Steps(_random.integers(0, 3, TIME))
    ),
    "bit": Example(Bernoulli(np.array([0.2, 0.7])), Steps(_random.integers(0, 2, TIME))),
    "bits": Example(Bernoulli(np.array([[0.2, 0.7], [0.9, 0.5]])), Steps(_random.integers(0, 2, (TIME, 2)))),
    "poisson": Example(Poisson(np.array([2.0, 9.0])), Steps(_counts)),
    "poisson vector": Example(Poisson(np.array([[2.0, 9.0], [1.0, 4.0]])), Steps(_random.integers(0, 9, (TIME, 2)))),
    "negative binomial": Example(NegativeBinomial(np.array([2.0, 9.0]), np.array([0.7, 5.0])), Steps(_counts)),
    "gaussian scalar": Example(Gaussian(np.array([0.0, 1.0]), np.array([1.0, 3.0])), Steps(_reals)),
    "gaussian scalar tied": Example(Gaussian(np.array([0.0, 1.0]), np.array(2.0)), Steps(_reals)),
    "gaussian full": Example(Gaussian(MEANS, FULL), Steps(_vectors)),
    "gaussian diagonal": Example(Gaussian(MEANS, VARIANCES), Steps(_vectors)),
    "gaussian spherical": Example(Gaussian(MEANS, np.array([1.0, 2.0, 0.5])), Steps(_vectors)),
    "gaussian tied": Example(Gaussian(MEANS, FULL[0]), Steps(_vectors)),
    "student-t": Example(StudentT(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([3.0, 9.0])), Steps(_reals)),
    "student-t vector": Example(StudentT(MEANS, np.sqrt(VARIANCES), np.array([3.0, 9.0, 50.0])), Steps(_vectors)),
    "mixture scalar": Example(
        GaussianMixture(MIXED, np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[1.0, 0.5], [2.0, 3.0]])), Steps(_reals)
    ),
    "mixture full": Example(
        GaussianMixture(
            np.array([[0.3, 0.7], [0.4, 0.6]]), np.stack([MEANS[:2], MEANS[1:]]), np.stack([FULL[:2], FULL[1:]])
        ),
        Steps(_vectors),
    ),
    "regression scalar": Example(
        LinearRegression(np.array([0.5, -1.0]), np.array([[1.0, 0.0, 2.0], [0.3, 0.2, 0.1]]), np.array([1.0, 2.0])),
        Steps(_reals, _inputs),
    ),
    "regression vector": Example(
        LinearRegression(MEANS[:2], np.arange(12.0).reshape(2, 2, 3) / 5, VARIANCES[:2]), Steps(_vectors, _inputs)
    ),
    "autoregressive scalar": Example(
        Autoregressive(np.array([0.5, -1.0]), np.array([[0.5, -0.2], [0.9, 0.05]]), np.array([1.0, 2.0])),
        Steps(_reals),
        pasts_of(_reals, 2),
    ),
    "autoregressive vector": Example(
        Autoregressive(MEANS[:2], np.arange(16.0).reshape(2, 2, 2, 2) / 16, VARIANCES[:2]),
        Steps(_vectors),
        pasts_of(_vectors, 2),
    ),
    "columns": Example(
        Columns(
            {
                "symbol": Categorical(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])),
                "real": Gaussian(np.array([0.0, 1.0]), np.array([1.0, 3.0])),
                "count": Poisson(np.array([2.0, 9.0])),
                "pair": Gaussian(MEANS[:2], FULL[:2]),
            }
        ),
        Steps(_records),
    ),
}


def with_gaps(example: Example) -> Example:
    """The same with about a third of all entries missing, among them whole observations."""
    observed = np.random.default_rng(2).random(example.steps.values.shape) < 0.7
    observed[0] = False
    return example._replace(steps=example.steps._replace(observed=observed))
