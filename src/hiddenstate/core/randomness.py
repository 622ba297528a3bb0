"""Keys: always given by the caller, never made here."""

from typing import Any
from zlib import crc32

import jax

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core.errors import HiddenStateError


def checked_key(key: Any) -> PRNGKeyArray:
    """The key itself, if it is one."""
    if not isinstance(key, jax.Array):
        raise HiddenStateError(f"the key is {key!r}; it must be a JAX random key, such as jax.random.key(0).")
    if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape != ():
        raise HiddenStateError(f"the key is an array of {key.shape} keys; give one of them.")
    return key


def key_for(name: str, key: PRNGKeyArray) -> PRNGKeyArray:
    """The key of what has that name, whatever else takes one from the same key and in which order."""
    return jax.random.fold_in(key, crc32(name.encode()))
