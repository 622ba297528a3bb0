r"""From continuous time to steps, exactly.

.. math:: \dot z = A z + B u + \text{noise}, \qquad x = C z + D u + \text{noise}

with `u` held constant over each step.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import expm

from hiddenstate.core import HiddenStateError


class Discretised(NamedTuple):
    """The matrices of the step over `dt`."""

    transition: np.ndarray
    transition_input: np.ndarray | None
    transition_noise: np.ndarray


def discretised(A: Any, B: Any, noise: Any, dt: float) -> Discretised:
    r"""The step over `dt`, by matrix exponentials.

    :math:`e^{A\,dt}`, :math:`\int_0^{dt} e^{As} B\,ds`, and the covariance :math:`\int_0^{dt} e^{As} Q e^{A^\top s} ds`
    of white noise of intensity Q (Van Loan 1978).
    """
    A = _square("A", A)
    n = len(A)
    noise = np.zeros((n, n)) if noise is None else np.asarray(noise, float)
    if noise.shape != (n, n):
        raise HiddenStateError(f"noise has shape {noise.shape}; it must be ({n}, {n}), as A has.")
    if not (np.ndim(dt) == 0 and np.isfinite(dt) and dt > 0):
        raise HiddenStateError(f"dt is {dt!r}; it must be a positive number.")
    joint = expm(np.block([[-A, noise], [np.zeros((n, n)), A.T]]) * dt)
    transition = joint[n:, n:].T
    covariance = transition @ joint[:n, n:]
    driven = None
    if B is not None:
        B = np.asarray(B, float)
        if B.ndim != 2 or B.shape[0] != n:
            raise HiddenStateError(f"B has shape {B.shape}; it must be ({n}, inputs).")
        k = B.shape[1]
        driven = expm(np.block([[A, B], [np.zeros((k, n + k))]]) * dt)[:n, n:]
    return Discretised(transition, driven, 0.5 * (covariance + covariance.T))


def over_intervals(A: Any, B: Any, noise: Any, dt: Any) -> Discretised:
    """The steps over all intervals `dt`: one for a number, otherwise one per interval, time first."""
    if np.ndim(dt) == 0:
        return discretised(A, B, noise, dt)
    if np.ndim(dt) != 1 or np.size(dt) == 0:
        raise HiddenStateError(f"dt has shape {np.shape(dt)}; it must be a number, or (time,) for uneven steps.")
    each = [discretised(A, B, noise, float(d)) for d in np.asarray(dt, float)]
    driven = None if B is None else np.stack([d.transition_input for d in each if d.transition_input is not None])
    return Discretised(np.stack([d.transition for d in each]), driven, np.stack([d.transition_noise for d in each]))


def _square(argument: str, given: Any) -> np.ndarray:
    found = np.asarray(given, float)
    if found.ndim != 2 or found.shape[0] != found.shape[1]:
        raise HiddenStateError(f"{argument} has shape {found.shape}; it must be square, (n, n).")
    return found
