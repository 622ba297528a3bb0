"""What observations say of the regimes and states of a switching model, from the beliefs of its collapsed filter."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped
from hiddenstate.core import Steps
from hiddenstate.inference.posterior import Decoded
from hiddenstate.latent.linear_gaussian.system import held
from hiddenstate.latent.switching.belief import Mixture, Observation, SwitchingBelief, collapsed, log_sum
from hiddenstate.latent.switching.collapse import (
    Departures,
    Switch,
    arrivals,
    conditioned,
    departures,
    first_belief,
    sigma_points,
)
from hiddenstate.latent.switching.regimes import Regimes
from hiddenstate.ops.gaussian import symmetric


class Filtered(NamedTuple):
    """p(z_t, s_t | x_1 .. x_t): `marginals` of regimes, mean and covariance of the state, in all and in each."""

    marginals: Float[Array, "time regime"]
    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]
    regime_mean: Float[Array, "time regime state"]
    regime_covariance: Float[Array, "time regime state state"]


class Smoothed(NamedTuple):
    """p(z_t, s_t | x_1 .. x_T), as `Filtered`; `pairwise` (time - 1, ...) holds p(z_t, z_{t+1} | x_1 .. x_T)."""

    marginals: Float[Array, "time regime"]
    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]
    regime_mean: Float[Array, "time regime state"]
    regime_covariance: Float[Array, "time regime state state"]
    pairwise: Float[Array, "earlier regime regime"]


class Drawn(NamedTuple):
    """Regimes and states drawn together."""

    regimes: Shaped[Array, " time"]
    states: Float[Array, "time state"]


class Returns(NamedTuple):
    """For every pair of regimes, s_t given s_{t+1}: a gain, and the covariance of what is left."""

    gain: Float[Array, "regime next state state"]
    rest: Float[Array, "regime next state state"]


def summed_up(every: Mixture) -> Filtered:
    """What the mixtures of all steps say."""

    def whole(step):
        one = collapsed(step.log_weights[:, None], step.mean[:, None], step.covariance[:, None])
        return one.mean[0], one.covariance[0]

    mean, covariance = jax.vmap(whole)(every)
    return Filtered(jnp.exp(every.log_weights), mean, covariance, every.mean, every.covariance)


def held_at_the_end(values: Any, steps: Steps) -> Any:
    """All steps' values with the last real one behind the end."""
    if steps.valid is None:
        return values
    index = jnp.minimum(jnp.arange(steps.length), steps.valid.sum() - 1)
    return jax.tree.map(lambda a: a[index], values)


def smoothed(regimes: Regimes, switch: Switch, every: Mixture, steps: Steps, *, corrected: bool) -> Smoothed:
    """Backward from the filter's mixtures (behind the end, the last one), joining Gaussians as the filter does.

    Kim's smoother (1994) takes z_t as independent of what comes after t + 1 once z_{t+1} is known. That leaves out what
    s_{t+1} tells of z_t. With `corrected` it is put in, averaged over what all data say of s_{t+1}, by sigma points:
    the expectation correction of Barber (2006).
    """

    def back(later, step):
        now, inside = step
        left = departures(switch, now)
        ahead = arrivals(regimes, left)
        gain, rest = returns(regimes, left, ahead)
        before = log_origins(left, ahead, later) if corrected else log_conditional(left.log_weights)
        both = later.log_weights + before
        mean = left.mean + jnp.einsum("jkab,jkb->jka", gain, later.mean - ahead.mean)
        spread = rest + jnp.einsum("jkab,kbc,jkdc->jkad", gain, later.covariance, gain)
        swapped = (jnp.swapaxes(a, 0, 1) for a in (both, mean, symmetric(spread)))
        new = held(inside, collapsed(*swapped), now)
        pairs = jnp.exp(both)
        return new, (new, pairs if inside is None else jnp.where(inside, pairs, 0.0))

    last = jax.tree.map(lambda a: a[-1], every)
    earlier = jax.tree.map(lambda a: a[:-1], every)
    inside = None if steps.valid is None else steps.valid[1:]
    _, (found, pairs) = jax.lax.scan(back, last, (earlier, inside), reverse=True)
    found = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), found, last)
    return Smoothed(*summed_up(found), pairs)


def log_origins(left: Departures, ahead: SwitchingBelief, later: Mixture) -> Float[Array, "regime next"]:
    """log p(z_t | z_{t+1}) where s_{t+1} is known as well, averaged over the Gaussian of s_{t+1} in each regime."""
    points, weights = jax.vmap(sigma_points)(later.mean, later.covariance)

    def at(states):
        return log_conditional(left.log_weights + jax.vmap(log_densities)(states - ahead.mean, ahead.covariance))

    each = jax.vmap(at, 1)(points)
    return log_sum(each + jnp.log(weights[0])[:, None, None], 0)


def log_conditional(log_weights: Float[Array, "regime next"]) -> Float[Array, "regime next"]:
    """log p(z_t | z_{t+1}) from joint log-weights; minus infinity where z_{t+1} cannot be."""
    total = log_sum(log_weights, 0)
    return jnp.where(total > -jnp.inf, log_weights - jnp.where(total > -jnp.inf, total, 0.0), -jnp.inf)


def returns(regimes: Regimes, left: Departures, ahead: SwitchingBelief) -> Returns:
    """The regression of s_t on s_{t+1} for every pair of regimes, with its rest in a form that stays positive."""
    crossed = jnp.einsum("jkab,kcb->jkac", left.covariance, regimes.dynamics)
    roots = jnp.linalg.cholesky(ahead.covariance)
    gain = jnp.swapaxes(jax.scipy.linalg.cho_solve((roots, True), jnp.swapaxes(crossed, -1, -2)), -1, -2)
    kept = jnp.eye(crossed.shape[-1], dtype=gain.dtype) - jnp.einsum("jkab,kbc->jkac", gain, regimes.dynamics)
    rest = jnp.einsum("jkab,jkbc,jkdc->jkad", kept, left.covariance, kept)
    return Returns(gain, rest + jnp.einsum("jkab,kbc,jkdc->jkad", gain, regimes.dynamics_noise, gain))


def decoded(regimes: Regimes, switch: Switch, elements: Observation, valid: Any) -> Decoded:
    """A path of regimes of high probability: at each step the best path into each regime is kept, with its Gaussian.

    The exact maximum would have to keep all paths, since the past of a path matters through its Gaussian. The
    log-probability is that of the path which is found and of the observations together, exactly (where the switch
    looks at the state, by sigma points).
    """
    count = switch.log_initial.shape[0]
    first, rest = jax.tree.map(lambda a: a[0], elements), jax.tree.map(lambda a: a[1:], elements)
    begun = conditioned(regimes, first_belief(regimes, switch, pairs=False), first)
    start = Mixture(*[part[0] for part in begun])

    def advance(best, step):
        element, inside = step
        found = conditioned(regimes, arrivals(regimes, departures(switch, best)), element)
        pointers = jnp.argmax(found.log_weights, 0)
        new = Mixture(*[part[pointers, jnp.arange(count)] for part in found])
        return held(inside, new, best), held(inside, pointers, jnp.arange(count))

    best, pointers = jax.lax.scan(advance, start, (rest, None if valid is None else valid[1:]))
    last = jnp.argmax(best.log_weights)
    first_state, path = jax.lax.scan(lambda state, back: (back[state], state), last, pointers, reverse=True)
    states = jnp.concatenate([first_state[None], path]).astype(jnp.int32)
    return Decoded(states, best.log_weights.max())


def drawn(regimes: Regimes, switch: Switch, every: Mixture, steps: Steps, key: PRNGKeyArray) -> Drawn:
    """Regimes and states drawn together, backward from the filter's mixtures (behind the end, the last one)."""
    inside = None if steps.valid is None else steps.valid[1:]
    last_key, key = jr.split(key)

    def pick(log_weights, mean, covariance, key):
        regime_key, state_key = jr.split(key)
        chosen = jr.categorical(regime_key, log_weights)
        root = jnp.linalg.cholesky(covariance[chosen])
        return chosen.astype(jnp.int32), mean[chosen] + root @ jr.normal(state_key, mean.shape[1:], mean.dtype)

    def back(later, step):
        now, inside, key = step
        regime, state = later
        left = departures(switch, now)
        ahead = arrivals(regimes, left)
        gain, rest = (part[:, regime] for part in returns(regimes, left, ahead))
        apart = state - ahead.mean[:, regime]
        weights = left.log_weights[:, regime] + log_densities(apart, ahead.covariance[:, regime])
        mean = left.mean[:, regime] + jnp.einsum("jab,jb->ja", gain, apart)
        new = held(inside, pick(weights, mean, symmetric(rest), key), later)
        return new, new

    ending = jax.tree.map(lambda a: a[-1], every)
    last = pick(ending.log_weights, ending.mean, ending.covariance, last_key)
    earlier = jax.tree.map(lambda a: a[:-1], every)
    _, found = jax.lax.scan(back, last, (earlier, inside, jr.split(key, steps.length - 1)), reverse=True)
    return Drawn(*jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), found, last))


def log_densities(apart: Float[Array, "many n"], covariance: Float[Array, "many n n"]) -> Float[Array, " many"]:
    """The log-density of each difference from a mean, up to a constant that all have in common."""
    roots = jnp.linalg.cholesky(covariance)
    white = jax.scipy.linalg.solve_triangular(roots, apart[..., None], lower=True)[..., 0]
    return -0.5 * (white**2).sum(-1) - jnp.log(jnp.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
