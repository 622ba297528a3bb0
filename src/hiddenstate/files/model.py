"""`save` and `load`."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate import catalogue
from hiddenstate.core import FileError, HiddenStateError
from hiddenstate.core.parameters import real_dtype
from hiddenstate.core.storage import VERSION, read_tensors, write_tensors
from hiddenstate.files.tree import Decoder, encode

FORMAT = 1
"""The version of the layout of model files that this code writes; it reads this one and all before it."""

_ = catalogue.families  # imported so that every class of the library has registered itself

_OTHERS = {"checkpoint": "a training checkpoint; give it to hs.fit(..., checkpoint=)"}


def save(model: eqx.Module, path: str | Path) -> None:
    """Write a model to one file, whole or not at all.

    The file is in the safetensors format: arrays, and a JSON header that says what they belong to. It holds
    no code. The same model gives the same bytes.
    """
    if not isinstance(model, eqx.Module):
        raise HiddenStateError(f"hs.save takes a model; got {type(model).__name__}.")
    arrays: dict[str, np.ndarray] = {}
    tree = encode(model, arrays)
    write_tensors(path, arrays, {"format": FORMAT, "library": VERSION, "kind": "model", "model": tree})


def load(path: str | Path, *, dtype: Any = None) -> Any:
    """The model in a file that `save` wrote, with the same predictions bit for bit.

    Only classes registered in this process are built, and none of their code is run by loading. `dtype`
    (float32 or float64) converts floating arrays; without it they keep the type they were saved in.
    """
    real = real_dtype(dtype)
    arrays, head = read_tensors(path)
    _check(head, path)
    decoder = Decoder(arrays, lambda name, array: _as_jax(name, array, real))
    try:
        model = decoder.decode(head.get("model"))
    except FileError as error:
        raise FileError(f"{path} cannot be loaded: {error}") from None
    if not isinstance(model, eqx.Module):
        raise FileError(f"{path} cannot be loaded: it holds {type(model).__name__}, not a model.")
    unused = sorted(set(arrays) - decoder.used)
    if unused:
        raise FileError(f"{path} cannot be loaded: nothing refers to its arrays {', '.join(unused[:3])}.")
    return model


def header(path: str | Path) -> dict[str, Any]:
    """What a file of hiddenstate says of itself: format, version that wrote it, kind and structure."""
    return read_tensors(path)[1]


def _check(head: dict[str, Any], path: str | Path) -> None:
    """Raise the sentence that says why this header is not one of a model that we can read."""
    kind, format_ = head.get("kind"), head.get("format")
    if kind != "model":
        what = "the state of a Stream; give it to hs.Stream.restore" if "stream" in head else _OTHERS.get(str(kind))
        raise FileError(f"{path} holds no model, but {what or 'something unknown'}.")
    if not isinstance(format_, int) or isinstance(format_, bool) or format_ < 1:
        raise FileError(f"{path} is damaged: its format is {format_!r}.")
    if format_ > FORMAT:
        raise FileError(
            f"{path} was written by a newer version: format {format_}; this version reads {FORMAT}. "
            "Upgrade hiddenstate."
        )


def _as_jax(name: str, array: np.ndarray, real: np.dtype | None) -> jax.Array:
    """The array on JAX's side, never narrowed unless `real` asks for it."""
    target = array.dtype
    if real is not None and np.issubdtype(target, np.inexact):
        target = np.result_type(real, np.complex64) if np.iscomplexobj(array) else real
    kept = jax.dtypes.canonicalize_dtype(target)
    if kept != target and not (real is not None and np.array_equal(array.astype(kept), array)):
        raise FileError(
            f"the array {name!r} is {target}, and JAX keeps 32 bits: call "
            "jax.config.update('jax_enable_x64', True) first, or load it with dtype='float32'."
        )
    return jnp.asarray(array.astype(kept))
