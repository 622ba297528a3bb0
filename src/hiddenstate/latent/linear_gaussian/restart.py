"""Other starting parameters, for EM that starts many times."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, Sequences, dtype_of
from hiddenstate.latent.linear_gaussian.parts import is_free

SPREAD = 1.0
"""How far logarithms of standard deviations are moved."""


def restarted(parameters: Any, data: Sequences, *, key: PRNGKeyArray, how: str) -> Any:
    """The parameters with new values wherever they are learned."""
    if how not in ("kmeans", "random"):
        raise HiddenStateError(f"how is {how!r}; it must be 'kmeans' or 'random'.")
    dtype = dtype_of(parameters)
    names = [name for name in parameters.__dataclass_fields__ if is_free(getattr(parameters, name))]
    keys = dict(zip(names, jr.split(key, max(1, len(names))), strict=False))
    rows = _rows(data)
    new = {}
    for name in names:
        part = getattr(parameters, name)
        noise = _Noise(keys[name], dtype)
        if hasattr(part, "perturbed"):
            new[name] = part.perturbed(noise, SPREAD)
        elif name == "transition":
            new[name] = _transition(part.shape[0], noise)
        elif name == "emission":
            new[name] = _emission(part.shape, rows, noise, how)
        elif name == "emission_offset":
            new[name] = jnp.asarray(rows.mean(0), dtype)
        else:
            new[name] = part + 0.1 * (1 + jnp.abs(part)) * noise(part.shape)
    return eqx.tree_at(lambda p: [getattr(p, name) for name in names], parameters, [new[name] for name in names])


class _Noise:
    """Standard normal numbers of a shape, new ones at every call."""

    def __init__(self, key: PRNGKeyArray, dtype: Any):
        self.key, self.dtype = key, dtype

    def __call__(self, shape: tuple[int, ...]) -> Any:
        self.key, used = jr.split(self.key)
        return jr.normal(used, shape, self.dtype)


def _rows(data: Sequences) -> np.ndarray:
    """All observations, one a row, with column means where entries are missing."""
    rows = np.concatenate([np.asarray(row, float).reshape(len(row), -1) for row in data])
    if data.observed is not None:
        observed = np.concatenate(
            [np.asarray(o[:n]).reshape(n, -1) for o, n in zip(data.observed, data.lengths, strict=True)]
        )
        means = np.where(observed, rows, 0.0).sum(0) / np.maximum(1, observed.sum(0))
        rows = np.where(observed, rows, means)
    return rows


def _transition(size: int, noise: _Noise) -> Any:
    """A matrix with memories of different lengths, none of which grows."""
    decay = 0.98 - 0.6 * jnp.abs(noise((size,))).clip(0, 1.5) / 1.5
    mixed = jnp.diag(decay) + 0.3 * noise((size, size)) / np.sqrt(size)
    return mixed * jnp.minimum(1.0, 0.98 / jnp.linalg.norm(mixed, 2))


def _emission(shape: tuple[int, ...], rows: np.ndarray, noise: _Noise, how: str) -> Any:
    scale = rows.std(0)
    random = noise(shape) * np.where(scale > 0, scale, 1.0).astype(noise.dtype)[:, None] / np.sqrt(shape[1])
    if how == "random":
        return random
    _, sizes, directions = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    count = min(shape[1], len(sizes))
    leading = (directions[:count] * sizes[:count, None] / np.sqrt(max(1, len(rows)))).T
    return (0.1 * random).at[:, :count].add(jnp.asarray(leading, noise.dtype))
