"""Structural time series: a level, a trend, seasons, cycles, each a small model, and their sums.

    structure = hs.structural.local_level(variance=1469.1) + hs.structural.seasonal(12)
    model = structure.model(emission_noise=15099.0)

Only variances are learned, and the coefficients of autoregressions and oscillations: everything else is what makes the
structure what it is (Harvey 1989; Durbin and Koopman 2012, chapter 3).
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import block_diag, solve_discrete_lyapunov

from hiddenstate.core import Frozen, HiddenStateError, Schema
from hiddenstate.latent.linear_gaussian.blocks import Autoregressive, Blocks, Constant, Oscillating, partials_of
from hiddenstate.latent.linear_gaussian.covariances import diagonal
from hiddenstate.latent.linear_gaussian.model import LinearGaussian
from hiddenstate.latent.linear_gaussian.parts import common_dtype

__all__ = ["Component", "ar", "damped_oscillation", "local_level", "local_linear_trend", "seasonal"]


@dataclass(frozen=True)
class Piece:
    """One block: its kind and numbers, the variances of its noise, which entry has which, and how it starts."""

    kind: str
    numbers: Any
    variances: tuple[float, ...]
    groups: tuple[int, ...]
    stationary: Any = None
    """The covariance it starts with; None where nothing is known of its start."""


@dataclass(frozen=True)
class Component:
    """A structure, or a sum of several: ``local_level() + seasonal(12)``."""

    pieces: tuple[Piece, ...]

    def __add__(self, other: "Component") -> "Component":
        if not isinstance(other, Component):
            return NotImplemented
        return Component(self.pieces + other.pieces)

    @property
    def state_size(self) -> int:
        """How many hidden numbers it has."""
        return sum(len(piece.groups) for piece in self.pieces)

    def model(
        self,
        *,
        emission_noise: Any = 1.0,
        diffuse: bool = True,
        initial_mean: Any = None,
        initial_variance: float = 1e4,
        inputs: int = 0,
        fixed: tuple[str, ...] = (),
        dtype: Any = None,
        schema: Schema | None = None,
    ) -> LinearGaussian:
        """The linear Gaussian model of single numbers that have this structure.

        `emission_noise` is the variance of what is observed around it, which may be zero. Nothing is known of where
        levels, trends and seasons start, unless ``diffuse=False``: then they start at `initial_mean` (zeros) with
        `initial_variance`. Autoregressions and oscillations start from the stationary distribution of the parameters
        they are made with. How states start is not learned. With `inputs`, a weight for each is learned: a regression.
        """
        dtype = common_dtype() if dtype is None else jnp.dtype(dtype)
        unknown = np.concatenate([np.full(len(p.groups), p.stationary is None) for p in self.pieces])
        spread = block_diag(
            *[np.eye(len(p.groups)) * initial_variance if p.stationary is None else p.stationary for p in self.pieces]
        )
        variances, groups = [], []
        for piece in self.pieces:
            groups += [group + len(variances) if group >= 0 else -1 for group in piece.groups]
            variances += piece.variances
        marked = [len(variances) if group < 0 else group for group in groups]
        return LinearGaussian(
            transition=Blocks(tuple(_block(piece, dtype) for piece in self.pieces)),
            transition_noise=diagonal([*variances, 0.0], dtype, tuple(marked)),
            emission=np.concatenate([[1.0] + [0.0] * (len(p.groups) - 1) for p in self.pieces]).astype(dtype),
            emission_noise=emission_noise,
            initial_mean=np.zeros(self.state_size, dtype) if initial_mean is None else initial_mean,
            initial_covariance=spread,
            diffuse=unknown.tolist() if diffuse else False,
            emission_input=np.zeros(inputs, dtype) if inputs else None,
            fixed=("emission", "initial_mean", "initial_covariance", *fixed),
            schema=schema,
        )


def local_level(variance: float = 1.0) -> Component:
    """A level that moves by a random step of this variance: a random walk."""
    return Component((Piece("constant", ((1.0,),), (_variance("variance", variance),), (0,)),))


def local_linear_trend(level_variance: float = 1.0, slope_variance: float = 1.0) -> Component:
    """A level that moves by a slope, and a slope that moves by random steps."""
    variances = (_variance("level_variance", level_variance), _variance("slope_variance", slope_variance))
    return Component((Piece("constant", ((1.0, 1.0), (0.0, 1.0)), variances, (0, 1)),))


def seasonal(period: int, variance: float = 1.0) -> Component:
    """Effects of the seasons that sum to zero over `period` steps, up to random steps of this variance."""
    if isinstance(period, bool) or not isinstance(period, int | np.integer) or period < 2:
        raise HiddenStateError(f"period is {period!r}; it must be a whole number of at least 2.")
    rows = np.vstack([-np.ones(period - 1), np.eye(period - 1)[:-1]])
    numbers = tuple(tuple(float(a) for a in row) for row in rows)
    return Component((Piece("constant", numbers, (_variance("variance", variance),), (0,) + (-1,) * (period - 2)),))


def ar(order: int | None = None, coefficients: Any = None, variance: float = 1.0) -> Component:
    """A stationary autoregression on the last `order` values, the newest first in `coefficients`."""
    if coefficients is None:
        if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
            raise HiddenStateError(f"order is {order!r}; it must be a whole number of at least 1.")
        coefficients = [0.5] + [0.0] * (order - 1)
    found = np.atleast_1d(np.asarray(coefficients, float))
    if order is not None and found.shape != (order,):
        raise HiddenStateError(f"coefficients has shape {found.shape}, but order is {order}.")
    matrix = np.vstack([found, np.eye(len(found))[:-1]])
    if np.abs(np.linalg.eigvals(matrix)).max() >= 1 - 1e-9:
        raise HiddenStateError(
            f"coefficients {found.tolist()} are not stationary: a root lies on or in the unit circle."
        )
    variance = _variance("variance", variance)
    start = solve_discrete_lyapunov(matrix, np.diag([variance] + [0.0] * (len(found) - 1)))
    groups = (0,) + (-1,) * (len(found) - 1)
    return Component((Piece("ar", tuple(found.tolist()), (variance,), groups, start),))


def damped_oscillation(period: float, damping: float = 0.9, variance: float = 1.0) -> Component:
    """A cycle of about `period` steps, of which a part `damping` is left after each step, driven by noise."""
    if not period > 2:
        raise HiddenStateError(f"period is {period!r}; it must be more than 2 steps.")
    if not 0 < damping < 1:
        raise HiddenStateError(f"damping is {damping!r}; it must lie between 0 and 1.")
    variance = _variance("variance", variance)
    start = np.eye(2) * variance / (1 - damping**2)
    return Component((Piece("oscillation", (float(damping), float(period)), (variance,), (0, 0), start),))


def _variance(argument: str, value: float) -> float:
    if not (np.ndim(value) == 0 and np.isfinite(value) and value >= 0):
        raise HiddenStateError(f"{argument} is {value!r}; it must be a number of at least 0.")
    return float(value)


def _block(piece: Piece, dtype: Any) -> Constant | Autoregressive | Oscillating:
    if piece.kind == "ar":
        return Autoregressive(jnp.asarray(np.arctanh(np.asarray(partials_of(jnp.asarray(piece.numbers)))), dtype))
    if piece.kind == "oscillation":
        damping, period = piece.numbers
        share = 2 / period
        logits = [jnp.asarray(np.log(a / (1 - a)), dtype) for a in (damping, share)]
        return Oscillating(*logits)
    return Constant(Frozen(jnp.asarray(piece.numbers, dtype)))
