"""Models that take one observation at a time, by compiled steps: no tracing, no dispatch, a few microseconds.

A cell, a head or an emission says what it is made of by its property `streamed`, in the words of this file, and raises
AttributeError where it is made of something else. `network`, `chain` and `kalman` lay the arrays out as kernels want
them: gate by gate, padded to whole vectors, with the axes (from, to).
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from hiddenstate.native.kalman import LARGEST
from hiddenstate.native.library import _loaded

UPDATES = ("vanilla", "leaky", "gru", "gru-before", "lstm", "mingru", "minlstm", "linear", "turning", "gated", "skip")
NONLINEARITIES = ("identity", "tanh", "sigmoid", "relu")
READINGS = ("symbol", "number", "count")
FAMILIES = ("categorical", "bernoulli", "normal", "poisson")
EMISSIONS = ("table", "normal", "poisson")
KINDS = ("symbol", "bit", "real", "count")
MODELS = ("network", "chain", "kalman")
_PADDING = 16
_LARGEST_TABLE = 2**24


class StreamedLayer(NamedTuple):
    """A cell: gates stacked in its order, of `units` each; `own` is what else its update takes, (..., units).

    `lags` says how many steps back the blocks of the recurrent weight look, where they look back further than one.
    """

    update: str
    units: int
    input_weight: Any
    bias: Any = None
    recurrent_weight: Any = None
    own: Any = None
    nonlinearity: str = "identity"
    logarithms: bool = False
    lags: tuple[int, ...] = ()


class StreamedHead(NamedTuple):
    """A head: a linear map to parameters in `blocks` of equal length, and how a cell reads what it predicts."""

    family: str
    kind: str
    event_shape: tuple[int, ...]
    weight: Any
    bias: Any
    blocks: int = 1
    reading: str = "number"
    shift: Any = 0.0
    spread: Any = 1.0
    location: Any = None
    scale: Any = None


class StreamedEmission(NamedTuple):
    """An emission: arrays (entry, state), of a table (entry, level, state), as csrc/kernels/streaming.h names them."""

    emission: str
    kind: str
    event_shape: tuple[int, ...]
    arrays: tuple[Any, ...]
    scale: Any = None


class Copied(NamedTuple):
    """The transitions of a state that is kept with the probability `stay`, else drawn: `fresh` sums to the rest."""

    stay: Any
    fresh: Any


class StreamedSystem(NamedTuple):
    """A linear Gaussian model: matrices with the axes (to, from), and square roots of covariances.

    The last two are None where a model takes no inputs there.
    """

    transition: Any
    shift: Any
    noise: Any
    emission: Any
    offset: Any
    emission_noise: Any
    transition_input: Any = None
    emission_input: Any = None


class Streams:
    """Streams of one model: `push` takes an observation of each and gives its log-probability.

    `push` gives None, and nothing has changed, where what it got is not plainly an observation of the model. Of several
    streams, it takes one leading axis more and gives the bytes of as many doubles. `snapshot` gives the bytes of all
    states, to be turned into arrays by `leaves`.
    """

    def __init__(self, description: dict[str, Any], dtype: np.dtype, streams: int | None):
        module: Any = _loaded()[0]
        kind = module.Streams32 if dtype == np.float32 else module.Streams64
        held = kind({**description, "streams": streams or 0})
        self.push, self.snapshot, self._set = held.push, held.states, held.set_states
        self.dtype, self._lead = dtype, () if streams is None else (streams,)

    def leaves(self, snapshot: bytes, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """The arrays of a state, of these shapes without the axis of streams."""
        flat = np.frombuffer(snapshot, self.dtype).reshape(*self._lead, -1)
        found, at = [], 0
        for shape in shapes:
            *parts, units = shape
            size = math.prod(parts) * _padded(units)
            block = flat[..., at : at + size].reshape(*self._lead, *parts, _padded(units))
            found.append(block[..., :units])
            at += size
        return found

    def set_leaves(self, leaves: Sequence[Any]) -> None:
        """Go on from a state with these arrays."""
        rows = [_pad(np.asarray(leaf, self.dtype), -1).reshape(*self._lead, -1) for leaf in leaves]
        self._set(np.concatenate(rows, axis=-1).tobytes())


Streamer: TypeAlias = Callable[[int | None], Streams]
"""Makes so many streams of a model; None for one that has no axis of streams."""


def network(
    layers: Sequence[StreamedLayer], head: StreamedHead, *, inputs: int, dtype: np.dtype, embedding: Any = None
) -> Streamer:
    """Streams of a network of these layers and this head; AttributeError where no kernel runs it."""
    exact = _checked(dtype)
    entries = math.prod(head.event_shape)
    symbols = head.reading == "symbol"
    bias = exact(head.bias)
    levels = len(bias) if symbols else 0
    table, first = None, exact(layers[0].input_weight)
    if symbols:
        read, rest = np.split(first, [first.shape[1] - inputs], axis=1)
        codes = read.T if embedding is None else exact(embedding) @ read.T
        if codes.size > _LARGEST_TABLE:
            raise AttributeError("the table of symbols would be too large.")
        if layers[0].bias is not None:
            codes = codes + exact(layers[0].bias)
        table, first = _gates(codes, layers[0].units), rest
    described = [_layer(layers[0]._replace(input_weight=first), None, exact)]
    described += [_layer(layer, below.units, exact) for below, layer in pairwise(layers)]
    hidden = exact(head.weight)
    shown, given = np.split(hidden.T, [hidden.shape[1] - inputs])
    width = len(bias) // head.blocks
    weight = _gates(np.concatenate([_gates(shown.T, layers[-1].units).T, given]), width)
    padding = -np.inf if head.family == "categorical" else 0.0

    def units(value: Any, fill: float) -> np.ndarray | None:
        return None if value is None else _pad(np.broadcast_to(exact(value), (entries,)), 0, fill)

    description = {
        "model": MODELS.index("network"),
        "layers": described,
        "reading": READINGS.index(head.reading),
        "entries": entries,
        "inputs": inputs,
        "levels": levels,
        "table": table,
        "shift": None if symbols else np.broadcast_to(exact(head.shift), (entries,)).copy(),
        "spread": None if symbols else np.broadcast_to(exact(head.spread), (entries,)).copy(),
        "family": FAMILIES.index(head.family),
        "parameters": weight.shape[1],
        "weight": weight,
        "head_bias": _pad(bias.reshape(head.blocks, width), 1, padding).reshape(-1),
        "location": units(head.location, 0.0),
        "scale": units(head.scale, 1.0),
        "kind": KINDS.index(head.kind),
        "vector": len(head.event_shape),
        "partial": 0,
    }
    return _streamer(description, dtype)


def chain(transition: Any, emission: StreamedEmission, *, dtype: np.dtype) -> Streamer:
    """Streams of a hidden Markov chain with this matrix, or `Copied`, and emission; AttributeError as above."""
    exact = _checked(dtype)
    is_copied = isinstance(transition, Copied)
    moves = exact(transition.fresh if is_copied else transition)
    given = [_pad(exact(array), -1) for array in emission.arrays]
    arrays = dict(zip_longest(("first", "second", "third", "fourth"), given))
    description = {
        "model": MODELS.index("chain"),
        "emission": EMISSIONS.index(emission.emission),
        "entries": math.prod(emission.event_shape),
        "levels": given[0].shape[1] if emission.emission == "table" else 0,
        "states": _padded(len(moves)),
        "transition": None if is_copied else _pad(_pad(moves, 0), 1),
        "fresh": _pad(moves, 0) if is_copied else None,
        "stay": exact(transition.stay).item() if is_copied else 0.0,
        **arrays,
        "scale": None if emission.scale is None else exact(emission.scale),
        "kind": KINDS.index(emission.kind),
        "vector": len(emission.event_shape),
        "partial": 1,
    }
    return _streamer(description, dtype)


def kalman(system: StreamedSystem, *, inputs: int, is_vector: bool, dtype: np.dtype) -> Streamer:
    """Streams of a linear Gaussian model, whose state is a mean and a covariance; AttributeError as above."""
    exact = _checked(dtype)
    transition, shift, noise, emission, offset, emission_noise = (exact(part).astype(float) for part in system[:6])
    event, state = emission.shape
    if max(event, state) > LARGEST:
        raise AttributeError(f"the kernels of streams have at most {LARGEST} numbers in a state or an observation.")

    def driven(part: Any, size: int) -> np.ndarray:
        return np.zeros((inputs, size)) if part is None else exact(part).astype(float).T

    root = np.zeros((event, event))
    root[:, : emission_noise.shape[1]] = emission_noise
    arrays = {
        "transition": transition.T,
        "shift": shift,
        "transition_input": driven(system.transition_input, state),
        "noise": noise @ noise.T,
        "emission": emission,
        "emission_columns": emission.T,
        "offset": offset,
        "emission_input": driven(system.emission_input, event),
        "emission_noise": root @ root.T,
        "emission_root": root.T,
    }
    description = {
        "model": MODELS.index("kalman"),
        "state": state,
        "entries": event,
        "inputs": inputs,
        "levels": 0,
        **{name: _pad(array, -1) for name, array in arrays.items()},
        "kind": KINDS.index("real"),
        "vector": int(is_vector),
        "partial": 1,
    }
    return _streamer(description, dtype)


def supported(nonlinearity: str) -> str:
    """The same name; AttributeError where the kernels have no such function."""
    if nonlinearity not in NONLINEARITIES:
        raise AttributeError(f"the kernels of streams have no {nonlinearity}.")
    return nonlinearity


def _streamer(description: dict[str, Any], dtype: np.dtype) -> Streamer:
    if _loaded()[0] is None:
        raise AttributeError(_loaded()[1].reason)
    return lambda streams: Streams(description, dtype, streams)


def _layer(layer: StreamedLayer, below: int | None, exact: Callable[[Any], np.ndarray]) -> dict[str, Any]:
    """A layer as the kernel takes it; `below` are the units of the layer that it reads."""
    units = layer.units
    weight = exact(layer.input_weight)
    gates = len(weight) // units
    read = weight.T if below is None else _gates(weight, below).T
    bias = np.zeros(gates * units, weight.dtype) if layer.bias is None else exact(layer.bias)
    recurrent, own = layer.recurrent_weight, layer.own
    if layer.lags:
        own = np.asarray(layer.lags, weight.dtype)
    return {
        "update": UPDATES.index(layer.update),
        "nonlinearity": NONLINEARITIES.index(layer.nonlinearity),
        "logarithms": int(layer.logarithms),
        "reads": len(read),
        "units": _padded(units),
        "gates": gates,
        "input_weight": _gates(read, units),
        "bias": _gates(bias, units),
        "recurrent_weight": None if recurrent is None else _gates(_gates(exact(recurrent), units).T, units),
        "own": None if own is None else _pad(exact(own), -1),
        "lags": len(layer.lags),
    }


def _checked(dtype: np.dtype) -> Callable[[Any], np.ndarray]:
    """Arrays as they are, where they are of that precision (or a plain number) and a kernel knows it."""
    if dtype not in (np.float32, np.float64):
        raise AttributeError(f"no kernel computes in {dtype}.")

    def exact(value: Any) -> np.ndarray:
        array = np.asarray(value, dtype if isinstance(value, float) else None)
        if array.dtype != dtype:
            raise AttributeError(f"the model holds {array.dtype} beside {dtype}.")
        return np.ascontiguousarray(array)

    return exact


def _padded(size: int) -> int:
    return -(-size // _PADDING) * _PADDING


def _pad(array: np.ndarray, axis: int, fill: float = 0.0) -> np.ndarray:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, _padded(array.shape[axis]) - array.shape[axis])
    return np.ascontiguousarray(np.pad(array, widths, constant_values=fill))


def _gates(array: np.ndarray, units: int) -> np.ndarray:
    """An array whose last axis is made of gates of so many units, each of them padded."""
    gates = array.shape[-1] // units
    split = array.reshape(*array.shape[:-1], gates, units)
    return _pad(split, -1).reshape(*array.shape[:-1], gates * _padded(units))
