"""A matrix times a vector, in the form that is one plain product when it is mapped over many vectors.

``weight @ x``, mapped over steps and sequences, gives one column a step, and its gradient sums over two axes: the
compiler transposes all steps on the way in and out, which takes longer than the products themselves. Here whatever x is
mapped over becomes the rows of one matrix, and every product, those of the gradients too, is one of two matrices.
"""

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.native.manual import alike
from hiddenstate.native.weights import bilinear, summed_outer


def project(weight: Float[Array, "output input"], x: Float[Array, " input"]) -> Float[Array, " output"]:
    """``weight @ x``."""
    kind = jnp.result_type(weight, x)
    return _project.bind(*alike(x.astype(kind)[None], weight.astype(kind)))[0]


def _rows(x, weight):
    return jax.lax.dot_general(x, weight, (((1,), (1,)), ((), ())))


def _fold(arrays, axes):
    x, weight = arrays
    if axes[1] is not None:
        return jax.vmap(_rows, axes)(x, weight), 0
    x = jnp.moveaxis(x, axes[0], 0)
    out = _project.bind(x.reshape(x.shape[0] * x.shape[1], x.shape[2]), weight)
    return out.reshape(*x.shape[:2], out.shape[1]), 0


_project = bilinear(
    "project",
    _rows,
    _fold,
    lambda d, _, weight: jax.lax.dot_general(d, weight, (((1,), (0,)), ((), ()))),
    lambda d, x, _: summed_outer(d, x),
)
