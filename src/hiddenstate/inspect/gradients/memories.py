"""What a state remembers: how well each earlier observation can be read from it by a linear map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, checked_key
from hiddenstate.inference import prototype, sequences_for, states
from hiddenstate.inspect.gradients.decays import chosen_lags
from hiddenstate.inspect.gradients.linearisation import vector_of
from hiddenstate.inspect.regression import least_squares, parted, r_squared, softmax_regression

_DEFAULT_FARTHEST = 20


@dataclass(frozen=True, eq=False)
class Memory:
    r"""How much the state at t knows of :math:`x_{t-k}` at each of the `lags` k, on `steps` held-out steps.

    For real numbers and counts `r_squared` is the share of the variance of :math:`x_{t-k}` that an affine map of the
    state explains: 1 is all, 0 what the mean does, and a little below zero is nothing. For symbols `accuracy` is how
    often softmax regression on the state names :math:`x_{t-k}` (with a small share of how frequent symbols are, so that
    none is impossible), `chance` how often the most frequent symbol is right, and `bits` how many bits the regression
    saves against knowing only how frequent symbols are in the held-out steps themselves, so that it is never more than
    a symbol holds: a bound from below on the information that the state has of :math:`x_{t-k}`, up to what the held-out
    steps leave open. What does not apply is None.
    """

    lags: np.ndarray
    steps: int
    r_squared: np.ndarray | None = None
    accuracy: np.ndarray | None = None
    chance: float | None = None
    bits: np.ndarray | None = None


def memory(model: SequenceModel, data: Any, lags: Sequence[int] | None = None, *, key: PRNGKeyArray) -> Memory:
    """How much the state at t knows of the observation k steps before, for each lag k: by default 1 to 20.

    The state at t has seen :math:`x_{t-1}` last, so lag 1 is the newest. A quarter of the sequences, drawn with `key`,
    is held out, and all figures are of those; the regressions are fitted to the others. Only steps behind the longest
    lag are looked at, the same ones for all lags, and only sequences that have such.

    >>> hs.inspect.gradients.memory(model, data, [1, 2, 5, 10], key=jr.key(0)).bits  # doctest: +SKIP
    """
    data = sequences_for(model, data)
    if data.has_missing:
        raise HiddenStateError("data have missing values; what a state remembers of them cannot be said. Fill them in.")
    if lags is None:
        lags = range(1, min(_DEFAULT_FARTHEST, max(1, int(data.lengths.max()) // 2)) + 1)
    chosen = chosen_lags(lags, data, least=1)
    farthest = int(chosen[-1])
    data = data.select(np.flatnonzero(data.lengths > farthest))
    parts = [_rows(model, part, chosen) for part in parted(data, key=checked_key(key))]
    symbols = _symbols(model)
    if symbols is None:
        return _of_numbers(chosen, *parts[0], *parts[1])
    return _of_symbols(chosen, symbols, *parts[0], *parts[1])


def _symbols(model: SequenceModel) -> int | None:
    """How many symbols an observation is one of; None where it is no symbol."""
    predicted = prototype(model)
    highest: Any = getattr(predicted.support, "upper_bound", None)
    if predicted.event_shape != () or not predicted.is_discrete or highest is None:
        return None
    return int(highest) + 1


def _rows(model: SequenceModel, data: Sequences, lags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states behind the longest lag (row, state), and the observation at each lag before them (row, lag, ...)."""
    hidden = np.asarray(jax.vmap(jax.vmap(vector_of))(states(model, data)), np.float64)
    sequence, step = np.nonzero(data.valid & (np.arange(data.length) >= lags[-1]))
    return hidden[sequence, step], data.values[sequence[:, None], step[:, None] - lags]


def _of_numbers(lags: np.ndarray, hidden: np.ndarray, past: np.ndarray, held: np.ndarray, truth: np.ndarray) -> Memory:
    past, truth = (part.reshape(len(part), len(lags), -1).astype(float) for part in (past, truth))
    read = least_squares(hidden, past.reshape(len(past), -1))(held).reshape(truth.shape)
    return Memory(lags, len(held), r_squared=r_squared(truth, read, np.ones(truth.shape[:2], bool)))


def _of_symbols(
    lags: np.ndarray, symbols: int, hidden: np.ndarray, past: np.ndarray, held: np.ndarray, truth: np.ndarray
) -> Memory:
    one_hot = np.eye(symbols)[past]
    log_probs = np.stack([softmax_regression(hidden, one_hot[:, place])(held) for place in range(len(lags))], axis=1)
    shares = (one_hot.sum(axis=(0, 1)) + 1) / (one_hot[..., 0].size + symbols)
    doubt = symbols / (len(hidden) + symbols)  # so many steps were seen: none of them makes a symbol impossible
    log_probs = np.logaddexp(np.log1p(-doubt) + log_probs, np.log(doubt * shares))
    said = np.take_along_axis(log_probs, truth[..., None], axis=-1)[..., 0]
    frequent = np.eye(symbols)[truth].mean(axis=0)
    doubtful = -(frequent * np.log(np.where(frequent > 0, frequent, 1.0))).sum(axis=-1)
    saved = (said.mean(axis=0) + doubtful) / np.log(2)
    accuracy = (log_probs.argmax(axis=-1) == truth).mean(axis=0)
    return Memory(lags, len(held), accuracy=accuracy, chance=float((truth == shares.argmax()).mean()), bits=saved)
