"""The parts of a model: arrays that are learned, arrays that are not, and small modules that stand for a matrix."""

from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array
from hiddenstate.core import Frozen, HiddenStateError, trainable

Free: TypeAlias = Array | Frozen
"""An array that is learned, or one that is not."""


def plain(part: Any) -> Any:
    """The array of a part: itself, what is frozen, or what a module's `matrix` gives."""
    if isinstance(part, Frozen):
        return part.value
    return part.matrix if hasattr(part, "matrix") else part


def frozen(part: Any) -> Any:
    """The same part with none of its arrays learned."""
    if part is None or isinstance(part, Frozen):
        return part

    def wrap(node):
        return node if isinstance(node, Frozen) else Frozen(node)

    return jax.tree.map(wrap, part, is_leaf=lambda node: isinstance(node, Frozen))


def is_free(part: Any) -> bool:
    """Whether any array of the part is learned."""
    return any(jax.tree.leaves(trainable(part)))


def array(argument: str, given: Any, shape: tuple[int | None, ...], takes: str, dtype: Any) -> Array:
    """`given` as an array whose last axes have this shape; one more axis in front is time."""
    try:
        numbers = np.asarray(given, float)
    except (TypeError, ValueError):
        raise HiddenStateError(f"{argument} is {given!r}; it must be an array of numbers.") from None
    inner = numbers.shape[numbers.ndim - len(shape) :]
    fits = numbers.ndim in (len(shape), len(shape) + 1) and all(
        due in (None, got) for due, got in zip(shape, inner, strict=True)
    )
    if not fits or numbers.size == 0:
        raise HiddenStateError(f"{argument} has shape {numbers.shape}; it must be {takes}.")
    if not np.isfinite(numbers).all():
        raise HiddenStateError(f"{argument} holds numbers that are not finite.")
    return jnp.asarray(numbers, dtype)


def common_dtype(*given: Any) -> Any:
    """The floating type of the arrays among what was given; JAX's own where there are none, as in lists."""
    kinds = [g.dtype for g in given if hasattr(g, "dtype") and np.issubdtype(g.dtype, np.floating)]
    kinds = [np.float32 if kind == np.float16 else kind for kind in kinds]
    return jax.dtypes.canonicalize_dtype(np.result_type(*kinds) if kinds else jnp.result_type(float))


def modules(part: Any) -> bool:
    """Whether a part is a module that stands for a matrix."""
    return isinstance(part, eqx.Module) and not isinstance(part, Frozen)
