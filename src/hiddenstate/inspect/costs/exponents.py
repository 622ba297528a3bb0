r"""The power of a size that a cost grows with.

Where a call costs something whatever its size, the slope of a straight line through logarithms is too small at small
sizes. So two forms are fitted to the logarithms by least squares, a straight line and one with an overhead,

.. math::

    \log y = \log b + p \log s, \qquad \log y = \log(a + b\, s^p),

and the second is kept where it leaves less variance, per degree of freedom, than the first. (A test at the usual level
would keep the line too often: every call costs something, and a few sizes seldom prove it.)
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from hiddenstate.core import HiddenStateError

FEWEST = 5
"""With fewer sizes than this an overhead is not asked for."""

EXACT = 1e-3
"""Relative deviations smaller than this from a straight line are no reason to leave it."""


class Exponent(NamedTuple):
    """How a cost grows with a size: like ``overhead + factor * size ** power``.

    `error` is the standard error of the power, NaN where two sizes leave nothing to judge it by; `overhead` is zero
    where a straight line through the logarithms fits as well.
    """

    power: float
    error: float
    factor: float
    overhead: float = 0.0

    def at(self, sizes: Any) -> np.ndarray:
        """The cost at these sizes."""
        return self.overhead + self.factor * np.asarray(sizes, np.float64) ** self.power


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> Exponent:
    """The power of the size that costs grow with, by least squares on logarithms."""
    s, y = np.asarray(sizes, np.float64), np.asarray(costs, np.float64)
    if s.shape != y.shape or s.ndim != 1 or len(np.unique(s)) < 2:
        raise HiddenStateError(
            f"{s.size} sizes and {y.size} costs are given; it takes as many costs as sizes, 2 or more."
        )
    if not (np.isfinite(y).all() and (y > 0).all() and (s > 0).all()):
        raise HiddenStateError("costs and sizes must be positive and finite: they are fitted by their logarithms.")
    line, left = _line(s, y)
    if len(s) < FEWEST or left <= len(s) * EXACT**2:
        return line
    raised, still_left = _raised(s, y, line)
    return raised if still_left / (len(s) - 3) < left / (len(s) - 2) else line


def _line(s: np.ndarray, y: np.ndarray) -> tuple[Exponent, float]:
    """The straight line, and the sum of squares that it leaves."""
    x = np.log(s) - np.log(s).mean()
    power = float((x * np.log(y)).sum() / (x**2).sum())
    level = np.log(y).mean()
    left = float(((np.log(y) - level - power * x) ** 2).sum())
    error = np.sqrt(left / (len(s) - 2) / (x**2).sum()) if len(s) > 2 else np.nan
    return Exponent(power, float(error), float(np.exp(level - power * np.log(s).mean()))), left


def _raised(s: np.ndarray, y: np.ndarray, line: Exponent) -> tuple[Exponent, float]:
    """The curve with an overhead, begun at half the least cost, and the sum of squares that it leaves."""
    scale = s.max()

    def missed(found: np.ndarray) -> np.ndarray:
        return np.logaddexp(found[0], found[1] + found[2] * np.log(s / scale)) - np.log(y)

    start = np.array([np.log(y.min() / 2), np.log(y.max()), max(line.power, 0.1)])
    found = least_squares(missed, start, x_scale="jac")
    covariance = np.linalg.pinv(found.jac.T @ found.jac) * 2 * found.cost / (len(s) - 3)
    overhead, factor, power = np.exp(found.x[0]), np.exp(found.x[1] - found.x[2] * np.log(scale)), found.x[2]
    return Exponent(float(power), float(np.sqrt(covariance[2, 2])), float(factor), float(overhead)), 2 * found.cost
