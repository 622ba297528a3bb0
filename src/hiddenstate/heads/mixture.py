"""Mixtures of any family."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import HiddenStateError, dtype_of, register
from hiddenstate.distributions import MixtureDistribution
from hiddenstate.heads.head import Head, family_of
from hiddenstate.inference.batches import rebatch
from hiddenstate.ops.initialisers import glorot


@register("mixture-head")
class Mixture(Head):
    r"""`components` distributions of one family, mixed: :math:`p(x) = \sum_c \pi_c\, p(x \mid \theta_c)`.

    The weights :math:`\pi` and all :math:`\theta_c` come from the same state by one linear map. The family,
    with its units and its encoding, is that of `head`, whose own weights are not used. The components' biases
    start apart, which decides how soon each finds something of its own to predict: at `starts`, or at random around
    the head's.

    >>> Mixture(Gaussian(32, 2, key=k1), 5, key=k2)  # doctest: +SKIP
    """

    family: Head
    components: int = eqx.field(static=True)

    def __init__(
        self,
        head: Head,
        components: int,
        *,
        starts: Float[Array, "component parameter"] | None = None,
        key: PRNGKeyArray,
    ):
        if components < 1:
            raise HiddenStateError(f"components is {components}; a Mixture head needs at least 1.")
        weight, bias = head.linear
        weight_key, bias_key = jr.split(key)
        self.family = family_of(head)
        self.components = components
        self.hidden_size = head.hidden_size
        self.weight = glorot(weight_key, (int(self.driven.sum()), head.hidden_size)).astype(weight.dtype)
        shape = (components, *bias.shape)
        if starts is None:
            starts = bias + 0.5 * jr.normal(bias_key, shape, bias.dtype)
        if starts.shape != shape:
            raise HiddenStateError(f"starts has shape {starts.shape}; it must be {shape}, components by parameters.")
        self.bias = jnp.concatenate([jnp.zeros(components, bias.dtype), starts.astype(bias.dtype).ravel()])

    @property
    def event_shape(self) -> tuple[int, ...]:
        """That of the family."""
        return self.family.event_shape

    @property
    def parameter_count(self) -> int:
        """A logit and the family's parameters for each component."""
        return self.components * (1 + self.family.parameter_count)

    @property
    def driven(self) -> np.ndarray:
        """The logits, and of each component what follows the state in the family."""
        return np.concatenate([np.ones(self.components, bool), np.tile(self.family.driven, self.components)])

    @property
    def encoded_size(self) -> int:
        """That of the family."""
        return self.family.encoded_size

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """The mixture with these logits and components."""
        n = self.components
        mixing = dist.CategoricalLogits(parameters[:n], validate_args=False)
        each = jax.vmap(self.family.distribution)(parameters[n:].reshape(n, -1))
        return MixtureDistribution(mixing, rebatch(each, (n,)))

    def encode(self, x: Num[Array, "*event"]) -> Float[Array, " encoded"]:
        """As the family does."""
        return self.family.encode(x).astype(dtype_of(self))
