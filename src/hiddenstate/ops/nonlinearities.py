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


def log_positive(a: Array) -> Array:
    """The logarithm of g(a) = a + 1/2 where a >= 0, sigmoid(a) below: a candidate that is never negative.

    Feng et al. 2024, appendix B, for recurrences in log space. Both branches are finite everywhere, so that
    the one not taken adds no NaN to the gradient.
    """
    return jnp.where(a >= 0, jnp.log(jnp.where(a >= 0, a, 0) + 0.5), jax.nn.log_sigmoid(a))
