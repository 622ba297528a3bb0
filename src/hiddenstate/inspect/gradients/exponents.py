r"""Lyapunov exponents: how fast small differences between states grow or shrink along a trajectory."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences
from hiddenstate.inspect.gradients.linearisation import blanked, inside_of, linearised, prepared_data


@dataclass(frozen=True, eq=False)
class Lyapunov:
    r"""Exponents in nats per step, the greatest first: a difference along the first grows as :math:`e^{\lambda t}`.

    `exponents` (count,) are means over all sequences, weighted by their steps, and `each` (sequence, count) those of
    every sequence. `running` (sequence, time, count) are the means of all steps so far, NaN before `skipped` steps
    and behind the end: they show whether the exponents have settled.
    """

    exponents: np.ndarray
    each: np.ndarray
    running: np.ndarray
    skipped: int

    @property
    def verdict(self) -> str:
        """What the greatest exponent says: ``"contracting"`` below zero, ``"expanding"`` above, ``"neutral"`` near it.

        Near is less than a tenth over the steps seen: a difference of states has changed by less than a tenth at their
        end. Of a model that reads its data, contracting says that it forgets where it started: states that differ come
        together under the same observations. Where states stay bounded, expanding is chaos.
        """
        steps = self.running.shape[1] - self.skipped
        if abs(self.exponents[0]) * steps < 0.1:
            return "neutral"
        return "expanding" if self.exponents[0] > 0 else "contracting"


def lyapunov(model: SequenceModel, data: Any, count: int | None = None, *, skip: int | None = None) -> Lyapunov:
    r"""The `count` greatest Lyapunov exponents (all, by default) of the states along the data.

    An orthonormal frame is moved by the Jacobian of each step and made orthonormal again, :math:`J_t Q_t = Q_{t+1}
    R_{t+1}`; the exponents are the means of :math:`\log |\operatorname{diag} R_t|` (Benettin et al. 1980). The first
    `skip` steps, by default a tenth of the shortest sequence, only turn the frame into its place. They are the
    exponents of the network driven by these observations; for a network that runs freely give a sample of it.

    >>> hs.inspect.gradients.lyapunov(model, data).exponents  # doctest: +SKIP
    """
    data, arrays = prepared_data(model, data)
    shortest = int(data.lengths.min())
    skip = shortest // 10 if skip is None else skip
    if isinstance(skip, bool) or not isinstance(skip, int) or not 0 <= skip < shortest:
        raise HiddenStateError(
            f"skip is {skip!r}; it must be a whole number from 0 to {shortest - 1}, less than the shortest sequence."
        )
    jacobians = linearised(model, arrays).jacobians
    size = jacobians.shape[-1]
    count = size if count is None else count
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= size:
        raise HiddenStateError(
            f"count is {count!r}; it must be a whole number from 1 to {size}, the size of the state."
        )
    growth = np.asarray(_growth(jacobians, inside_of(arrays), jnp.eye(size, count, dtype=jacobians.dtype)), np.float64)
    return _settled(growth, data, skip)


@jax.jit
def _growth(
    jacobians: Float[Array, "sequence time next state"],
    inside: Shaped[Array, "sequence time"],
    frame: Float[Array, "state count"],
) -> Float[Array, "sequence time count"]:
    """The logarithm of how much each direction of the frame grows at every step."""

    def step(frame: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        jacobian, inside = inputs
        turned, sizes = jnp.linalg.qr(jacobian @ frame)
        return jnp.where(inside, turned, frame), jnp.log(jnp.abs(jnp.diagonal(sizes)))

    return jax.vmap(lambda *sequence: jax.lax.scan(step, frame, sequence)[1])(jacobians, inside)


def _settled(growth: np.ndarray, data: Sequences, skip: int) -> Lyapunov:
    step = np.arange(growth.shape[1])
    counts = data.valid & (step >= skip)
    sums = np.where(counts[..., None], growth, 0.0).cumsum(axis=1)
    running = sums / np.maximum(counts.cumsum(axis=1), 1)[..., None]
    each = sums[:, -1] / counts.sum(axis=1)[:, None]
    mean = sums[:, -1].sum(axis=0) / counts.sum()
    order = np.argsort(-mean, kind="stable")
    return Lyapunov(mean[order], each[:, order], blanked(running, counts)[..., order], skip)
