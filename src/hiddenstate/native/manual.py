"""Inside `jax.shard_map`: over which axes of the mesh arrays vary, which our own primitives have to say of results."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.sharding import PartitionSpec

from hiddenstate._types import Array


def alike(*arrays: Array) -> tuple[Array, ...]:
    """The arrays, each varying over all axes that one of them varies over.

    What is the same everywhere is only said to vary: nothing is moved. On the way back its adjoints are then summed
    over these axes, as those of a weight must be that sequences of several devices share.
    """
    each = [_varying(jax.typeof(a)) for a in arrays]
    axes = frozenset().union(*each)
    if not axes:
        return arrays
    return tuple(
        jax.lax.pcast(a, tuple(sorted(axes - own)), to="varying") if axes - own else a
        for a, own in zip(arrays, each, strict=True)
    )


def carried(state: Any, *others: Any) -> Any:
    """A state that a loop begins with, varying as what changes it in the loop does: arrays and trees of them."""
    leaves, structure = jax.tree.flatten(state)
    arrays = [leaf for leaf in jax.tree.leaves(others) if isinstance(leaf, jax.Array)]
    return jax.tree.unflatten(structure, alike(*leaves, *arrays)[: len(leaves)])


def adjoints_alike(pull: Callable[..., Any]) -> Callable[..., Any]:
    """The backward rule of a function of arrays that are alike: adjoints vary as these do, also those that are zero."""

    def adjoints(options, kept, cotangents):
        found = pull(options, kept, cotangents)
        given = [kept_one for kept_one in jax.tree.leaves((kept, cotangents)) if isinstance(kept_one, jax.Array)]
        return tuple(None if a is None else alike(a, *given)[0] for a in found)

    return adjoints


def shaped(avals: Sequence[Any], result: jax.ShapeDtypeStruct) -> ShapedArray:
    """The type of a result of arrays of these types: it varies as they do."""
    varied = next((aval for aval in avals if _varying(aval)), None)
    if varied is None:
        return ShapedArray(result.shape, result.dtype)
    sharding = varied.sharding.update(spec=PartitionSpec(*[None] * len(result.shape)))
    return varied.update(shape=result.shape, dtype=result.dtype, weak_type=False, sharding=sharding)


def _varying(aval: Any) -> frozenset[str]:
    known = getattr(aval, "mat", None)
    return getattr(aval, "vma", frozenset()) if known is None else known.varying
