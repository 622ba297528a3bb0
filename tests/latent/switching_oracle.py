"""Switching linear Gaussian models in plain NumPy: every path of regimes, and for each one large Gaussian."""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


class Path(NamedTuple):
    """One path of regimes: its log-probability together with the data, and the states given both."""

    regimes: tuple[int, ...]
    log_prob: float
    mean: np.ndarray
    covariance: np.ndarray


def every_path(model, xs, observed=None):
    """All K^T paths. The states of all steps are one Gaussian, and so are they together with the data."""
    xs = np.asarray(xs, float)
    xs = xs[:, None] if xs.ndim == 1 else xs
    observed = np.ones(xs.shape, bool) if observed is None else np.asarray(observed).reshape(xs.shape)
    start, moves = np.asarray(model.initial_probs), np.asarray(model.transition_probs)
    parts = [np.asarray(part) for part in model.arrays()]
    with np.errstate(divide="ignore"):
        log_start, log_moves = np.log(start), np.log(moves)
    return [
        _path(path, xs, observed, log_start, log_moves, *parts)
        for path in itertools.product(range(len(start)), repeat=len(xs))
    ]


def _path(path, xs, observed, log_start, log_moves, m, v, a, offset, q, c, shift, r):
    time, n = len(xs), a.shape[-1]
    mean, covariance = np.zeros(time * n), np.zeros((time * n, time * n))
    for t, k in enumerate(path):
        here = slice(t * n, t * n + n)
        if t == 0:
            mean[here], covariance[here, here] = m[k], v[k] @ v[k].T
            continue
        before = slice(here.start - n, here.start)
        mean[here] = a[k] @ mean[before] + offset[k]
        covariance[here, : here.start] = a[k] @ covariance[before, : here.start]
        covariance[: here.start, here] = covariance[here, : here.start].T
        covariance[here, here] = a[k] @ covariance[before, before] @ a[k].T + q[k] @ q[k].T
    size = xs.shape[1]
    seen = np.zeros((time * size, time * n))
    noise = np.zeros((time * size, time * size))
    for t, k in enumerate(path):
        place = slice(t * size, t * size + size)
        seen[place, t * n : t * n + n], noise[place, place] = c[k], r[k] @ r[k].T
    expected = seen @ mean + np.concatenate([shift[k] for k in path])
    kept = observed.ravel()
    seen, noise, expected, x = seen[kept], noise[kept][:, kept], expected[kept], xs.ravel()[kept]
    total = seen @ covariance @ seen.T + noise
    log_prob = log_start[path[0]] + sum(log_moves[i, j] for i, j in itertools.pairwise(path))
    if x.size:
        log_prob = log_prob + multivariate_normal.logpdf(x, expected, total)
        gain = np.linalg.solve(total, seen @ covariance).T
        mean = mean + gain @ (x - expected)
        covariance = covariance - gain @ seen @ covariance
    blocks = np.stack([covariance[t * n : t * n + n, t * n : t * n + n] for t in range(time)])
    return Path(path, float(log_prob), mean.reshape(time, n), blocks)


def log_likelihood(paths):
    """log p(x), exactly."""
    return float(np.asarray(logsumexp([path.log_prob for path in paths])))


def marginals(paths):
    """p(z_t | x), exactly: (time, regime)."""
    weights = np.exp([path.log_prob - log_likelihood(paths) for path in paths])
    regimes = np.array([path.regimes for path in paths])
    count = regimes.max() + 1
    return np.stack([(weights[:, None] * (regimes == k)).sum(0) for k in range(count)], 1)


def mean_state(paths):
    """E[s_t | x], exactly: (time, state)."""
    weights = np.exp([path.log_prob - log_likelihood(paths) for path in paths])
    return sum(weight * path.mean for weight, path in zip(weights, paths, strict=True))
