"""Published initialisations of weights. Each takes a key and a shape (out, in) and returns the array."""

import math

import jax.nn.initializers as jinit
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Initialiser, PRNGKeyArray


def orthogonal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Orthonormal rows, or columns if these are fewer: a square matrix keeps lengths (Saxe et al. 2014)."""
    return jinit.orthogonal()(key, shape)


def glorot(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Uniform in ±sqrt(6 / (in + out)) (Glorot and Bengio 2010)."""
    out, width = shape
    limit = math.sqrt(6 / max(1, out + width))
    return jr.uniform(key, shape, minval=-limit, maxval=limit)


def kaiming(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Normal with variance 2 / in, for rectified units (He et al. 2015; Tripp 2023, the graph with a loop)."""
    return jr.normal(key, shape) * math.sqrt(2 / max(1, shape[1]))


def scaled_identity(key: PRNGKeyArray, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    """The identity times a scale, for rectified units that remember (Le, Jaitly and Hinton 2015)."""
    del key
    return scale * jnp.eye(shape[0], shape[1])


def fan_in_uniform(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Uniform in ±1/sqrt(in) (LeCun et al. 1998), what most recurrent layers in use start from."""
    limit = 1 / math.sqrt(max(1, shape[1]))
    return jr.uniform(key, shape, minval=-limit, maxval=limit)


INITIALISERS: dict[str, Initialiser] = {
    "orthogonal": orthogonal,
    "glorot": glorot,
    "kaiming": kaiming,
    "scaled_identity": scaled_identity,
    "fan_in_uniform": fan_in_uniform,
}


def initialiser(name_or_function: "str | Initialiser", argument: str = "initialiser") -> Initialiser:
    """The initialiser of that name; a function is taken as it is. `argument` is what an error calls it."""
    if callable(name_or_function):
        return name_or_function
    if name_or_function not in INITIALISERS:
        raise ValueError(
            f"{argument} is {name_or_function!r}; it must be one of {', '.join(INITIALISERS)}, or a function."
        )
    return INITIALISERS[name_or_function]


def stacked(function: Initialiser, key: PRNGKeyArray, count: int, shape: tuple[int, int]) -> Array:
    """`count` matrices of that shape, drawn one by one and stacked: (count * out, in).

    So the gates of a fused weight each start as the publication says, whatever their number.
    """
    return jnp.concatenate([function(k, shape) for k in jr.split(key, count)])
