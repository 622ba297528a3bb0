"""Bits that depend on each other, one after the other."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import BernoulliLogits, Distribution, constraints

from hiddenstate._types import Array

DRAWS = 200
"""From so many draws means are estimated."""


class NADEDistribution(Distribution):
    r"""A vector of bits, each given those before it (Larochelle and Murray 2011).

    .. math::

        p(x) = \prod_d p(x_d \mid x_{<d}), \qquad
        \operatorname{logit} p(x_d = 1 \mid x_{<d}) = b_d + v_d^\top \sigma\Bigl(c + \sum_{e < d} w_e x_e\Bigr)

    with `logits` b (entry,), `offsets` c (unit,), and `reading` w and `writing` v (entry, unit). Probabilities are
    exact, and so are draws. The `mean`, the probability of each bit by itself, is a sum over all bits before it: it is
    estimated, as the average of the conditional probabilities along `DRAWS` draws of a fixed seed.
    """

    exact_moments: ClassVar[bool] = False

    arg_constraints: ClassVar[Any] = {
        "logits": constraints.real_vector,
        "offsets": constraints.real_vector,
        "reading": constraints.real_matrix,
        "writing": constraints.real_matrix,
    }
    support: Any = constraints.independent(constraints.boolean, 1)  # pyright: ignore[reportIncompatibleMethodOverride]
    pytree_data_fields = ("logits", "offsets", "reading", "writing")

    def __init__(self, logits: Any, offsets: Any, reading: Any, writing: Any, *, validate_args: bool | None = None):
        self.logits, self.offsets, self.reading, self.writing = logits, offsets, reading, writing
        super().__init__(jnp.shape(logits)[:-1], jnp.shape(logits)[-1:], validate_args=validate_args)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The logarithm of the probability of all bits together."""
        del intermediates
        x = jnp.asarray(value, self.logits.dtype)
        before = np.tri(x.shape[-1], k=-1)
        seen = jnp.einsum("ij,...jh->...ih", jnp.asarray(before, x.dtype), x[..., None] * self.reading)
        units = jax.nn.sigmoid(self.offsets[..., None, :] + seen)
        logits = self.logits + (self.writing * units).sum(-1)
        return BernoulliLogits(logits, validate_args=False).log_prob(x).sum(-1)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*sample_shape, *batch_shape, entry), one entry after the other."""
        return self._drawn(key, sample_shape)[0].astype(jnp.int32)

    @property
    def mean(self) -> Array:
        """The probability of each bit, estimated."""
        return self._drawn(jr.key(0), (DRAWS,))[1].mean(0)

    @property
    def variance(self) -> Array:
        """The variance of each bit, estimated."""
        mean = self.mean
        return mean * (1 - mean)

    def _drawn(self, key: Any, sample_shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Draws, and the probability that each of their bits was 1 given those before it."""
        shape = (*sample_shape, *self.batch_shape)

        def draw(seen, now):
            logit, reading, writing, key = now
            chance = jax.nn.sigmoid(logit + (writing * jax.nn.sigmoid(seen)).sum(-1))
            bit = jr.bernoulli(key, chance, shape)
            return seen + bit[..., None] * reading, (bit, jnp.broadcast_to(chance, shape))

        keys = jr.split(key, self.event_shape[0])
        each = jnp.moveaxis(self.logits, -1, 0), jnp.moveaxis(self.reading, -2, 0), jnp.moveaxis(self.writing, -2, 0)
        start = jnp.broadcast_to(self.offsets, (*shape, self.offsets.shape[-1]))
        bits, chances = jax.lax.scan(draw, start, (*each, keys))[1]
        return jnp.moveaxis(bits, 0, -1), jnp.moveaxis(chances, 0, -1)
