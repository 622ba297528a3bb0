r"""The minimal GRU read as message passing in a switching state space model.

.. math::

    h_{t+1} = (1 - z_t) \odot h_t + z_t \odot c_t

is an expectation under a switch: with probability :math:`z_t` the state is reset to the candidate, otherwise it is
kept (Feng et al. 2024; the note that reads minGRU as a switching state space model, "Reverse engineering minGRU").
Written out, the state is a sum over when the last reset was.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from hiddenstate._types import Array
from hiddenstate.core import Arrays, DataError, HiddenStateError, Sequences, dtype_of, has, name_of
from hiddenstate.inference import arrays_for, sequences_for


class Explicit(NamedTuple):
    """The states of a cell as sums over the last reset.

    ``states[n, t]`` is the sum over i of ``weights[n, t, i] * values[n, i]``. Entry 0 of `values` (sequence, source,
    unit) is the initial state, entry i the candidate of the i-th observation; `weights` (sequence, time, source, unit)
    sum to one over the sources. NaN behind the end of a sequence.
    """

    states: np.ndarray
    weights: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Switching:
    r"""A cell with gates that see the input only, read as a switching state space model; see `hs.inspect.as_switching`.

    Each unit has a switch of its own. Its gate is :math:`Q(z_t = 1 \mid x_t)`, its candidate
    :math:`\log P(s \mid x_t, z_t = 1)` up to a constant, and its state
    :math:`\mathbb{E}_Q[\log P(s_t \mid x_t, z_t)]`. Only where all units share one gate is that a reading of one switch
    with one state s, a unit for each of its values, and only then do constants that are added to all candidates not
    matter.

    Of a cell in log space the candidate is :math:`g(c) > 0` and not the linear :math:`c`: g(c) is what a reset puts
    into the state, so it is g(c) that stands for the log-probability. "Log space" names how steps are joined, no other
    reading.
    """

    model: Any

    @property
    def cell(self) -> Any:
        """The cell itself, where a network was given."""
        return self.model.cell if has(self.model, "cell_input") else self.model

    def gates(self, data: Any) -> np.ndarray:
        """Q(z_t = 1 | x_t), (sequence, time, unit): how probably each observation resets each unit."""
        logits, _, valid = self._read(data)
        return _known(_sigmoid(logits), valid)

    def candidates(self, data: Any) -> np.ndarray:
        """What each observation resets each unit to, (sequence, time, unit): c, for a cell in log space g(c)."""
        _, candidates, valid = self._read(data)
        return _known(candidates, valid)

    def ages(self, data: Any) -> np.ndarray:
        r"""The posterior over how long ago each unit was reset, (sequence, time, age, unit).

        .. math::

            P(\text{age of the state at } t \text{ is } a) = z_{t-a} \prod_{i=t-a+1}^{t-1} (1 - z_i)

        Entry a - 1 is for a steps before t, so the first is for the observation right before. The state at t has seen
        t - 1 observations: entry t - 1, the last that is not zero, is for the initial state, no reset so far. All sum
        to one. They take memory quadratic in time.
        """
        logits, _, valid = self._read(data)
        weights = _weights(logits)
        time = np.arange(valid.shape[1])
        source = time[:, None] - time
        gathered = np.take_along_axis(weights, np.maximum(source, 0)[None, :, :, None], axis=2)
        return _known(np.where(source[None, :, :, None] >= 0, gathered, 0.0), valid)

    def explicit(self, data: Any) -> Explicit:
        r"""The states as sums over the last reset, by time squared many weights: for looking, not for running.

        .. math::

            h_t = \Bigl(\prod_{j=1}^{t-1} (1 - z_j)\Bigr) h_1
                + \sum_{i=1}^{t-1} z_i \Bigl(\prod_{j=i+1}^{t-1} (1 - z_j)\Bigr) c_i

        The states are those of `hs.states`: at t they have seen what came before.
        """
        logits, candidates, valid = self._read(data)
        start = np.broadcast_to(np.asarray(self.model.initial(), np.float64), candidates[:, :1].shape)
        values = np.concatenate([start, candidates[:, :-1]], axis=1)
        weights = _weights(logits)
        states = np.einsum("ntiu,niu->ntu", weights, np.where(valid[..., None], values, 0.0))
        return Explicit(_known(states, valid), _known(weights, valid), _known(values, valid))

    def _read(self, data: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The logits of the gates and the candidates, in double precision, and where there are any."""
        if has(self.model, "cell_input"):
            data = sequences_for(self.model, data)
            arrays = arrays_for(self.model, data)
        else:
            data = _vectors(data, self.model.input_size)
            arrays = data.arrays(dtype_of(self.model))
        logits, candidates = _gates_and_candidates(self.model, arrays)
        return np.asarray(logits, np.float64), np.asarray(candidates, np.float64), data.valid


def as_switching(min_gru: Any) -> Switching:
    """A minimal GRU (or minimal LSTM), or an `hs.RNN` with one, read as a switching state space model.

    The data of a network are its observations, those of a cell by itself are sequences of vectors.
    """
    cell = min_gru.cell if has(min_gru, "cell_input") else min_gru
    if not has(cell, "gate_and_candidate"):
        raise HiddenStateError(
            f"min_gru is a {name_of(min_gru)}; it must be an hs.cells.MinGRU or MinLSTM, or an hs.RNN with one: only "
            "their gates see nothing but the input."
        )
    return Switching(min_gru)


@eqx.filter_jit
def _gates_and_candidates(model: Any, arrays: Arrays) -> tuple[Array, Array]:
    def one(x: Any, u: Any) -> tuple[Array, Array]:
        if has(model, "cell_input"):
            return model.cell.gate_and_candidate(model.cell_input(x, u))
        return model.gate_and_candidate(x)

    return jax.vmap(jax.vmap(one))(arrays.values, arrays.inputs)


def _weights(logits: np.ndarray) -> np.ndarray:
    """The share of each source in each state, (sequence, time, source, unit): zero from its own step on."""
    log_kept = -np.logaddexp(0.0, logits[:, :-1])
    since = np.concatenate([np.zeros_like(logits[:, :1]), np.cumsum(log_kept, axis=1)], axis=1)
    log_reset = np.concatenate([np.zeros_like(logits[:, :1]), -np.logaddexp(0.0, -logits[:, :-1])], axis=1)
    time = np.arange(logits.shape[1])
    seen = (time <= time[:, None])[None, :, :, None]
    return np.where(seen, np.exp(np.where(seen, since[:, :, None] - since[:, None] + log_reset[:, None], 0.0)), 0.0)


def _vectors(data: Any, size: int) -> Sequences:
    """What a cell by itself reads."""
    if not isinstance(data, Sequences):
        several = not isinstance(data, list | tuple) and np.ndim(data) == 3
        data = Sequences.padded(data) if several else Sequences.of(data)
    if data.event_shape != (size,):
        raise DataError(f"each step has shape {data.event_shape}, but the cell reads vectors of shape ({size},).")
    if data.has_missing:
        raise DataError("the data have missing values, and a cell reads every one.")
    return data


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -logits))


def _known(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    return np.where(valid.reshape(valid.shape + (1,) * (values.ndim - 2)), values, np.nan)
