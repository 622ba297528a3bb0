"""Vectors of bits as the set of those that are on, one member after the other."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Distribution, constraints

from hiddenstate._types import Array

DRAWS = 200
"""From so many draws means are estimated."""


class SubsetDistribution(Distribution):
    r"""A vector of bits, told by the places of its ones in ascending order and the end behind the last.

    .. math::

        p(x) = \prod_{k=1}^{n+1} p(d_k \mid d_{<k}), \qquad
        p(d_k = d \mid d_{<k}) \propto \exp\Bigl(b_d + v_d \cdot \tanh\bigl(c + \sum_{j<k} w_{d_j}\bigr)\Bigr)
        \quad (d > d_{k-1} \text{ or } d \text{ the end})

    with `logits` b (entry and end,), `offsets` c (unit,), `reading` w (entry, unit) and `writing` v (entry and end,
    unit). Every vector with at most `most` ones has exactly one such telling, so that the probabilities of all of them
    sum to one; one with more has none. A member costs entries times units, and there are few where bits are sparse:
    a chain over all bits asks the same of each of them, on or off.

    The `mean`, the probability of each bit by itself, is estimated from `DRAWS` draws of a fixed seed.
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
    pytree_aux_fields = ("most",)

    def __init__(
        self,
        logits: Any,
        offsets: Any,
        reading: Any,
        writing: Any,
        most: int,
        *,
        validate_args: bool | None = None,
    ):
        self.logits, self.offsets, self.reading, self.writing, self.most = logits, offsets, reading, writing, most
        super().__init__(jnp.shape(logits)[:-1], (jnp.shape(logits)[-1] - 1,), validate_args=validate_args)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The logarithm of the probability of all bits together; minus infinity where more than `most` are on."""
        del intermediates
        entries = self.event_shape[0]
        batch = jnp.broadcast_shapes(jnp.shape(value)[:-1], self.batch_shape)
        on = jnp.broadcast_to(jnp.asarray(value) > 0, (*batch, entries))
        places = jnp.where(on, jnp.arange(entries), entries)
        # The members in ascending order, and the end in all places behind them.
        members = -jax.lax.top_k(-places, min(self.most, entries))[0]
        before = jnp.concatenate([jnp.full_like(members[..., :1], -1), members[..., :-1]], -1)
        added = _rows(self.reading, members)
        seen = self.offsets[..., None, :] + jnp.cumsum(added, -2) - added
        chances = _log_probs(self.logits[..., None, :], self.writing[..., None, :, :], seen, before)
        chosen = jnp.take_along_axis(chances, members[..., None], -1)[..., 0]
        total = jnp.where(before < entries, chosen, 0.0).sum(-1)
        return jnp.where(on.sum(-1) > self.most, -jnp.inf, total)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*sample_shape, *batch_shape, entry), one member after the other."""
        shape = (*sample_shape, *self.batch_shape)
        entries = self.event_shape[0]
        logits = jnp.broadcast_to(self.logits, (*shape, entries + 1))

        def draw(carry, key):
            seen, last = carry
            member = jr.categorical(key, _log_probs(logits, self.writing, seen, last))
            member = jnp.where(last < entries, member, entries)
            return (seen + _rows(self.reading, member[..., None])[..., 0, :], member), member

        start = jnp.broadcast_to(self.offsets, (*shape, self.offsets.shape[-1])), jnp.full(shape, -1)
        members = jax.lax.scan(draw, start, jr.split(key, min(self.most, entries)))[1]
        return (members[..., None] == jnp.arange(entries)).any(0).astype(jnp.int32)

    @property
    def mean(self) -> Array:
        """The probability of each bit, estimated."""
        return self.sample(jr.key(0), (DRAWS,)).astype(self.logits.dtype).mean(0)

    @property
    def variance(self) -> Array:
        """The variance of each bit, estimated."""
        mean = self.mean
        return mean * (1 - mean)

    def rebatch(self, batch_shape: tuple[int, ...]) -> "SubsetDistribution":
        """The same distribution with the batch shape that `vmap` gave its arrays."""
        arrays = (self.logits, self.offsets, self.reading, self.writing)
        built = SubsetDistribution(*arrays, self.most, validate_args=False)
        if built.batch_shape != batch_shape:
            raise AssertionError(f"batch shape {built.batch_shape} where {batch_shape} is due")
        return built


def _rows(table: Array, members: Array) -> Array:
    """The row of each member, and zeros for the end: (..., entry, unit) and (..., member) give (..., member, unit)."""
    entries = table.shape[-2]
    places = jnp.minimum(members, entries - 1)
    if table.ndim == 2:
        rows = table[places]
    else:
        tables = jnp.broadcast_to(table, (*members.shape[:-1], *table.shape[-2:]))
        rows = jnp.take_along_axis(tables, places[..., None], -2)
    return jnp.where((members < entries)[..., None], rows, 0.0)


def _log_probs(logits: Array, writing: Array, seen: Array, last: Array) -> Array:
    """The log-probability of each next member and of the end, given the units and the last member."""
    scores = logits + jnp.einsum("...h,...dh->...d", jnp.tanh(seen), writing)
    place, end = jnp.arange(scores.shape[-1]), scores.shape[-1] - 1
    return jax.nn.log_softmax(jnp.where((place > last[..., None]) | (place == end), scores, -jnp.inf))
