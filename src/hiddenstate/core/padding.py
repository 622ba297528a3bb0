"""From what a caller gave to padded arrays, and where to cut them."""

from typing import Any

import jax
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core.errors import DataError

ALIGNMENT = 64
"""Bytes: a line of the cache, at which XLA wants arrays to begin."""


def as_list(arrays: Any) -> list[Any] | None:
    """The arrays of a list of sequences; None where `arrays` is one sequence."""
    if isinstance(arrays, list | tuple):
        nested = [isinstance(a, list | tuple) or np.ndim(a) > 0 for a in arrays]
        if arrays and not any(nested):
            return None
        if all(nested):
            return list(arrays)
        raise DataError("the data mix single values with arrays; give a list of arrays, or one array.")
    if np.ndim(arrays) == 3:
        return list(np.asarray(arrays))
    return None


def as_array(value: Any, name: str) -> np.ndarray:
    """Numbers as the library keeps them: 32-bit whole numbers or floats."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(f"{name} is no regular array: {error}.") from None
    if array.dtype == bool:
        return array.astype(np.int32)
    if np.issubdtype(array.dtype, np.integer):
        if array.size and (array.max() > np.iinfo(np.int32).max or array.min() < np.iinfo(np.int32).min):
            raise DataError(f"{name} holds whole numbers that do not fit in 32 bits.")
        return array.astype(np.int32)
    if np.issubdtype(array.dtype, np.floating):
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    if array.size == 0:
        return array.astype(np.float64)
    raise DataError(
        f"{name} holds {array.dtype} values; observations are numbers. hs.read reads text and keeps its vocabulary."
    )


def check_alike(items: list[np.ndarray]) -> None:
    """Raise DataError unless all sequences have observations of one shape."""
    for i, item in enumerate(items):
        if item.ndim not in (1, 2):
            raise DataError(f"sequence {i} has shape {item.shape}; it must be (time,) or (time, columns).")
        if item.shape[1:] != items[0].shape[1:]:
            raise DataError(
                f"sequence {i} has observations of shape {item.shape[1:]}, but those of sequence 0 have "
                f"{items[0].shape[1:]}."
            )


def as_known(value: Any, name: str) -> np.ndarray:
    """An array of inputs, which are numbers of any type."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(f"{name} is no regular array: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {array.dtype} values; inputs are numbers.")
    return array


def mates(given: Any, single: bool, items: list[np.ndarray], name: str, dtype: type) -> list[np.ndarray]:
    """The arrays of `missing` or `inputs` that go with each sequence, checked against its length."""
    if single or (len(items) == 1 and not isinstance(given, list | tuple) and np.ndim(given) < 3):
        given = [given]
    arrays = [np.asarray(a, dtype=bool) if dtype is bool else as_known(a, f"{name}[{i}]") for i, a in enumerate(given)]
    if len(arrays) != len(items):
        raise DataError(f"{name} holds {len(arrays)} arrays for {len(items)} sequences.")
    for i, (array, item) in enumerate(zip(arrays, items, strict=True)):
        if array.ndim not in (1, 2) or len(array) != len(item):
            raise DataError(f"{name}[{i}] has shape {array.shape}, but sequence {i} has {len(item)} steps.")
    return arrays


def pad(items: list[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths in one, with zeros behind each end."""
    dtype = np.result_type(*items)
    out = np.zeros((len(items), max(len(a) for a in items), *items[0].shape[1:]), dtype)
    for row, item in zip(out, items, strict=True):
        row[: len(item)] = item
    return out


def aligned(array: np.ndarray) -> np.ndarray:
    """The array at an address where compiled functions can read it as it is; elsewhere JAX copies it at every call."""
    if array.ctypes.data % ALIGNMENT == 0 and array.flags.c_contiguous:
        return array
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    out = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def inside(lengths: np.ndarray, time: int) -> np.ndarray:
    """A boolean array (sequence, time): True at real steps."""
    return np.arange(time) < np.asarray(lengths)[:, None]


def generator(key: PRNGKeyArray) -> np.random.Generator:
    """NumPy's generator seeded from a JAX key: shuffling happens on the host."""
    data = jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return np.random.default_rng(np.asarray(data).ravel().tolist())


def cuts(fractions: tuple[float, ...], total: int, what: str) -> list[int]:
    """Where to cut `total` things into parts of these fractions and the rest."""
    if not fractions or min(fractions) <= 0 or sum(fractions) >= 1:
        raise DataError(
            f"the fractions {fractions} must be positive and sum to less than 1; the rest is the last part."
        )
    cuts = [round(total * share) for share in np.cumsum(fractions)]
    if min(np.diff([0, *cuts, total])) < 1:
        raise DataError(
            f"there are too few {what} ({total}) for {len(fractions) + 1} parts, of the fractions "
            f"{', '.join(f'{share:g}' for share in fractions)} and the rest; give more data."
        )
    return cuts
