"""Sums over long time that keep their precision."""

import jax.numpy as jnp

from hiddenstate._types import Array, Float

_BLOCK, _FEW = 1024, 8


def sum_over_time(values: Float[Array, "*batch time"]) -> Float[Array, "*batch"]:
    """The sum over the last axis, block by block.

    The rounding error of a plain running sum in float32 grows with its length: a million terms of one sign can
    lose four digits. Summing blocks first bounds every partial sum by a thousand terms.
    """
    time = values.shape[-1]
    if time <= _BLOCK:
        return values.sum(-1)
    missing = -time % _BLOCK
    padded = jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    return sum_over_time(padded.reshape(*values.shape[:-1], -1, _BLOCK).sum(-1))


def sum_of_few(values: Float[Array, "*batch column"]) -> Float[Array, "*batch"]:
    """The sum over the last axis, term by term where there are few.

    Compiled as a reduction, an innermost loop over two numbers costs far more than computing what it adds up.
    """
    if values.shape[-1] > _FEW:
        return values.sum(-1)
    return sum((values[..., i] for i in range(1, values.shape[-1])), values[..., 0])
