"""What the derivatives of recurrent networks share: gradients of weights as one product over all steps."""

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float

NONE = (0,)
"""The shape of an argument that a kernel can do without."""


def none_like(array: Array) -> jax.ShapeDtypeStruct:
    """No numbers, for the sequences of `array`."""
    return jax.ShapeDtypeStruct((*array.shape[:2], 0), array.dtype)


def weight_gradient(
    d_outputs: Float[Array, "group sequence time output"], inputs: Float[Array, "group sequence time input"]
) -> Float[Array, "group output input"]:
    """The adjoint of W in ``outputs = W inputs``, of which those of all steps are given."""
    return jnp.einsum("gsto,gsti->goi", d_outputs, inputs)


def after(
    states: Float[Array, "group sequence time hidden"], final: Float[Array, "group sequence hidden"]
) -> Float[Array, "group sequence time hidden"]:
    """The states after every step, from those before."""
    return jnp.concatenate([states[:, :, 1:], final[:, :, None]], 2)
