"""Where a map leaves a state as it is: least squares from many starts at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Num


class Found(NamedTuple):
    """Where each start ended, by how much a turn of the map still moves it, and the Jacobian of that turn there."""

    points: np.ndarray
    moves: np.ndarray
    jacobians: np.ndarray

    @property
    def speeds(self) -> np.ndarray:
        """How far a turn of the map still moves each."""
        return np.linalg.norm(self.moves, axis=1)

    @property
    def slopes(self) -> np.ndarray:
        """How steep the speed still is, a number near zero where it is least."""
        matrices = self.jacobians - np.eye(self.points.shape[1])
        gradients = np.linalg.norm(np.einsum("nij,ni->nj", matrices, self.moves), axis=1)
        return gradients / np.maximum(self.speeds, np.finfo(self.speeds.dtype).tiny)


def settle(
    map: Callable[[Array], Array], starts: Float[np.ndarray, "start size"], periods: Any = None, *, iterations: int
) -> Found:
    r"""Minimise :math:`q(h) = |f^p(h) - h|^2 / 2` from each of the starts, with a number of turns p for each (or one).

    Each iteration is one of Levenberg (1944) and Marquardt (1963): damped Gauss-Newton steps, which near a root are
    those of Newton and so end there to rounding. A step that makes q no smaller is not taken, and damped more.
    """
    periods = None if periods is None else jnp.asarray(periods, jnp.int32)
    return Found(*(np.asarray(part) for part in _settle(map, jnp.asarray(starts), periods, iterations)))


@eqx.filter_jit
def _settle(map: Any, starts: Array, periods: Num[Array, " start"] | None, iterations: int) -> Any:
    eps = jnp.finfo(starts.dtype).eps

    def one(start: Array, period: Array | None) -> tuple[Array, Array, Array]:
        def moved(h: Array) -> tuple[Array, Array]:
            move = (map(h) if period is None else repeated(map, h, period)) - h
            return move, move

        def at(h: Array) -> tuple[Array, Array]:
            jacobian, move = jax.jacfwd(moved, has_aux=True)(h)
            return move, jacobian

        def going_on(carry: Any) -> Array:
            number, h, move, _, damping = carry
            small = jnp.abs(move).max() <= eps * (1 + jnp.abs(h).max())
            return (number < iterations) & ~small & (damping < 1e12)

        def improve(carry: Any) -> Any:
            number, h, move, jacobian, damping = carry
            normal = jacobian.T @ jacobian
            added = damping * (jnp.trace(normal) / len(h) + jnp.linalg.norm(move))
            factor = jax.scipy.linalg.cho_factor(normal + added * jnp.eye(len(h), dtype=h.dtype))
            there = h - jax.scipy.linalg.cho_solve(factor, jacobian.T @ move)
            new_move, new_jacobian = at(there)
            better = (new_move @ new_move < move @ move) & jnp.isfinite(new_jacobian).all()
            kept = jax.tree.map(
                lambda new, old: jnp.where(better, new, old), (there, new_move, new_jacobian), (h, move, jacobian)
            )
            return number + 1, *kept, jnp.where(better, jnp.maximum(damping / 10, eps), damping * 10)

        begin = (0, start, *at(start), jnp.asarray(1e-2, start.dtype))
        _, h, move, jacobian, _ = jax.lax.while_loop(going_on, improve, begin)
        return h, move, jacobian + jnp.eye(len(h), dtype=h.dtype)

    return jax.vmap(one)(starts, periods)


def repeated(map: Callable[[Array], Array], h: Array, times: Any) -> Array:
    """The map applied so many times."""
    return jax.lax.fori_loop(0, times, lambda _, v: map(v), h)


def distinct(points: Float[np.ndarray, "point size"], order: np.ndarray, apart: float) -> list[np.ndarray]:
    """Groups of points that are nearer than `apart` (times one plus their size) to the first of them in `order`."""
    groups, left = [], order
    while len(left):
        first = points[left[0]]
        near = np.abs(points[left] - first).max(axis=1) <= apart * (1 + np.abs(first).max())
        groups.append(left[near])
        left = left[~near]
    return groups
