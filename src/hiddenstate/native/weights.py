"""What the derivatives of recurrent networks share: gradients of weights as one product over all steps."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from hiddenstate._types import Array, Float
from hiddenstate.native.manual import alike, shaped
from hiddenstate.native.operation import call

NONE = (0,)
"""The shape of an argument that a kernel can do without."""


def none_like(array: Array) -> Array:
    """No numbers, for the sequences of `array`."""
    return jnp.zeros((*array.shape[:2], 0), array.dtype)


def bilinear(
    name: str,
    compute: Callable[[Array, Array], Array],
    over_many: Callable[[tuple[Array, Array], tuple[int | None, int | None]], tuple[Array, int]],
    pull_first: Callable[[Array, Array, Array], Array],
    pull_second: Callable[[Array, Array, Array], Array],
) -> Primitive:
    """A product of two arrays that says itself how it is mapped (as a batching rule) and pulled back to each factor."""
    product = Primitive(f"hiddenstate_{name}")
    product.def_impl(jax.jit(compute))
    product.def_abstract_eval(lambda *factors: shaped(factors, jax.eval_shape(compute, *map(_described, factors))))
    mlir.register_lowering(product, mlir.lower_fun(compute, multiple_results=False))
    batching.primitive_batchers[product] = over_many
    ad.defbilinear(product, pull_first, pull_second)
    return product


def summed_outer(
    outputs: Float[Array, "row output"], inputs: Float[Array, "row input"]
) -> Float[Array, "output input"]:
    """``outputs^T inputs``: the outer products of all rows, summed."""
    return _summed_outer.bind(*alike(outputs, inputs))


def _outer(outputs, inputs):
    # As inputs^T outputs, transposed at the end, it takes half the time where the outputs are several gates. The
    # barrier keeps the compiler from turning it around again.
    product = jax.lax.dot_general(inputs, outputs, (((0,), (0,)), ((), ())))
    return jax.lax.optimization_barrier(product).T


def _outers(arrays, axes):
    # Many of them at once the compiler takes in the plain order only.
    return jax.vmap(lambda o, i: jax.lax.dot_general(o, i, (((0,), (0,)), ((), ()))), axes)(*arrays), 0


_summed_outer = bilinear(
    "summed_outer",
    _outer,
    _outers,
    lambda d, _, inputs: jax.lax.dot_general(inputs, d, (((1,), (1,)), ((), ()))),
    lambda d, outputs, _: jax.lax.dot_general(outputs, d, (((1,), (0,)), ((), ()))),
)


def weight_gradient(
    d_outputs: Float[Array, "group sequence time output"], inputs: Float[Array, "group sequence time input"]
) -> Float[Array, "group output input"]:
    """The adjoint of W in ``outputs = W inputs``, of which those of all steps are given."""
    # With all steps as one axis nothing is transposed before the product, and nothing copied for a single group.
    rows = [a.reshape(a.shape[0], a.shape[1] * a.shape[2], a.shape[3]) for a in (d_outputs, inputs)]
    if len(d_outputs) == 1:
        return summed_outer(rows[0][0], rows[1][0])[None]
    return jax.vmap(summed_outer)(*rows)


class WeightGradients(NamedTuple):
    """The adjoints of W, V and b in ``outputs = W seen + V read + b``, each with a leading axis *group*."""

    seen: Float[Array, "group seen_output seen"]
    read: Float[Array, "group output read"]
    bias: Float[Array, "group output"]


def weight_gradients(
    d_outputs: Float[Array, "group sequence time output"],
    seen: Float[Array, "group sequence time seen"],
    read: Float[Array, "group sequence time read"],
    *,
    seen_outputs: int | None = None,
) -> WeightGradients:
    """By the kernel, in one pass over the adjoints of all steps; `seen` reaches the first `seen_outputs` only."""
    count = d_outputs.shape[1] * d_outputs.shape[2]
    rows = [a.reshape(a.shape[0], count, a.shape[-1]) for a in (d_outputs, seen, read)]
    return WeightGradients(*_gradients.bind(*alike(*rows), seen_outputs=seen_outputs or d_outputs.shape[-1]))


def _compute_gradients(d_outputs, seen, read, *, seen_outputs):
    count, _, outputs = d_outputs.shape
    shapes = (count, seen_outputs, seen.shape[-1]), (count, outputs, read.shape[-1]), (count, outputs)
    results = [jax.ShapeDtypeStruct(shape, d_outputs.dtype) for shape in shapes]
    return call("weight_gradients", results, d_outputs, seen, read)


def _many_gradients(arrays, axes, *, seen_outputs):
    size = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
    first = [
        jnp.broadcast_to(a[None], (size, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
        for a, axis in zip(arrays, axes, strict=True)
    ]
    folded = [a.reshape(size * a.shape[1], *a.shape[2:]) for a in first]
    out = _gradients.bind(*folded, seen_outputs=seen_outputs)
    return [a.reshape(size, a.shape[0] // size, *a.shape[1:]) for a in out], [0] * len(out)


def _gradients_primitive() -> Primitive:
    found = Primitive("hiddenstate_weight_gradients")
    found.multiple_results = True
    found.def_impl(jax.jit(_compute_gradients, static_argnames="seen_outputs"))
    found.def_abstract_eval(
        lambda *arrays, seen_outputs: [
            shaped(arrays, a)
            for a in jax.eval_shape(partial(_compute_gradients, seen_outputs=seen_outputs), *map(_described, arrays))
        ]
    )
    mlir.register_lowering(found, mlir.lower_fun(_compute_gradients, multiple_results=True))
    batching.primitive_batchers[found] = _many_gradients
    return found


def after(
    states: Float[Array, "group sequence time hidden"], final: Float[Array, "group sequence hidden"]
) -> Float[Array, "group sequence time hidden"]:
    """The states after every step, from those before."""
    return jnp.concatenate([states[:, :, 1:], final[:, :, None]], 2)


def _described(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


_gradients = _gradients_primitive()
