r"""Resampling: which particle each of M new ones descends from, given the M normalised log-weights.

A particle of weight w has M w descendants on average under every scheme; they differ in how far its number strays from
that (Douc, Cappé and Moulines 2005). A particle of weight zero has none. All work in float32 with many particles: M w
is added up as a whole number and a fraction, and single draws are made among whole numbers, so that the rounding of a
sum near one does not blur weights near 1/M.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped
from hiddenstate.native import available
from hiddenstate.native.resampling import ancestors_by_strata, owners_of_tickets


def multinomial(log_weights: Float[Array, " particle"], key: PRNGKeyArray) -> Shaped[Array, " particle"]:
    """Each descends from a particle drawn by the weights, independently of the others."""
    return _draws(_scaled(log_weights), key, log_weights.shape[0])


def choice(log_weights: Float[Array, " particle"], key: PRNGKeyArray) -> Shaped[Array, ""]:
    """One particle drawn by weights that need not be normalised; not all of them are zero."""
    return _draws(_scaled(log_weights), key, 1)[0]


def stratified(log_weights: Float[Array, " particle"], key: PRNGKeyArray) -> Shaped[Array, " particle"]:
    """One uniform position in each of M equal strata of the cumulated weights (Kitagawa 1996)."""
    return _by_strata(log_weights, _uniform(key, log_weights.shape, log_weights.dtype))


def systematic(log_weights: Float[Array, " particle"], key: PRNGKeyArray) -> Shaped[Array, " particle"]:
    """The same position in all strata, from one uniform number: M w rounded down or up (Carpenter et al. 1999)."""
    return _by_strata(log_weights, jnp.broadcast_to(_uniform(key, (), log_weights.dtype), log_weights.shape))


def residual(log_weights: Float[Array, " particle"], key: PRNGKeyArray) -> Shaped[Array, " particle"]:
    """The whole part of M w for certain, the rest drawn by what is left of each (Liu and Chen 1998)."""
    count = log_weights.shape[0]
    shares = _shares(log_weights)
    certain = jnp.floor(shares * (1 + 32 * jnp.finfo(shares.dtype).eps))
    left = jnp.maximum(shares - certain, 0)
    cumulated = jnp.cumsum(certain.astype(jnp.int32))
    copies = _from_cumulated_counts(jnp.minimum(cumulated, count))
    drawn = _draws(left / jnp.maximum(left.max(), jnp.finfo(left.dtype).tiny), key, count)
    return jnp.where(jnp.arange(count) < cumulated[-1], copies, drawn)


SCHEMES: dict[str, Callable[[Array, PRNGKeyArray], Array]] = {
    "systematic": systematic,
    "stratified": stratified,
    "multinomial": multinomial,
    "residual": residual,
}
"""The schemes by name."""


def effective_sample_size(log_weights: Float[Array, " particle"]) -> Float[Array, ""]:
    """1 / sum w^2 of normalised weights: M where all are equal, 1 where one has everything (Kong et al. 1994)."""
    return jnp.exp(-jax.nn.logsumexp(2 * log_weights))


def enough_for(threshold: float, particles: int, dtype: jnp.dtype) -> float:
    """The effective sample size from which on particles stay, for a threshold as a share of them: 1 is never, 0 always.

    A rounding below that share, so that weights which lie just there, such as those of half of the particles at 1/2,
    count as enough in whatever order sums are formed.
    """
    return float("inf") if threshold == 1 else threshold * particles * (1 - 64 * float(jnp.finfo(dtype).eps))


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Uniform in [0, 1), from the same random bits in every precision of a process; rounding never reaches 1."""
    drawn = jr.uniform(key, shape).astype(dtype)
    return jnp.minimum(drawn, 1 - jnp.finfo(dtype).epsneg)


def _shares(log_weights: Array) -> Array:
    """M w, from weights that sum to one in the sum that is taken here."""
    weights = jnp.exp(log_weights)
    return weights * (log_weights.shape[0] / weights.sum())


def _by_strata(log_weights: Array, positions: Array) -> Array:
    """Ancestors where stratum i holds one position, i + positions[i], on the axis of the cumulated M w."""
    return _by_kernel(ancestors_by_strata, _strata_by_scan, _shares(log_weights), positions)


def _by_kernel(kernel: Callable[..., Array], plain: Callable[..., Array], *arrays: Array) -> Array:
    """The kernel where the program runs on a CPU and there is one; both give the same ancestors."""
    if not available() or arrays[0].dtype not in (jnp.float32, jnp.float64, jnp.uint32):
        return plain(*arrays)
    return jax.lax.platform_dependent(*map(jax.lax.stop_gradient, arrays), cpu=kernel, default=plain)


def _strata_by_scan(shares: Array, positions: Array) -> Array:
    count = shares.shape[0]
    whole, fraction = jax.lax.associative_scan(_carry, (jnp.floor(shares).astype(jnp.int32), shares % 1))
    excess = (whole[-1] - count) + fraction[-1]
    fraction = fraction - excess * ((whole + fraction) / count)
    whole, fraction = whole + jnp.floor(fraction).astype(jnp.int32), fraction % 1
    inside = jnp.clip(whole, 0, count - 1)
    below = jnp.clip(whole, 0, count) + ((whole < count) & (positions[inside] < fraction))
    index = jnp.arange(count)
    last = jnp.max(jnp.where(shares > 0, index, -1))
    below = jnp.where(index >= last, count, jnp.where(shares > 0, below, 0))
    return _from_cumulated_counts(jax.lax.cummax(below))


def _carry(earlier: tuple[Array, Array], later: tuple[Array, Array]) -> tuple[Array, Array]:
    fraction = earlier[1] + later[1]
    over = jnp.floor(fraction)
    return earlier[0] + later[0] + over.astype(jnp.int32), fraction - over


def _from_cumulated_counts(below: Array) -> Array:
    """Ancestors in order, where the first i + 1 particles together have below[i] descendants, at most M."""
    count = below.shape[0]
    ends = jnp.zeros(count + 1, jnp.int32).at[below].add(1)
    return jnp.minimum(jnp.cumsum(ends[:count]), count - 1)


def _scaled(log_weights: Array) -> Array:
    """Weights of which the largest is one."""
    return jnp.exp(log_weights - log_weights.max())


def _draws(weights: Array, key: PRNGKeyArray, draws: int) -> Array:
    """Independent draws by weights of which the largest is one (or all are zero), among whole numbers.

    The numbers add up to less than 2^32, exactly; a weight below 2^-31 of the sum counts as nothing.
    """
    tickets = jnp.round(weights * (2.0**31 / weights.sum())).astype(jnp.uint32)
    drawn = jr.randint(key, (draws,), 0, jnp.maximum(tickets.sum(dtype=jnp.uint32), 1), jnp.uint32)
    return _by_kernel(owners_of_tickets, _owners_by_search, tickets, drawn)


def _owners_by_search(tickets: Array, drawn: Array) -> Array:
    found = jnp.searchsorted(jnp.cumsum(tickets, dtype=jnp.uint32), drawn, side="right")
    return jnp.minimum(found, tickets.shape[0] - 1).astype(jnp.int32)
