"""What every emission asks of its parameters: each error names the argument, what it got and what it takes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.dtypes import canonicalize_dtype

from hiddenstate.core import HiddenStateError


def precision(*values: Any) -> np.dtype:
    """The floating type of parameters: that of the arrays among them; of plain numbers, JAX's default."""
    kinds = [np.dtype(value.dtype) for value in values if hasattr(value, "dtype")]
    kinds = [kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)]
    return np.dtype(canonicalize_dtype(np.result_type(*kinds) if kinds else float))


def numbers(argument: str, value: Any, *ranks: int) -> np.ndarray:
    """Finite numbers in an array of one of these ranks, in double precision."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise HiddenStateError(f"{argument} is {_short(value)}; it must be a regular array of numbers.") from None
    if ranks and array.ndim not in ranks:
        raise HiddenStateError(
            f"{argument} has shape {array.shape}; it must have {' or '.join(map(str, ranks))} "
            f"{'axis' if ranks == (1,) else 'axes'}, the first for the hidden states."
        )
    if array.size == 0:
        raise HiddenStateError(f"{argument} has shape {array.shape}; it holds no number.")
    refuse(~np.isfinite(array), argument, array, "it must be finite")
    return array


def refuse(bad: np.ndarray, argument: str, array: np.ndarray, due: str) -> None:
    """Raise the sentence about the first bad entry of an array."""
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f"{argument}[{', '.join(map(str, where))}]" if where else argument
        raise HiddenStateError(f"{place} is {array[where]:g}; {due}.")


def shaped(argument: str, array: np.ndarray, shape: tuple[int, ...], because: str) -> np.ndarray:
    """The array, if it has this shape; `because` says where the shape comes from."""
    if array.shape != shape:
        raise HiddenStateError(f"{argument} has shape {array.shape}; it must be {shape}, {because}.")
    return array


def same_states(first: str, states: int, argument: str, array: np.ndarray) -> None:
    """Raise unless both arguments speak of as many states."""
    if array.ndim == 0 or len(array) != states:
        got = "none" if array.ndim == 0 else len(array)
        raise HiddenStateError(
            f"{first} is for {states} hidden states, but {argument} has {got}: its shape is {array.shape}."
        )


def distributions(argument: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rows (along the last axis) of probabilities that sum to one."""
    refuse(array < 0, argument, array, "probabilities are at least 0")
    sums = array.sum(-1)
    bad = np.abs(sums - 1) > (1e-4 if dtype.itemsize < 8 else 1e-6)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        row = f"row {', '.join(map(str, where))} of {argument}" if where else argument
        raise HiddenStateError(f"{row} sums to {sums[where]:.6g}; probabilities must sum to 1.")
    return array / sums[..., None]


def positive(argument: str, array: np.ndarray, what: str) -> np.ndarray:
    """Numbers above zero."""
    refuse(array <= 0, argument, array, f"{what} must be above 0")
    return array


def covariance_matrices(argument: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Symmetric positive definite matrices along the last two axes, made symmetric to the last bit."""
    size = np.abs(array).max(axis=(-2, -1), keepdims=True)
    mirrored = np.swapaxes(array, -2, -1)
    bad = np.abs(array - mirrored) > (1e-4 if dtype.itemsize < 8 else 1e-8) * size
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        there, back = array[where], mirrored[where]
        raise HiddenStateError(
            f"{argument}[{', '.join(map(str, where))}] is {there:g} but its mirror image is {back:g}; "
            "covariances must be symmetric."
        )
    symmetric = (array + mirrored) / 2
    lowest = np.linalg.eigvalsh(symmetric).min(-1)
    bad = lowest <= 0
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        matrix = f"{argument}[{', '.join(map(str, where))}]" if where else argument
        raise HiddenStateError(
            f"{matrix} has the eigenvalue {lowest[where]:.3g}; covariances must be positive definite, with all "
            "eigenvalues above 0."
        )
    return symmetric


def whole(argument: str, value: Any) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise HiddenStateError(f"{argument} is {value!r}; it must be a whole number of at least 1.")
    return int(value)


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) < 80 else said[:77] + "..."
