"""Which arrays of a model are learned, how many numbers they hold, and in which precision."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array
from hiddenstate.core.errors import HiddenStateError
from hiddenstate.core.looking import Remembered

Model = TypeVar("Model")


class Frozen(eqx.Module):
    """An array that belongs to a model but is not learned, such as a fixed time constant."""

    value: Array


def _is_frozen(node: Any) -> bool:
    return isinstance(node, Frozen)


def trainable(model: Any) -> Any:
    """A tree of booleans of the model's shape: True at every array that learning may change."""
    return jax.tree.map(
        lambda node: jax.tree.map(lambda _: False, node) if _is_frozen(node) else eqx.is_inexact_array(node),
        model,
        is_leaf=_is_frozen,
    )


def partition(model: Model, where: Any = None) -> tuple[Model, Model]:
    """The model as (learned arrays, all the rest), to be joined again by `equinox.combine`."""
    return eqx.partition(model, trainable(model) if where is None else where)


def parameter_count(model: Any) -> int:
    """How many real numbers learning may change (a complex one counts twice)."""
    learned, _ = partition(model)
    return sum(a.size * (2 if jnp.iscomplexobj(a) else 1) for a in jax.tree.leaves(learned))


def dtype_of(model: Any) -> np.dtype:
    """The real floating type that a model computes in: that of its first floating array."""
    return _dtype_of(model)


@Remembered
def _dtype_of(model: Any) -> np.dtype:
    for leaf in jax.tree.leaves(model):
        if eqx.is_inexact_array(leaf):
            return np.dtype(jnp.finfo(leaf.dtype).dtype)
    return np.dtype(jnp.result_type(float))


def cast(model: Model, dtype: Any) -> Model:
    """The same model in another floating precision, float32 or float64; complex arrays keep being complex."""
    real = jnp.dtype(dtype)
    complex_ = jnp.result_type(real, jnp.complex64)

    def convert(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        return leaf.astype(complex_ if jnp.iscomplexobj(leaf) else real)

    return jax.tree.map(convert, model)


def real_dtype(dtype: Any) -> np.dtype | None:
    """float32, float64 or None, as an option `dtype` may say; another one, or one that JAX cannot keep, is an error."""
    if dtype is None:
        return None
    try:
        real = np.dtype(dtype)
    except TypeError:
        real = None
    if real not in (np.float32, np.float64):
        raise HiddenStateError(f"dtype is {dtype!r}; it must be float32, float64 or None.")
    if real == np.float64 and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise HiddenStateError(
            "dtype is float64, but JAX keeps 32 bits: call jax.config.update('jax_enable_x64', True)."
        )
    return real
