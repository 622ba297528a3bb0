"""What a switching model carries from step to step: weighted Gaussians, and how many become few."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped


class SwitchingBelief(NamedTuple):
    """What is known of the regime z_t and the state s_t before x_t is seen: Gaussians of s_t, with log-weights.

    The last regime axis is that of z_t. The first is that of z_{t-1} where Gaussians are told apart by two regimes,
    and has length one where they are not.
    """

    log_weights: Float[Array, "earlier regime"]
    mean: Float[Array, "earlier regime state"]
    covariance: Float[Array, "earlier regime state state"]


class Mixture(NamedTuple):
    """A Gaussian for each regime, with log-weights."""

    log_weights: Float[Array, " regime"]
    mean: Float[Array, "regime state"]
    covariance: Float[Array, "regime state state"]


class Observation(NamedTuple):
    """One step's data; `observed` is None where every entry is known."""

    x: Float[Array, " event"]
    observed: Shaped[Array, " event"] | None = None


def log_sum(log_weights: Float[Array, "..."], axis: Any = None) -> Float[Array, "..."]:
    """The logarithm of the sum; minus infinity, with derivative zero, where every weight is zero."""
    possible = jnp.any(log_weights > -jnp.inf, axis=axis, keepdims=True)
    total = jax.nn.logsumexp(jnp.where(possible, log_weights, 0.0), axis=axis)
    return jnp.where(jnp.squeeze(possible, axis), total, -jnp.inf)


def shares(log_weights: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """The weights divided by their sum along an axis; equal ones where all are zero."""
    possible = jnp.any(log_weights > -jnp.inf, axis=axis, keepdims=True)
    return jax.nn.softmax(jnp.where(possible, log_weights, 0.0), axis=axis)


def collapsed(
    log_weights: Float[Array, "many regime"],
    mean: Float[Array, "many regime state"],
    covariance: Float[Array, "many regime state state"],
) -> Mixture:
    """One Gaussian for all along the first axis, of the same mean and covariance as their mixture."""
    share = shares(log_weights, 0)
    middle = jnp.einsum("ij,ijn->jn", share, mean)
    apart = mean - middle
    spread = jnp.einsum("ij,ijnm->jnm", share, covariance) + jnp.einsum("ij,ijn,ijm->jnm", share, apart, apart)
    return Mixture(log_sum(log_weights, 0), middle, spread)
