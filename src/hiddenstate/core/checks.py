"""Checks of what a person wrote down: each error names the argument, what it got and what it takes."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from hiddenstate.core.errors import HiddenStateError

_ROUNDING = 1e-5


def numbers(value: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Finite floating numbers of that shape (None: any length), in their own precision or JAX's default."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise HiddenStateError(f"{name} is no regular array: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise HiddenStateError(f"{name} holds {array.dtype} values; it must hold numbers.")
    if array.dtype not in (np.float32, np.float64) or not hasattr(value, "dtype"):
        array = array.astype(jnp.result_type(float))
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not fits:
        due = ", ".join("any" if n is None else str(n) for n in shape)
        raise HiddenStateError(f"{name} has shape {array.shape}; it must be ({due}).")
    if not np.isfinite(array).all():
        raise HiddenStateError(f"{name} holds a value that is not finite.")
    return array


def probabilities(value: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Numbers of that shape whose last axis are probabilities: none negative, and they sum to one."""
    array = numbers(value, name, shape)
    if (array < 0).any():
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise HiddenStateError(f"{name} holds {array[where]:g} at {_place(where)}; probabilities are not negative.")
    sums = array.sum(axis=-1)
    wrong = np.abs(sums - 1) > _ROUNDING
    if wrong.any():
        row = tuple(int(i) for i in np.argwhere(wrong)[0])
        said = f"row {_place(row)} of {name} sums" if row else f"{name} sums"
        raise HiddenStateError(f"{said} to {float(sums[row]):.6g}; probabilities must sum to 1.")
    return array / sums[..., None]


def _place(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)
