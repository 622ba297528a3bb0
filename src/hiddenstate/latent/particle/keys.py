"""Random keys as arrays that every file and state can hold."""

import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.core import checked_key


def words_of(key: PRNGKeyArray) -> Array:
    """The numbers of a key of one fixed generator, from any key."""
    return jr.bits(checked_key(key), (2,), jnp.uint32)


def key_of(words: Array) -> PRNGKeyArray:
    """The key of these numbers."""
    return jr.wrap_key_data(words, impl="threefry2x32")
