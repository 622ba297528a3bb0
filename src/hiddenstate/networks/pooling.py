"""Ways to make one vector of what a body shows at every step: at once, or as the steps arrive."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped, State
from hiddenstate.core import register


class Pooling(eqx.Module):
    """One vector for a sequence of vectors. What `add` gathers step by step, `whole` computes at once."""

    @abstractmethod
    def whole(
        self, shown: Float[Array, "time size"], last: Float[Array, " size"], valid: Shaped[Array, " time"] | None
    ) -> Float[Array, " size"]:
        """The vector of a sequence that was read to its end, where the body shows `last`."""

    @abstractmethod
    def start(self, vector: Float[Array, " size"]) -> State:
        """What was gathered before the first step; `vector` is of the size and precision to come."""

    @abstractmethod
    def add(self, gathered: State, vector: Float[Array, " size"]) -> State:
        """What was gathered after one more step."""

    @abstractmethod
    def pooled(self, gathered: State) -> Float[Array, " size"]:
        """The vector of all steps so far."""


@register("last-pooling")
class LastPooling(Pooling):
    """What the body shows at the end: a bidirectional one at both ends."""

    def whole(
        self, shown: Float[Array, "time size"], last: Float[Array, " size"], valid: Shaped[Array, " time"] | None
    ) -> Float[Array, " size"]:
        """The last vector."""
        return last

    def start(self, vector: Float[Array, " size"]) -> Float[Array, " size"]:
        """Zeros."""
        return jnp.zeros_like(vector)

    def add(self, gathered: Float[Array, " size"], vector: Float[Array, " size"]) -> Float[Array, " size"]:
        """The new vector."""
        return vector

    def pooled(self, gathered: Float[Array, " size"]) -> Float[Array, " size"]:
        """The last vector."""
        return gathered


class Weighted(NamedTuple):
    """A weighted sum, the sum of the weights, and the logarithm of the unit that both are in."""

    sum: Float[Array, " size"]
    weight: Float[Array, ""]
    log_unit: Float[Array, ""]


class WeightedPooling(Pooling):
    """A mean with positive weights, whose logarithms `log_weight` gives."""

    @abstractmethod
    def log_weight(self, vector: Float[Array, " size"]) -> Float[Array, ""]:
        """The logarithm of the weight of one step."""

    def whole(
        self, shown: Float[Array, "time size"], last: Float[Array, " size"], valid: Shaped[Array, " time"] | None
    ) -> Float[Array, " size"]:
        """The mean over real steps."""
        scores = jax.vmap(self.log_weight)(shown)
        if valid is not None:  # a finite lowest score keeps an empty sequence, which is all padding, finite
            scores = jnp.where(valid, scores, jnp.finfo(scores.dtype).min)
        return jax.nn.softmax(scores) @ shown

    def start(self, vector: Float[Array, " size"]) -> Weighted:
        """Nothing, in the smallest unit."""
        zero = jnp.zeros((), vector.dtype)
        return Weighted(jnp.zeros_like(vector), zero, jnp.full_like(zero, -jnp.inf))

    def add(self, gathered: Weighted, vector: Float[Array, " size"]) -> Weighted:
        """The sums with one more step, in the unit of the largest weight so far: nothing overflows."""
        score = self.log_weight(vector)
        unit = jnp.maximum(gathered.log_unit, score)
        old, new = jnp.exp(gathered.log_unit - unit), jnp.exp(score - unit)
        return Weighted(old * gathered.sum + new * vector, old * gathered.weight + new, unit)

    def pooled(self, gathered: Weighted) -> Float[Array, " size"]:
        """The mean so far."""
        return gathered.sum / gathered.weight


@register("mean-pooling")
class MeanPooling(WeightedPooling):
    """The mean of what the body shows: every step counts the same."""

    def log_weight(self, vector: Float[Array, " size"]) -> Float[Array, ""]:
        """The same for all."""
        return jnp.zeros((), vector.dtype)


@register("attention-pooling")
class AttentionPooling(WeightedPooling):
    r"""A mean with the weights :math:`\mathrm{softmax}_t(q \cdot v_t)` for a learned query :math:`q`."""

    query: Float[Array, " size"]

    def __init__(self, size: int, *, key: PRNGKeyArray):
        self.query = jr.normal(key, (size,)) / jnp.sqrt(size)

    def log_weight(self, vector: Float[Array, " size"]) -> Float[Array, ""]:
        """How well the vector matches the query."""
        return self.query @ vector
