r"""How fast gradients fade or grow with the number of steps that they go back.

A gradient that goes back from t + k to t is multiplied by the product of k Jacobians. Where their norms stay
below one it vanishes exponentially, and what happened long ago cannot be learned; where they stay above one it explodes
(Bengio, Simard and Frasconi 1994; Pascanu, Mikolov and Bengio 2013; Linderman's lecture notes). In a linear
network all Jacobians are one matrix, and the rate is its spectral radius.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, Num
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences
from hiddenstate.inspect.gradients.linearisation import linearised, prepared_data
from hiddenstate.inspect.gradients.products import log_norms_at

_STARTS = 32
_DEFAULT_LAGS = 24
_FARTHEST = 200
_TENFOLD = float(np.log(10))


@dataclass(frozen=True, eq=False)
class Decay:
    r"""A norm against the number of steps that a gradient goes back.

    `log_norms` are logarithms of the mean norm at each of the `lags`, :math:`-\infty` where it is exactly zero;
    `windows` is over how many stretches of steps each is a mean, the same ones for all lags. `rate` is the factor
    for one more step, fitted as a straight line to the logarithms at the lags from half of the longest on, where what
    is special to the first steps no longer counts; it is zero where a gradient is lost altogether.
    """

    what: str
    lags: np.ndarray
    log_norms: np.ndarray
    rate: float
    windows: int

    @property
    def norms(self) -> np.ndarray:
        """The mean norms; zero where they are too small for a float."""
        return np.exp(self.log_norms)

    @property
    def half_life(self) -> float:
        """After how many steps half is left: infinite where nothing is lost, zero where all is lost at once."""
        if self.rate <= 0:
            return 0.0
        return float(np.log(0.5) / np.log(self.rate)) if self.rate < 1 else np.inf

    @property
    def verdict(self) -> str:
        """``"vanishes"`` or ``"explodes"`` where it changes more than tenfold over the lags, otherwise ``"lasts"``."""
        change = self.log_norms[-1] - self.log_norms[0] if np.isfinite(self.log_norms[0]) else -np.inf
        return "vanishes" if change < -_TENFOLD else "explodes" if change > _TENFOLD else "lasts"

    def __str__(self) -> str:
        first, last = int(self.lags[0]), int(self.lags[-1])
        ends = f"{_power(self.log_norms[0])} at lag {first}, {_power(self.log_norms[-1])} at lag {last}"
        half = f", half in {self.half_life:.3g} steps" if 0 < self.half_life < np.inf else ""
        verdict = "lasts over these lags" if self.verdict == "lasts" else self.verdict
        return f"{self.what} {verdict}: {ends}; times {self.rate:.4g} a step{half}."


def decay(model: SequenceModel, data: Any, lags: Sequence[int] | None = None, *, starts: int = _STARTS) -> Decay:
    r"""The spectral norm of :math:`\partial h_{t+k} / \partial h_t` against the lag k, with the factor per step.

    It is the mean over at most `starts` steps t of each sequence, evenly spread, and over the sequences that have more
    steps than the longest lag. By default there are about 24 lags, up to half of the longest sequence or 200.

    >>> print(hs.inspect.gradients.decay(model, data))  # doctest: +SKIP
    """
    data, arrays = prepared_data(model, data)
    if isinstance(starts, bool) or not isinstance(starts, int) or starts < 1:
        raise HiddenStateError(f"starts is {starts!r}; it must be a whole number of steps, 1 or more.")
    chosen = chosen_lags(lags, data, least=1)
    enough, places = _starts(data, int(chosen[-1]), starts)
    jacobians = linearised(model, arrays).jacobians[enough]
    found = np.asarray(log_norms_at(jacobians, places, chosen), np.float64).reshape(len(chosen), -1)
    return _decay("The gradient between states", chosen, found)


def loss_decay(model: SequenceModel, data: Any, lags: Sequence[int] | None = None) -> Decay:
    r"""The norm of the gradient of one step's loss, :math:`\|\partial L_t / \partial h_{t-k}\|`, against the lag k.

    :math:`L_t = -\log p(x_t \mid h_t)`: what the loss at t says to the states before it, from lag 0 on. It is the mean
    over all steps t that are scored and lie behind the longest lag.
    """
    data, arrays = prepared_data(model, data)
    chosen = chosen_lags(lags, data, least=0)
    line = linearised(model, arrays)
    farthest = int(chosen[-1])
    found = np.asarray(_log_norms_back(line.jacobians, line.direct, farthest), np.float64)[chosen]
    step = np.arange(data.length)
    context = np.zeros(len(data), int) if data.context is None else data.context
    counts = data.valid & (step >= np.maximum(context[:, None], farthest))
    if not counts.any():
        raise HiddenStateError(f"no scored step lies {farthest} or more steps behind the start; give shorter lags.")
    return _decay("The gradient of a step's loss", chosen, found[:, counts])


@partial(jax.jit, static_argnames="farthest")
def _log_norms_back(
    jacobians: Float[Array, "sequence time next state"], direct: Float[Array, "sequence time state"], farthest: int
) -> Float[Array, "lag sequence time"]:
    """The gradients of the losses of all steps, taken back one step at a time, as logarithms of norms."""
    steps = jnp.arange(direct.shape[1])

    def back(carry: tuple[Array, Array], lag: Num[Array, ""]) -> tuple[tuple[Array, Array], Array]:
        gradient, log_size = carry
        size = jnp.linalg.norm(gradient, axis=-1)
        log_size = log_size + jnp.log(size)
        unit = gradient / jnp.where(size > 0, size, 1)[..., None]
        earlier = jnp.einsum("stnk,stn->stk", jacobians[:, jnp.maximum(steps - lag - 1, 0)], unit)
        return (earlier, log_size), log_size

    return jax.lax.scan(back, (direct, jnp.zeros(direct.shape[:2], direct.dtype)), jnp.arange(farthest + 1))[1]


def chosen_lags(lags: Sequence[int] | None, data: Sequences, *, least: int) -> Num[np.ndarray, " lag"]:
    """Rising lags that fit into the longest sequence, or HiddenStateError."""
    longest = int(data.lengths.max()) - 1
    if longest < max(least, 1):
        raise HiddenStateError("the longest sequence has 1 step; a lag needs at least 2.")
    if lags is None:
        farthest = min(max(1, longest // 2), _FARTHEST)
        return np.unique(np.linspace(least, farthest, min(_DEFAULT_LAGS, farthest + 1 - least)).round().astype(int))
    chosen = np.asarray(lags)
    if chosen.ndim != 1 or not chosen.size or not np.issubdtype(chosen.dtype, np.integer):
        raise HiddenStateError(f"lags is {lags!r}; it must be whole numbers of steps, one or more.")
    if chosen.min() < least or chosen.max() > longest:
        raise HiddenStateError(
            f"lags go from {chosen.min()} to {chosen.max()}; they must lie between {least} and {longest}, one less "
            "than the longest sequence has steps."
        )
    return np.unique(chosen)


def _starts(data: Sequences, farthest: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which sequences are longer than the longest lag, and steps of each to start from (sequence, start)."""
    enough = np.flatnonzero(data.lengths > farthest)
    last = data.lengths[enough] - 1 - farthest
    share = np.linspace(0, 1, min(count, int(last.max()) + 1))
    return enough, np.round(last[:, None] * share).astype(int)


def _decay(what: str, lags: np.ndarray, log_norms: Float[np.ndarray, "lag window"]) -> Decay:
    windows = log_norms.shape[1]
    means = np.logaddexp.reduce(log_norms, axis=1) - np.log(windows)
    return Decay(what, lags, means, _rate(lags, means), windows)


def _rate(lags: np.ndarray, log_norms: np.ndarray) -> float:
    late = lags >= lags[-1] / 2
    if late.sum() < 2:
        late = np.ones_like(late)
    if not np.isfinite(log_norms[late]).all():
        return 0.0
    if late.sum() < 2:
        return float(np.exp(log_norms[0] / lags[0])) if lags[0] else np.nan
    return float(np.exp(np.polyfit(lags[late], log_norms[late], 1)[0]))


def _power(log_norm: float) -> str:
    """A number given by its logarithm, also where it is too small or too large for a float."""
    if not np.isfinite(log_norm):
        return "0"
    exponent = int(np.floor(log_norm / _TENFOLD))
    if -3 <= exponent <= 3:
        return f"{np.exp(log_norm):.3g}"
    return f"{np.exp(log_norm - exponent * _TENFOLD):.2f}e{exponent:+03d}"
