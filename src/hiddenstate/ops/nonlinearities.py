"""Nonlinearities by name, so that a cell's configuration is plain text."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hiddenstate._types import Array

NONLINEARITIES: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "identity": lambda a: a,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "sin": jnp.sin,
}


def nonlinearity(name: str) -> Callable[[Array], Array]:
    """The function of that name."""
    if name not in NONLINEARITIES:
        raise ValueError(f"nonlinearity is {name!r}; it must be one of {', '.join(NONLINEARITIES)}.")
    return NONLINEARITIES[name]
