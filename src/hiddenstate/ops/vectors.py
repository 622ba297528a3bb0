"""A tree of arrays as one vector of real numbers, and back."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float


def as_vector(tree: Any) -> Float[Array, " size"]:
    """All numbers of a tree of arrays, one leaf after the other; of complex leaves the real parts, then the others."""
    return jnp.concatenate([_flat(leaf) for leaf in jax.tree.leaves(tree)])


def from_vector(vector: Float[Array, " size"], like: Any) -> Any:
    """The tree whose `as_vector` is `vector`; `like` has its structure and shapes."""
    leaves, structure = jax.tree.flatten(like)
    out, start = [], 0
    for leaf in leaves:
        size = entries(leaf)
        out.append(_shaped(vector[start : start + size], leaf))
        start += size
    return jax.tree.unflatten(structure, out)


def entries(tree: Any) -> int:
    """How many real numbers a tree of arrays holds."""
    return sum(math.prod(leaf.shape) * (2 if _is_complex(leaf) else 1) for leaf in jax.tree.leaves(tree))


def _is_complex(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.complexfloating)


def _flat(leaf: Array) -> Array:
    flat = leaf.ravel()
    return jnp.concatenate([flat.real, flat.imag]) if _is_complex(leaf) else flat


def _shaped(numbers: Array, leaf: Any) -> Array:
    if _is_complex(leaf):
        numbers = jax.lax.complex(*jnp.split(numbers, 2))
    return numbers.reshape(leaf.shape)
