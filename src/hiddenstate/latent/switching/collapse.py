"""One step of the collapsed filter: Gaussians are conditioned on what is seen, joined, and moved to the next regime."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.latent.switching.belief import Mixture, Observation, SwitchingBelief, collapsed, log_sum
from hiddenstate.latent.switching.regimes import Regimes
from hiddenstate.ops.gaussian import condition, symmetric


class Switch(NamedTuple):
    """How regimes follow each other: log-probabilities, and how their logits hang on the state (None: not at all)."""

    log_initial: Float[Array, " regime"]
    log_transition: Float[Array, "regime regime"]
    recurrence: Float[Array, "regime state"] | None = None

    def log_probs_at(self, state: Float[Array, " state"]) -> Float[Array, "regime regime"]:
        """The log-probabilities of all moves from this state."""
        if self.recurrence is None:
            return self.log_transition
        logits = self.log_transition + self.recurrence @ state
        return logits - log_sum(logits, 1)[:, None]


class Conditioned(NamedTuple):
    """The Gaussians of a belief after an observation, with the joint log-weight of each and of the observation."""

    log_weights: Float[Array, "earlier regime"]
    mean: Float[Array, "earlier regime state"]
    covariance: Float[Array, "earlier regime state state"]


class Departures(NamedTuple):
    """The state s_t and the regime z_t of a filter together with z_{t+1}: a Gaussian of s_t for every pair.

    Where the switch does not look at the state, that of z_t alone, repeated.
    """

    log_weights: Float[Array, "regime next"]
    mean: Float[Array, "regime next state"]
    covariance: Float[Array, "regime next state state"]


def first_belief(regimes: Regimes, switch: Switch, *, pairs: bool) -> SwitchingBelief:
    """The belief before anything was seen. With `pairs` there is a regime before the first, which says nothing."""
    count = regimes.initial_mean.shape[0]
    rows = count if pairs else 1
    weights = jnp.broadcast_to(switch.log_initial - math.log(rows), (rows, count))
    mean = jnp.broadcast_to(regimes.initial_mean, (rows, *regimes.initial_mean.shape))
    covariance = regimes.initial_covariance
    return SwitchingBelief(weights, mean, jnp.broadcast_to(covariance, (rows, *covariance.shape)))


def conditioned(regimes: Regimes, belief: SwitchingBelief, seen: Observation) -> Conditioned:
    """Every Gaussian by Kalman's update, every weight times how probable the observation is under it."""
    noise = regimes.observation_noise

    def one(mean, covariance, observation, offset, noise):
        return condition(mean, covariance, observation, noise, seen.x - offset, seen.observed)

    each = jax.vmap(one)
    found = jax.vmap(each, (0, 0, None, None, None))(
        belief.mean, belief.covariance, regimes.observation, regimes.observation_offset, noise
    )
    return Conditioned(belief.log_weights + found.log_prob, found.mean, found.covariance)


def known(found: Conditioned) -> tuple[Mixture, Float[Array, ""]]:
    """p(z_t, s_t | x_1 .. x_t) with one Gaussian for each regime, and the log-probability of x_t."""
    evidence = log_sum(found.log_weights)
    possible = evidence > -jnp.inf
    scaled = jnp.where(possible, found.log_weights - jnp.where(possible, evidence, 0.0), found.log_weights)
    return collapsed(scaled, found.mean, found.covariance), evidence


def departures(switch: Switch, now: Mixture) -> Departures:
    """Where the switch goes next, and what that says of the state it leaves from.

    Where the switch looks at the state, the integrals over each Gaussian are sums over sigma points.
    """
    count = now.log_weights.shape[0]
    if switch.recurrence is None:
        weights = now.log_weights[:, None] + switch.log_transition
        mean = jnp.broadcast_to(now.mean[:, None], (count, count, now.mean.shape[1]))
        return Departures(
            weights, mean, jnp.broadcast_to(now.covariance[:, None], (count, count, *now.covariance.shape[1:]))
        )

    def one(row, mean, covariance):
        points, shares = sigma_points(mean, covariance)
        moves = jax.vmap(switch.log_probs_at)(points)[:, row] + jnp.log(shares)[:, None]
        nothing = jnp.zeros((*moves.shape, *covariance.shape), covariance.dtype)
        joined = collapsed(moves, jnp.broadcast_to(points[:, None], (*moves.shape, mean.shape[0])), nothing)
        return Departures(*joined)

    found = jax.vmap(one)(jnp.arange(count), now.mean, now.covariance)
    return found._replace(log_weights=now.log_weights[:, None] + found.log_weights)


def arrivals(regimes: Regimes, left: Departures) -> SwitchingBelief:
    """The belief over the next regime and state, a Gaussian for every pair of regimes."""
    mean = jnp.einsum("knm,jkm->jkn", regimes.dynamics, left.mean) + regimes.dynamics_offset
    spread = jnp.einsum("knm,jkml,kol->jkno", regimes.dynamics, left.covariance, regimes.dynamics)
    return SwitchingBelief(left.log_weights, mean, symmetric(spread + regimes.dynamics_noise))


def mixed(belief: SwitchingBelief) -> SwitchingBelief:
    """One Gaussian for each regime, whatever the regime before it."""
    return SwitchingBelief(*[part[None] for part in collapsed(*belief)])


def sigma_points(
    mean: Float[Array, " state"], covariance: Float[Array, "state state"]
) -> tuple[Float[Array, "point state"], Float[Array, " point"]]:
    """Points with shares above zero, of the same mean and covariance (Julier and Uhlmann 1997)."""
    size = mean.shape[0]
    spread = float(size) + 0.5
    root = jnp.linalg.cholesky(covariance) * math.sqrt(spread)
    shares = np.full(2 * size + 1, 0.5 / spread)
    shares[0] = 1 - size / spread
    apart: Array = jnp.concatenate([jnp.zeros((1, size), mean.dtype), root.T, -root.T])
    return mean + apart, jnp.asarray(shares, mean.dtype)
