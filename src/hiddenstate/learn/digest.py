"""Digests: what is equal has an equal one, in any process."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np


def digest_of(leaves: Sequence[Any]) -> str:
    """A digest of arrays and plain values, equal in any process."""
    digest = hashlib.sha256()
    for leaf in leaves:
        if isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
            array = plain(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            digest.update(_without_addresses(repr(leaf)).encode())
    return f"sha256:{digest.hexdigest()}"


def plain(leaf: Any) -> np.ndarray:
    """An array, or a random key, as numbers."""
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def is_key(leaf: Any) -> bool:
    """Whether it is a random key of the new kind, which is no array of numbers."""
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _without_addresses(text: str) -> str:
    """The same text for the same function in any process."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)
