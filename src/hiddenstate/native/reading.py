"""What a recurrent network gets from outside: inputs that its kernel multiplies by weights, or elements made before."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.native.operation import SPARED
from hiddenstate.native.weights import NONE


class Reading(NamedTuple):
    """The inputs of one sequence, the weights of all gates on them, and the bias. The kernel computes the product where
    it needs it, so that it is never in memory as a whole."""

    weight: Float[Array, "output input"]
    bias: Float[Array, " output"] | None
    inputs: Float[Array, "time input"]


def reading(
    weight: Float[Array, "output input"], inputs: Float[Array, "time input"], *biases: Float[Array, " output"] | None
) -> Reading:
    """With the sum of those biases that there are, and inputs in the precision of the weights."""
    there = [bias for bias in biases if bias is not None]
    return Reading(weight, sum(there[1:], there[0]) if there else None, inputs.astype(weight.dtype))


def steps_of(outside: Array | Reading) -> int:
    """How many steps there are."""
    return len(outside.inputs if isinstance(outside, Reading) else outside)


def parts_of(outside: Array | Reading) -> tuple[Array, Array, Array, Array]:
    """The arguments of a kernel: weight and bias, elements and inputs; those that are not there have no numbers."""
    if not isinstance(outside, Reading):
        none = jnp.zeros(NONE, outside.dtype)
        return jnp.zeros((outside.shape[-1], 0), outside.dtype), none, outside, none
    none = jnp.zeros(NONE, outside.weight.dtype)
    return outside.weight, none if outside.bias is None else outside.bias, none, outside.inputs


def pulled_shape(weight: Array, steps: Array, options: tuple) -> jax.ShapeDtypeStruct:
    """That of the adjoints of all inputs, for as many steps as `steps` has; no numbers where nothing needs them."""
    spared = SPARED in options
    return jax.ShapeDtypeStruct((*steps.shape[:3], 0 if spared else weight.shape[-1]), steps.dtype)


def pulled(
    gradients: tuple[Array, Array], d_outputs: Array, d_inputs: Array, bias: Array, *, read: bool
) -> tuple[Array, Array, Array, Array]:
    """The adjoints of what `parts_of` gave, with leading axes: of weight, bias, elements and inputs."""
    d_weight, d_bias = gradients
    none = jnp.zeros((*d_outputs.shape[:2], 0), d_outputs.dtype)
    d_bias = d_bias if bias.size else jnp.zeros_like(bias)
    return (d_weight, d_bias, none, d_inputs) if read else (d_weight, d_bias, d_outputs, none)
