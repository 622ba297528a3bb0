"""What repeated gains and nonlinearities do: the state after n steps as a function of where it began."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, name_of
from hiddenstate.inspect.dynamics.motion import Motion, motion_of, own_cell, positive, vector, whole


@dataclass(frozen=True, eq=False)
class Gains:
    r"""The state after n steps along a line of beginnings, for growing n.

    `values` (point,) is where on the line each begins, `steps` (number,) are the n, `states` (number, point, size) the
    states after them and `slopes` (number, point, size) their exact derivatives along the line.
    """

    values: np.ndarray
    steps: np.ndarray
    states: np.ndarray
    slopes: np.ndarray

    @property
    def steepest(self) -> np.ndarray:
        """The largest length of a slope on the line, for each n: by how much two neighbours may have parted."""
        return np.linalg.norm(self.slopes, axis=2).max(axis=1)

    @property
    def pieces(self) -> np.ndarray:
        """How many monotone pieces the most folded number of the state has, for each n."""
        signs = np.sign(np.where(np.abs(self.slopes) > np.finfo(np.float32).tiny, self.slopes, 0.0))
        rising = _last_sign(signs)
        return 1 + (rising[:, 1:] * rising[:, :-1] < 0).sum(axis=1).max(axis=1)

    @property
    def length(self) -> np.ndarray:
        """The length of the curve that the line has become, for each n."""
        return np.linalg.norm(np.diff(self.states, axis=1), axis=2).sum(axis=1)

    @property
    def growth(self) -> np.ndarray:
        """The mean growth of distances in nats a step: the mean logarithm of slopes, over n."""
        with np.errstate(divide="ignore"):
            return np.log(np.linalg.norm(self.slopes, axis=2)).mean(axis=1) / self.steps

    def frame(self) -> pl.DataFrame:
        """One row for each n."""
        columns = {"steps": self.steps, "steepest": self.steepest, "pieces": self.pieces}
        return pl.DataFrame({**columns, "length": self.length, "growth": self.growth})


def gains(
    model: Any,
    *,
    x: Any = None,
    input: Any = None,
    of: Literal["state", "input"] = "state",
    along: Any = None,
    start: Any = None,
    reach: float = 1.0,
    steps: Sequence[int] = (1, 2, 4, 8, 16),
    points: int = 1001,
) -> Gains:
    r"""What is left of a difference at the beginning after n steps, and how folded it has become.

    "Gains and nonlinearities compound with repeated application" (Tripp's lecture slides): a linear network multiplies
    a distance by the same factor at every step, a saturating one brings far states together while it drives near ones
    apart, and one that folds (with ``sin``, or the logistic map) has twice as many pieces after every step.

    With ``of="state"`` the beginnings are :math:`h_0 + s\,d` for s from -`reach` to `reach`: `start` is :math:`h_0`
    (the model's own by default) and `along` the direction d (that of the first number of the state). With
    ``of="input"`` the cell reads :math:`s\,d` at the first step only (the slides' :math:`h^{(t)}` as a function of
    :math:`x^{0}`), and `along` has as many numbers as the cell reads. What is read at all other steps is said as in
    `fixed_points`.
    """
    motion = motion_of(model, x, input)
    counts = [whole("steps", n) for n in steps]
    if not counts or counts != sorted(set(counts)):
        raise HiddenStateError(f"steps is {steps!r}; it must be growing whole numbers of at least 1.")
    if of not in ("state", "input"):
        raise HiddenStateError(f"of is {of!r}; it must be 'state' or 'input'.")
    cell = own_cell(model)
    if of == "input" and cell is None:
        raise HiddenStateError(f"of is 'input', but {name_of(model)} has no cell that reads a vector; take 'state'.")
    size = motion.size if of == "state" else cell.input_size
    dtype = motion.start().dtype
    direction = np.eye(size)[0] if along is None else vector("along", along, size)
    begin = motion.start() if start is None else vector("start", start, motion.size)
    values = np.linspace(-1.0, 1.0, whole("points", points, 2)) * positive("reach", reach)
    found = _run(
        motion,
        cell if of == "input" else None,
        jnp.asarray(values, dtype),
        jnp.asarray(direction, dtype),
        jnp.asarray(begin, dtype),
        counts[-1],
    )
    states, slopes = (np.asarray(part, np.float64)[np.array(counts) - 1] for part in found)
    return Gains(values, np.array(counts), states, slopes)


@eqx.filter_jit
def _run(motion: Motion, cell: Any, values: Array, along: Array, start: Array, steps: int) -> tuple[Array, Array]:
    def course(value: Array) -> Array:
        """The states after 1, 2, ... steps."""
        first = motion(start + value * along) if cell is None else motion.moved(start, cell.prepare(value * along))
        later = jax.lax.scan(lambda h, _: (motion(h), motion(h)), first, None, length=steps - 1)[1]
        return jnp.concatenate([first[None], later])

    def with_slope(value: Array) -> tuple[Array, Array]:
        return jax.jvp(course, (value,), (jnp.ones_like(value),))

    return jax.vmap(with_slope, out_axes=1)(values)


def _last_sign(signs: np.ndarray) -> np.ndarray:
    """Signs along axis 1 with zeros replaced by the last one that was not zero, so that a level place is no turn."""
    where = np.where(signs != 0, np.arange(signs.shape[1])[None, :, None], 0)
    return np.take_along_axis(signs, np.maximum.accumulate(where, axis=1), axis=1)
