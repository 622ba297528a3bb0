"""How long each unit remembers: by its Jacobian, its gate, and its course on data."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from hiddenstate._types import Array
from hiddenstate.core import has
from hiddenstate.inference import arrays_for, each_step, sequences_for
from hiddenstate.inspect.dynamics.minimise import repeated
from hiddenstate.inspect.dynamics.motion import known_states, motion_of, own_cell, vector
from hiddenstate.inspect.dynamics.points import sorted_eigenvalues
from hiddenstate.strategies import Auto

SETTLING = 1000
"""How many steps a state is given to come to rest."""


@dataclass(frozen=True, eq=False)
class TimeConstants:
    r"""Time constants in steps: after :math:`\tau` of them :math:`1/e` is left. Infinite where nothing decays.

    `at` (size,) is the state at which the Jacobian was taken. `units` (size,) are those of its diagonal,
    :math:`\tau_i = -1 / \log |\partial h'_i / \partial h_i|`: what a number of the state keeps of itself in one step.
    `modes` (size,) are those of its eigenvalues, longest first: what the units do together. `gates` (unit,) come from
    what a cell's gates keep over data, by the mean of the logarithms, since what is left after many steps is a product
    (None without data, or without gates). `autocorrelation` (size,) is the lag at which the correlation of a number
    with its own past on data falls below :math:`1/e`, interpolated; NaN where it is constant, None without data.
    """

    at: np.ndarray
    units: np.ndarray
    modes: np.ndarray
    gates: np.ndarray | None
    autocorrelation: np.ndarray | None

    def frame(self) -> pl.DataFrame:
        """One row a number of the state; gates stand with the first units, those that they belong to."""
        columns = {"unit": np.arange(len(self.units)), "jacobian": self.units}
        for name, values in (("gate", self.gates), ("autocorrelation", self.autocorrelation)):
            if values is not None:
                columns[name] = np.concatenate([values, np.full(len(self.units) - len(values), np.nan)])
        return pl.DataFrame(columns)


def time_constants(model: Any, data: Any = None, *, x: Any = None, input: Any = None, at: Any = None) -> TimeConstants:
    """The time constants of a model's units: from its Jacobian, and with data from its gates and its states.

    The Jacobian is that under a constant observation (as in `fixed_points`) at the state `at`, by default where the
    model is after 1000 steps from its first state. A gated cell is one with the capability ``keep``.
    """
    motion = motion_of(model, x, input)
    start = None if at is None else jnp.asarray(vector("at", at, motion.size), motion.start().dtype)
    place, jacobian = (np.asarray(part, np.float64) for part in _jacobian(motion, start))
    cell = own_cell(model)
    return TimeConstants(
        at=place,
        units=decay_time(np.abs(np.diagonal(jacobian))),
        modes=decay_time(np.abs(sorted_eigenvalues(jacobian[None])[0])),
        gates=_gates(model, data) if data is not None and has(cell, "keep") else None,
        autocorrelation=None if data is None else correlation_time(known_states(model, data)),
    )


def decay_time(kept: np.ndarray) -> np.ndarray:
    """-1 / log of what a step keeps: zero where that is nothing, infinite where nothing is lost."""
    with np.errstate(divide="ignore"):
        return np.where(kept < 1, -1 / np.log(np.minimum(kept, np.nextafter(1, 0))), np.inf)


def correlation_time(states: np.ndarray) -> np.ndarray:
    """The lag at which the autocorrelation of states (sequence, time, size) falls below 1/e; NaN marks padding."""
    valid = np.asarray(~np.isnan(states).all(axis=2))
    centred = np.where(valid[..., None], states - np.nanmean(states, axis=(0, 1)), 0.0).astype(np.float64)
    padded = 2 * states.shape[1]
    spectrum = np.abs(np.fft.rfft(centred, padded, axis=1)) ** 2
    sums = np.fft.irfft(spectrum.sum(axis=0), padded, axis=0)[: states.shape[1]]
    pairs = np.fft.irfft((np.abs(np.fft.rfft(valid, padded, axis=1)) ** 2).sum(axis=0), padded)[: states.shape[1]]
    means = sums / np.maximum(np.round(pairs), 1)[:, None]
    moving = means[0] > np.finfo(np.float32).eps ** 2 * np.nanmax(np.abs(states), axis=(0, 1)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.maximum(means / means[0], np.finfo(np.float64).tiny))
    below = logs < -1
    lag = np.argmax(below, axis=0)
    unit = np.arange(states.shape[2])
    before, after = logs[lag - 1, unit], logs[lag, unit]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = lag - 1 + np.clip((before + 1) / (before - after), 0, 1)
    return np.where(moving, np.where(below.any(axis=0), crossing, np.inf), np.nan)


@eqx.filter_jit
def _jacobian(motion: Any, at: Array | None) -> tuple[Array, Array]:
    place = repeated(motion, motion.start(), SETTLING) if at is None else at
    return place, jax.jacfwd(motion)(place)


def _gates(model: Any, data: Any) -> np.ndarray:
    data = sequences_for(model, data)
    kept = np.asarray(_kept(model, arrays_for(model, data)), np.float64)[data.valid]
    with np.errstate(divide="ignore"):
        return decay_time(np.exp(np.log(kept).mean(axis=0)))


@eqx.filter_jit
def _kept(model: Any, arrays: Any) -> Array:
    cell: Any = own_cell(model)
    return each_step(model, arrays, Auto(), lambda state, element, x, u: cell.keep(state, element))[0]
