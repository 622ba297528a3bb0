"""Weights of torch's recurrent layers, taken over as they are and given back. torch itself is not needed."""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from safetensors.numpy import save as to_bytes

from hiddenstate.cells import GRU, LSTM, Cell, Vanilla
from hiddenstate.core import FileError, HiddenStateError, name_of
from hiddenstate.core.parameters import real_dtype
from hiddenstate.core.storage import read_arrays, write_bytes
from hiddenstate.networks import Bidirectional, Stack

Body: TypeAlias = Cell | Bidirectional

_NAME = re.compile(r"(?P<prefix>(?:.*\.)?)(?:weight|bias)_(?:ih|hh|hr)_l(?P<layer>\d+)(?:_reverse)?")
_WEIGHTS = ("weight_ih", "weight_hh")
_BIASES = ("bias_ih", "bias_hh")
_DIRECTIONS = ("", "_reverse")
_CELLS: dict[int, type[Cell]] = {1: Vanilla, 3: GRU, 4: LSTM}
"""By the number of matrices that torch stacks in one array."""
_NONLINEARITIES = ("tanh", "relu")


# -- from torch ----------------------------------------------------------------------------------------------


def from_torch(
    weights: Mapping[str, Any] | str | PathLike[str],
    *,
    nonlinearity: str = "tanh",
    prefix: str | None = None,
    dtype: Any = None,
) -> Body:
    """The cell, `Stack` or `Bidirectional` with the weights of a torch.nn.RNN, GRU or LSTM.

    `weights` is a state dict (names to arrays of any kind) or the path of a safetensors file, with torch's names:
    ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0``, and so on for further layers and for
    ``_reverse``. Which of the three it is, how many layers, whether in both directions and whether with biases follows
    from names and shapes; of the nonlinearity of a torch.nn.RNN (``tanh`` or ``relu``) the weights say nothing. Among
    the names of a larger module the recurrent layer is found by itself; where there are several, `prefix` says which,
    such as ``"encoder.rnn"``.

    Arrays keep their type; `dtype` (float32 or float64) converts them, and is needed where they are of half precision.

    >>> body = hs.from_torch("model.safetensors", prefix="encoder.rnn")  # doctest: +SKIP
    """
    if nonlinearity not in _NONLINEARITIES:
        raise HiddenStateError(f"nonlinearity is {nonlinearity!r}; a torch.nn.RNN has 'tanh' or 'relu'.")
    given = _below(_prefix(_named(weights), prefix), _named(weights))
    layers, directions, biased = _structure(given)
    arrays = {name: _array(name, value, real_dtype(dtype)) for name, value in given.items()}
    kind, hidden = _kind(arrays["weight_hh_l0"])
    if kind is not Vanilla and nonlinearity != "tanh":
        raise HiddenStateError(f"nonlinearity is {nonlinearity!r}, but the weights are those of a {kind.__name__}.")
    _check_shapes(arrays, hidden, len(directions))
    made = []
    for layer in range(layers):
        cells = [
            _cell(kind, [arrays[f"{part}_l{layer}{direction}"] for part in _parts(biased)], nonlinearity)
            for direction in directions
        ]
        made.append(Bidirectional(*cells) if len(cells) == 2 else cells[0])
    return made[0] if layers == 1 else Stack(made)


def _named(weights: Any) -> Mapping[str, Any]:
    """The arrays by their names, those of a file too."""
    if isinstance(weights, str | PathLike):
        path = Path(weights)
        if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
            raise FileError(
                f"{path} looks like a pickle of torch, which can run code and is not read. Where torch is, write a "
                "safetensors file: safetensors.torch.save_file(module.state_dict(), path)."
            )
        return read_arrays(path)
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
        raise HiddenStateError(
            f"weights is a {type(weights).__name__}; it must map names to arrays, as module.state_dict() does, or be "
            "the path of a safetensors file."
        )
    return weights


def _prefix(given: Mapping[str, Any], prefix: str | None) -> str:
    """What the names of the one recurrent layer begin with."""
    matches = (_NAME.fullmatch(name) for name in given)
    found = sorted({match["prefix"] for match in matches if match is not None})
    if prefix is not None:
        prefix = prefix if prefix in ("", *found) else f"{prefix}."
        found = [prefix] if prefix in found else []
    if len(found) == 1:
        return found[0]
    if found:
        raise HiddenStateError(
            f"weights holds several recurrent layers: {_listed(repr(name.removesuffix('.')) for name in found)}; say "
            "which one with prefix=."
        )
    sought = f"{prefix or ''}weight_ih_l0"
    raise HiddenStateError(f"weights has no {sought}, as a torch.nn.RNN, GRU or LSTM would; it has {_listed(given)}.")


def _below(prefix: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of one module, by their names within it; what belongs to the modules inside it is left out."""
    names = {name.removeprefix(prefix): name for name in given if name.startswith(prefix)}
    return {short: given[name] for short, name in names.items() if "." not in short}


def _parts(biased: bool) -> tuple[str, ...]:
    return _WEIGHTS + _BIASES if biased else _WEIGHTS


def _structure(given: Mapping[str, Any]) -> tuple[int, tuple[str, ...], bool]:
    """How many layers, which directions, and whether there are biases; no name may be missing and none too many."""
    projections = [name for name in given if name.startswith("weight_hr_l")]
    if projections:
        raise HiddenStateError(
            f"weights has {projections[0]}: an LSTM with proj_size shows a projection of its state, and no cell of "
            "hiddenstate does."
        )
    matches = [match for match in map(_NAME.fullmatch, given) if match is not None]
    layers = 1 + max(int(match["layer"]) for match in matches)
    directions = _DIRECTIONS if any(name.endswith("_reverse") for name in given) else _DIRECTIONS[:1]
    biased = any(match[0].startswith("bias") for match in matches)
    expected = [f"{part}_l{n}{d}" for n, d, part in product(range(layers), directions, _parts(biased))]
    missing = [name for name in expected if name not in given]
    if missing:
        raise HiddenStateError(f"weights has no {_listed(missing)}, which should go with {_listed(given)}.")
    unknown = [name for name in given if name not in expected]
    if unknown:
        raise HiddenStateError(f"weights has {_listed(unknown)}, which no torch.nn.RNN, GRU or LSTM has.")
    return layers, directions, biased


def _array(name: str, value: Any, dtype: np.dtype | None) -> jax.Array:
    """A copy of the array, which shares no memory with torch, never narrowed unless `dtype` asks for it."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise HiddenStateError(f"{name} cannot be taken as an array: {error}") from None
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise HiddenStateError(f"{name} is of {array.dtype}; weights must be floating-point.")
    target = array.dtype if dtype is None else dtype
    if target not in (np.float32, np.float64):
        raise HiddenStateError(f"{name} is of {target}; models compute in float32 or float64: say dtype='float32'.")
    if jax.dtypes.canonicalize_dtype(target) != target:
        raise HiddenStateError(
            f"{name} is of {target}, and JAX keeps 32 bits: call jax.config.update('jax_enable_x64', True) first, or "
            "say dtype='float32'."
        )
    converted = array.astype(target)
    if not np.isfinite(converted).all():
        raise HiddenStateError(f"{name} holds numbers that are not finite: the weights of a training that diverged?")
    return jnp.array(converted)


def _kind(recurrent: jax.Array) -> tuple[type[Cell], int]:
    """The class of cell whose recurrent weights these are, and its size."""
    rows, columns = recurrent.shape if recurrent.ndim == 2 else (0, 0)
    kind = _CELLS.get(rows // columns) if columns and rows % columns == 0 else None
    if kind is None:
        raise HiddenStateError(
            f"weight_hh_l0 has shape {recurrent.shape}; for hidden_size units it must be (hidden_size, hidden_size) "
            "for an RNN, and have 3 times as many rows for a GRU, 4 times for an LSTM."
        )
    return kind, columns


def _check_shapes(arrays: Mapping[str, jax.Array], hidden: int, directions: int) -> None:
    rows = len(arrays["weight_hh_l0"])
    inputs = arrays["weight_ih_l0"].shape[-1] if arrays["weight_ih_l0"].ndim else 0
    for name, array in arrays.items():
        if name.startswith("bias"):
            expected: tuple[int, ...] = (rows,)
        elif name.startswith("weight_hh"):
            expected = (rows, hidden)
        else:
            expected = (rows, inputs if re.search("_l0", name) else directions * hidden)
        if array.shape != expected:
            raise HiddenStateError(f"{name} has shape {array.shape}; beside the others it must be {expected}.")


def _cell(kind: type[Cell], arrays: list[jax.Array], nonlinearity: str) -> Cell:
    """A cell of that class with torch's arrays: input and recurrent weights, then their biases, if any."""
    inputs, recurrent, *biases = arrays
    options = {"nonlinearity": nonlinearity} if kind is Vanilla else {}
    empty = {"recurrent_init": _empty, "input_init": _empty, "biases": len(biases)}
    cell: Any = kind(inputs.shape[1], recurrent.shape[1], key=jr.key(0), **options, **empty)  # pyright: ignore[reportCallIssue]
    cell = eqx.tree_at(lambda c: (c.input_weight, c.recurrent_weight), cell, (inputs, recurrent))
    if not biases:
        return cell
    if kind is not GRU:
        return eqx.tree_at(lambda c: (c.bias, c.recurrent_bias), cell, tuple(biases))
    gates, candidate = jnp.split(biases[1], [2 * cell.hidden_size])
    where = lambda c: (c.bias, c.recurrent_bias, c.candidate_bias)  # noqa: E731
    return eqx.tree_at(where, cell, (biases[0], gates, candidate))


def _empty(key: Any, shape: tuple[int, ...]) -> jax.Array:
    """Weights that are about to be replaced."""
    del key
    return jnp.zeros(shape)


# -- to torch ------------------------------------------------------------------------------------------------


def to_torch(body: eqx.Module, path: str | PathLike[str] | None = None) -> dict[str, np.ndarray]:
    """The weights of a cell, `Stack` or `Bidirectional` by the names of a torch.nn.RNN, GRU or LSTM.

    Give them to ``load_state_dict`` of a module of the same sizes, each as a tensor; with a `path` they are also put
    there, in a safetensors file. Of a network with a head (`hs.RNN`, `hs.Transducer`, `hs.Summary`) its body is taken.
    What came from torch goes back bit for bit; a cell with one bias gives a second one of zeros, since torch has two or
    none. Only weights are given: an initial state that was learned, dropout between layers and the nonlinearity of a
    torch.nn.RNN are arguments there. What torch's layers cannot compute is refused.

    >>> module.load_state_dict({name: torch.from_numpy(a) for name, a in hs.to_torch(body).items()})  # doctest: +SKIP
    """
    layers = _layers(_body_of(body))
    cells = [cell for layer in layers for cell in layer]
    for cell in cells:
        _refuse(cell)
    _check_alike(layers)
    biased = any(cell.bias is not None or cell.recurrent_bias is not None for cell in cells)
    arrays = {
        f"{part}_l{number}{direction}": np.array(array)
        for number, layer in enumerate(layers)
        for direction, cell in zip(_DIRECTIONS, layer, strict=False)
        for part, array in zip(_parts(biased), _arrays(cell), strict=False)
    }
    if path is not None:
        write_bytes(Path(path), to_bytes(arrays, {"format": "pt"}))
    return arrays


def _body_of(model: eqx.Module) -> Body:
    """The recurrent part of a network."""
    if hasattr(model, "decoder"):
        raise HiddenStateError(
            f"body is a {type(model).__name__}, which has two; give its encoder and its decoder, one after the other."
        )
    for part in (model, getattr(model, "cell", None), getattr(model, "body", None)):
        if isinstance(part, Cell | Bidirectional):
            return part
    raise HiddenStateError(
        f"body is a {name_of(model)}; hs.to_torch takes a cell, an hs.Stack, an hs.Bidirectional, or a network made of "
        "one of them."
    )


def _layers(body: Body) -> list[tuple[Any, ...]]:
    """The cells of every layer: one, or one for each direction."""
    layers = (body,)
    if isinstance(body, Stack):
        switched = {
            "residual": body.residual,
            "norm": body.norms is not None,
            "softmax": body.softmax,
            "feedforward": body.feedforward,
        }
        for name, on in switched.items():
            if on:
                raise HiddenStateError(f"the stack has {name}={on}; layers of torch are joined by nothing but dropout.")
        layers = body.cells
    return [(layer.forward, layer.backward) if isinstance(layer, Bidirectional) else (layer,) for layer in layers]


def _refuse(cell: Any) -> None:
    """Raise the sentence that says why torch's layers do not compute what this cell does."""
    if type(cell) not in _CELLS.values():
        raise HiddenStateError(
            f"torch.nn has no layer of {name_of(cell)} cells; it has those of Vanilla, GRU and LSTM."
        )
    if isinstance(cell, Vanilla) and cell.nonlinearity not in _NONLINEARITIES:
        raise HiddenStateError(f"the cell has nonlinearity={cell.nonlinearity!r}; a torch.nn.RNN has 'tanh' or 'relu'.")
    if "signs" in cell.options():
        raise HiddenStateError("the signs of the cell's recurrent weights are bound; those of a torch.nn.RNN are free.")
    if isinstance(cell, GRU) and cell.reset != "after":
        raise HiddenStateError(f"the GRU has reset={cell.reset!r}; that of torch resets after the product.")
    if isinstance(cell, LSTM) and cell.peephole is not None:
        raise HiddenStateError("the LSTM has peepholes; that of torch has none.")
    if isinstance(cell, LSTM) and cell.input != "tanh":
        raise HiddenStateError(f"the LSTM has input={cell.input!r}; that of torch has 'tanh'.")


def _check_alike(layers: list[tuple[Any, ...]]) -> None:
    """One torch module has the same kind of cell, of the same size, in the same directions throughout."""
    told = [
        {
            "directions": len(layer),
            "kind of cell": type(cell).__name__,
            "hidden_size": cell.hidden_size,
            "nonlinearity": getattr(cell, "nonlinearity", None),
        }
        for layer in layers
        for cell in layer
    ]
    for what in told[0]:
        values = sorted({str(facts[what]) for facts in told})
        if len(values) > 1:
            raise HiddenStateError(
                f"the cells differ in their {what}: {_listed(values)}; those of one torch module are all alike."
            )


def _arrays(cell: Any) -> tuple[jax.Array, ...]:
    """Input and recurrent weights and their biases, of which those that the cell does not have are zeros."""
    rows, hidden = cell.recurrent_weight.shape

    def or_zeros(bias: jax.Array | None, size: int) -> jax.Array:
        return jnp.zeros(size, cell.recurrent_weight.dtype) if bias is None else bias

    if isinstance(cell, GRU):
        gates, candidate = or_zeros(cell.recurrent_bias, 2 * hidden), or_zeros(cell.candidate_bias, hidden)
        recurrent_bias = jnp.concatenate([gates, candidate])
    else:
        recurrent_bias = or_zeros(cell.recurrent_bias, rows)
    return cell.input_weight, cell.recurrent_weight, or_zeros(cell.bias, rows), recurrent_bias


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:8]) + (" and others" if len(names) > 8 else "") if names else "no names at all"
