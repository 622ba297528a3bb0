"""Flow fields: where a step takes every state of a line or a plane."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.core import HiddenStateError, checked_key
from hiddenstate.inspect.dynamics.motion import motion_of, visited, whole


@dataclass(frozen=True, eq=False)
class Flow:
    r"""Moves :math:`f(h) - h` from a grid of states :math:`h = c + \sum_i a_i e_i` on a line or a plane.

    `centre` (size,) is :math:`c`, `axes` (dimension, size) are the :math:`e_i`, orthonormal, and `coordinates` one
    array of values :math:`a_i` for each. `moves` (grid ..., dimension) are moves along the axes, and `speeds`
    (grid ...) their lengths in all directions: a plane does not show what leaves it. The first grid axis belongs to the
    first of the coordinates. `shares` says which share of the variance of visited states each axis carries where the
    plane is that of their principal components, otherwise it is None.
    """

    centre: np.ndarray
    axes: np.ndarray
    coordinates: tuple[np.ndarray, ...]
    moves: np.ndarray
    speeds: np.ndarray
    shares: np.ndarray | None

    def project(self, states: Any) -> np.ndarray:
        """States (..., size) as coordinates (..., dimension)."""
        return (np.asarray(states, np.float64) - self.centre) @ self.axes.T


def flow(
    model: Any,
    *,
    x: Any = None,
    input: Any = None,
    data: Any = None,
    plane: Any = None,
    grid: int = 21,
    key: PRNGKeyArray,
) -> Flow:
    r"""The flow field :math:`f(h, x) - h` of a state under a constant observation.

    A state of one number gives a line, on which :math:`f(h)` can be drawn against h; one of two numbers a plane. Of a
    longer state it is the plane of the first two principal components of visited states (on `data`, or at random as in
    `fixed_points`), or `plane` says which: two numbers of the state, ``(0, 3)``, or two directions (2, size). The grid
    covers the visited states with a tenth to spare, `grid` values along each axis.
    """
    motion = motion_of(model, x, input)
    grid = whole("grid", grid, 2)
    seen = visited(model, 256, key=checked_key(key), data=data).astype(np.float64)
    centre, axes, shares = _plane(plane, seen, motion.size)
    along = (seen - centre) @ axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    spare = np.maximum(0.1 * (high - low), 1e-3)
    coordinates = tuple(np.linspace(a - s, b + s, grid) for a, b, s in zip(low, high, spare, strict=True))
    places = np.stack(np.meshgrid(*coordinates, indexing="ij"), axis=-1)
    states = (centre + places @ axes).reshape(-1, motion.size)
    moves = np.asarray(_moves(motion, jnp.asarray(states, motion.start().dtype)), np.float64)
    return Flow(
        centre=centre,
        axes=axes,
        coordinates=coordinates,
        moves=(moves @ axes.T).reshape(*places.shape),
        speeds=np.linalg.norm(moves, axis=1).reshape(places.shape[:-1]),
        shares=shares,
    )


@eqx.filter_jit
def _moves(motion: Any, states: Array) -> Array:
    return jax.vmap(motion)(states) - states


def _plane(plane: Any, seen: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The centre and the axes of the grid, and what principal components explain."""
    if plane is not None:
        return (np.zeros(size) if size <= 2 else seen.mean(axis=0)), _given_axes(plane, size), None
    if size <= 2:
        return np.zeros(size), np.eye(size), None
    centre = seen.mean(axis=0)
    _, lengths, directions = np.linalg.svd(seen - centre, full_matrices=False)
    total = (lengths**2).sum()
    return centre, directions[:2], lengths[:2] ** 2 / total if total > 0 else np.zeros(2)


def _given_axes(plane: Any, size: int) -> np.ndarray:
    given = np.asarray(plane)
    wrong = HiddenStateError(
        f"plane is {plane!r}; it must be two different numbers of the state, from 0 to {size - 1}, or two independent "
        f"directions (2, {size})."
    )
    if given.shape == (2,) and np.issubdtype(given.dtype, np.integer):
        if given.min() < 0 or given.max() >= size or given[0] == given[1]:
            raise wrong
        return np.eye(size)[given]
    if given.shape != (2, size) or not np.issubdtype(given.dtype, np.number):
        raise wrong
    orthonormal, triangle = np.linalg.qr(given.astype(float).T)
    if np.abs(np.diagonal(triangle)).min() < 1e-9 * np.abs(triangle).max() or not np.isfinite(triangle).all():
        raise wrong
    return (orthonormal * np.sign(np.diagonal(triangle))).T
