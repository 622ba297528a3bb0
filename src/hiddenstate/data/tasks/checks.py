"""What every task does first: check its sizes, and make a generator from its key."""

from typing import Any

import jax
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError


def check_sizes(least: int = 1, **sizes: Any) -> None:
    """DataError if one of the named sizes is no whole number of at least `least`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < least:
            raise DataError(f"{name} is {size!r}; it must be a whole number of at least {least}.")


def generator(key: PRNGKeyArray) -> np.random.Generator:
    """NumPy's generator seeded by a JAX key: the same numbers whatever JAX's precision and device."""
    data = jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return np.random.default_rng(np.asarray(data).ravel().tolist())
