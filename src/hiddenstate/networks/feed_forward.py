"""A feed-forward part: what a layer shows, worked on at every step by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.cells.checks import weights, whole
from hiddenstate.core import register
from hiddenstate.ops.projection import project


@register("feed-forward")
class FeedForward(eqx.Module):
    r"""A small network that adds to each vector what it makes of it.

    .. math::

        y \mapsto y + W_2 \, \mathrm{gelu}(W_1 \, n(y) + b_1) + b_2

    with layer normalisation n, `units` numbers inside, and gelu by its form with a tanh. Cells whose gates see the
    input only are linear in their states: behind such a layer this is where what it has kept is combined.
    """

    norm: eqx.nn.LayerNorm
    into_weight: Float[Array, "units size"]
    into_bias: Float[Array, " units"]
    out_weight: Float[Array, "size units"]
    out_bias: Float[Array, " size"]

    def __init__(self, size: int, units: int, *, key: PRNGKeyArray):
        into_key, out_key = jr.split(key)
        units = whole("units", units)
        self.norm = eqx.nn.LayerNorm(size)
        self.into_weight = weights("into_weight", "glorot", into_key, (units, size), gates=1)
        self.into_bias = jnp.zeros(units)
        self.out_weight = weights("out_weight", "glorot", out_key, (size, units), gates=1)
        self.out_bias = jnp.zeros(size)

    def __call__(self, y: Float[Array, " size"]) -> Float[Array, " size"]:
        """The vector and what is added to it."""
        inside = jax.nn.gelu(project(self.into_weight, self.norm(y)) + self.into_bias)
        return y + project(self.out_weight, inside) + self.out_bias
