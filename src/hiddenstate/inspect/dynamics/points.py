"""Fixed points of a model's state: where they are, and what happens near them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, checked_key, dtype_of
from hiddenstate.inspect.dynamics.minimise import distinct, settle
from hiddenstate.inspect.dynamics.motion import motion_of, positive, visited, whole

LEVEL = 0.01
"""The slope of the speed below which it counts as level."""


@dataclass(frozen=True, eq=False)
class FixedPoints:
    r"""States that one step leaves as they are (or nearly so), stable ones first.

    `points` (point, size) are states as vectors, `speeds` (point,) the distances :math:`|f(h) - h|` that are left, and
    `eigenvalues` (point, size) those of the Jacobian, largest modulus first. `kinds` say in words what follows:

    - ``"attractor"``: all moduli below one; states nearby come to it.
    - ``"saddle"``: some above, some below; `unstable` (point,) counts those above.
    - ``"repeller"``: all above one.
    - ``"centre"``: none above one, and the ones at one (to a tolerance) are complex: states nearby turn around it.
    - ``"marginal"``: none above one, and a real one at one: nothing to first order moves states along that direction.
    - ``"slow point"``: no fixed point but a place where :math:`q` is least and small, such as what is left of two
      fixed points that have met.

    `counts` (point,) says how many starts ended there, and `lost` how many ended at none of them.
    """

    points: np.ndarray
    speeds: np.ndarray
    eigenvalues: np.ndarray
    kinds: tuple[str, ...]
    unstable: np.ndarray
    counts: np.ndarray
    lost: int

    def __len__(self) -> int:
        return len(self.points)

    def of_kind(self, kind: str) -> np.ndarray:
        """The points of one kind, such as ``"attractor"``."""
        return self.points[[k == kind for k in self.kinds]]

    def frame(self) -> pl.DataFrame:
        """One row a point: its kind, how many directions are unstable, the largest modulus, speed and starts."""
        return pl.DataFrame(
            {
                "kind": list(self.kinds),
                "unstable": self.unstable,
                "largest_modulus": np.abs(self.eigenvalues).max(axis=1, initial=0.0),
                "speed": self.speeds,
                "starts": self.counts,
            }
        )


def fixed_points(
    model: Any,
    *,
    x: Any = None,
    input: Any = None,
    data: Any = None,
    starts: Any = 256,
    key: PRNGKeyArray,
    iterations: int = 100,
    slow: float = 1e-3,
    apart: float = 1e-3,
) -> FixedPoints:
    r"""The fixed points of a state under a constant observation, by least squares from many starts at once.

    .. math::

        q(h) = \tfrac{1}{2} \, |f(h, x) - h|^2

    is minimised as in Sussillo and Barak (2013). `x` is the observation, ``"own"`` for what the model expects itself,
    or `input` is what the cell reads (zeros by default); a model that can sum out missing observations sees none by
    default: that of an HMM is then its stationary distribution. `starts` is a number of states, taken from those on
    `data` or at random, or an array (start, size) of them.

    A minimum counts as fixed point where the rest of the motion is rounding (to the power two thirds), and as slow
    point where :math:`q` is level and at most `slow`. Points nearer than `apart`, relative to one plus their size, are
    one. The Jacobian decides the kind; a modulus is taken to be one if it is so to the square root of the rounding.

    A belief of an HMM keeps its sum, whatever is done to it: one eigenvalue is zero for that reason alone.
    """
    motion = motion_of(model, x, input)
    begun = starting_states(model, motion.size, starts, data, key)
    slow, apart = positive("slow", slow), positive("apart", apart)
    found = settle(motion, begun, iterations=whole("iterations", iterations))
    fine = np.finfo(begun.dtype).eps
    speeds = found.speeds
    finite = np.isfinite(speeds) & np.isfinite(found.jacobians).all(axis=(1, 2))
    true = speeds <= fine ** (2 / 3) * (1 + np.abs(found.points).max(axis=1))
    kept = np.flatnonzero(finite & (true | ((speeds**2 / 2 <= slow) & (found.slopes <= LEVEL))))
    kept = kept[np.lexsort((speeds[kept], ~true[kept]))]
    groups = distinct(found.points, kept, apart)
    firsts = np.array([group[0] for group in groups], int)
    eigenvalues = sorted_eigenvalues(found.jacobians[firsts])
    unstable, kinds = kinds_of(eigenvalues, fine**0.5)
    kinds = [kind if true[first] else "slow point" for kind, first in zip(kinds, firsts, strict=True)]
    order = np.lexsort((*found.points[firsts].T[::-1], unstable, ~true[firsts]))
    return FixedPoints(
        points=found.points[firsts][order],
        speeds=speeds[firsts][order],
        eigenvalues=eigenvalues[order],
        kinds=tuple(kinds[i] for i in order),
        unstable=unstable[order],
        counts=np.array([len(groups[i]) for i in order], int),
        lost=len(begun) - len(kept),
    )


def starting_states(model: Any, size: int, starts: Any, data: Any, key: PRNGKeyArray) -> np.ndarray:
    """So many states as starts, or those that were given, checked."""
    key = checked_key(key)
    if isinstance(starts, int | np.integer):
        return visited(model, whole("starts", starts), key=key, data=data)
    given = np.asarray(starts)
    if given.ndim != 2 or given.shape[1] != size or not len(given) or not np.isfinite(given).all():
        raise HiddenStateError(
            f"starts has shape {given.shape}; it must be a number of states, or finite ones (start, {size})."
        )
    return given.astype(dtype_of(model))


def sorted_eigenvalues(matrices: np.ndarray) -> np.ndarray:
    """Eigenvalues of each matrix, the largest modulus first, in double precision."""
    values = np.linalg.eigvals(np.asarray(matrices, np.float64)).astype(complex)
    return np.take_along_axis(values, np.argsort(-np.abs(values), axis=-1, kind="stable"), axis=-1)


def kinds_of(eigenvalues: np.ndarray, tolerance: float) -> tuple[np.ndarray, list[str]]:
    """How many eigenvalues lie outside the unit circle, and what that makes of each point."""
    unstable, kinds = [], []
    for values in eigenvalues:
        outside = int((np.abs(values) > 1 + tolerance).sum())
        on_circle = values[np.abs(np.abs(values) - 1) <= tolerance]
        unstable.append(outside)
        if outside:
            kinds.append("repeller" if outside == len(values) else "saddle")
        elif len(on_circle):
            kinds.append("centre" if (np.abs(np.imag(on_circle)) > tolerance).all() else "marginal")
        else:
            kinds.append("attractor")
    return np.array(unstable, int), kinds
