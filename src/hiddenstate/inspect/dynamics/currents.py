"""A recurrent network read as a network of neurons: firing rates, currents, excitation and inhibition."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
import polars as pl

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, SequenceModel, has, name_of
from hiddenstate.inference import arrays_for, each_step, sequences_for
from hiddenstate.inspect.dynamics.motion import own_cell
from hiddenstate.strategies import Auto, Strategy


@dataclass(frozen=True, eq=False)
class RateReading:
    r"""The rate-network reading of Linderman's lecture notes ("Theoretical Neuroscience"), on data.

    All arrays (sequence, time, unit) are NaN behind the end of a sequence. `rates` are the states :math:`h_t`, firing
    rates as offsets from a baseline: with tanh they lie between -1 and 1, and a negative one is a neuron that fires
    less than at rest. `excitatory` and `inhibitory` are the currents :math:`\max(W, 0)\, h_t` and
    :math:`\min(W, 0)\, h_t` that positive and negative synapses bring, offsets too: their sum is the input current
    :math:`W h_t`. `external` is what the observation and the bias bring.

    `weight` (unit, unit) is W, row i what unit i receives. `kinds` says of each unit whether all weights that leave it
    excite, all inhibit, or both ("mixed": against Dale's law), and "silent" where none does either; `shares` (unit,) is
    the share of excitation in the magnitudes of its weights. `balance` (unit,) is how much of the two recurrent
    currents into a unit cancels, :math:`1 - \sum_t |e_t + i_t| / \sum_t (|e_t| + |i_t|)`: one where they always
    cancel, zero where they never oppose each other.
    """

    rates: np.ndarray
    excitatory: np.ndarray
    inhibitory: np.ndarray
    external: np.ndarray
    weight: np.ndarray
    kinds: tuple[str, ...]
    shares: np.ndarray
    balance: np.ndarray

    @property
    def recurrent(self) -> np.ndarray:
        """The input currents W h from the units themselves."""
        return self.excitatory + self.inhibitory

    def frame(self) -> pl.DataFrame:
        """One row a unit: its kind, the share of excitation, balance, mean rate and mean sizes of currents."""
        return pl.DataFrame(
            {
                "unit": np.arange(len(self.kinds)),
                "kind": list(self.kinds),
                "share": self.shares,
                "balance": self.balance,
                "rate": np.nanmean(self.rates, axis=(0, 1)),
                "excitatory": np.nanmean(np.abs(self.excitatory), axis=(0, 1)),
                "inhibitory": np.nanmean(np.abs(self.inhibitory), axis=(0, 1)),
                "external": np.nanmean(np.abs(self.external), axis=(0, 1)),
            }
        )


def rates(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> RateReading:
    """Firing rates and currents of a rate network on data: of an `hs.RNN` whose cell is a `Vanilla` or a `Leaky`.

    Any cell will do that has the capability ``currents`` and says its ``dynamics_weight``.
    """
    cell: Any = own_cell(model)
    if not has(cell, "currents") or not has(model, "readout"):
        raise HiddenStateError(
            f"model is a {name_of(model)}; it must be a network of rate units, such as those of hs.cells.Vanilla or "
            "hs.cells.Leaky."
        )
    data = sequences_for(model, data)
    found = _read(model, arrays_for(model, data), strategy)
    state, excitatory, inhibitory, external = (
        np.where(data.valid[..., None], np.asarray(part, np.float64), np.nan) for part in found
    )
    weight = np.asarray(cell.dynamics_weight, np.float64)
    flowing = np.nansum(np.abs(excitatory) + np.abs(inhibitory), axis=(0, 1))
    with np.errstate(invalid="ignore"):
        balance = 1 - np.nansum(np.abs(excitatory + inhibitory), axis=(0, 1)) / flowing
        shares = np.maximum(weight, 0).sum(axis=0) / np.abs(weight).sum(axis=0)
    return RateReading(state, excitatory, inhibitory, external, weight, _kinds(weight), shares, balance)


def _kinds(weight: np.ndarray) -> tuple[str, ...]:
    words = {(True, False): "excitatory", (False, True): "inhibitory", (True, True): "mixed", (False, False): "silent"}
    return tuple(words[bool((column > 0).any()), bool((column < 0).any())] for column in weight.T)


@eqx.filter_jit
def _read(model: Any, arrays: Any, strategy: Strategy) -> tuple[Array, ...]:
    def look(state: Any, element: Any, x: Any, u: Any) -> tuple[Array, ...]:
        del x, u
        return (state, *model.cell.currents(state, element))

    return each_step(model, arrays, strategy, look)[0]
