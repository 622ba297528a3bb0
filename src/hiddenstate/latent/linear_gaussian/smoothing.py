r"""What all observations say of the hidden states, backward from the filter's beliefs.

Backward, every state is a linear function of the next one and of noise of its own (Rauch, Tung and Striebel 1965):

.. math:: z_t = \hat z_t + G_t (z_{t+1} - \hat z_{t+1}^-) + N_t e

The gains :math:`G_t` come from the filter alone, so they are computed for all steps at once; the rest is one affine
recursion, run step by step in square-root form or as a parallel scan. Predicted covariances may be singular, and
diffuse:
then :math:`G_t` is the limit as the diffuse variance goes to infinity.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.linalg import solve_triangular

from hiddenstate._types import Array, Float
from hiddenstate.latent.linear_gaussian.filtering import RootBelief, Sequence
from hiddenstate.latent.linear_gaussian.system import System, held, merged
from hiddenstate.ops.gaussian import outer, symmetric, triangular


class Filtered(NamedTuple):
    """p(z_t | x_1 .. x_t): mean (time, state) and covariance (time, state, state)."""

    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]


class Smoothed(NamedTuple):
    """p(z_t | x_1 .. x_T), and in `cross_covariance` (time - 1, ...) the covariance of z_t with z_{t+1}."""

    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]
    cross_covariance: Float[Array, "pair state state"]


class Backward(NamedTuple):
    """z_t = mean + gain (z_{t+1} - ahead) + noise e for all steps but the last; `inside` is False behind the end."""

    known: RootBelief
    gain: Float[Array, "pair state state"]
    ahead: Float[Array, "pair state"]
    noise: Float[Array, "pair state noise"]
    inside: Any


def backward(sequence: Sequence, known: RootBelief, *, invertible: bool) -> Backward:
    """The affine functions, from the filter's beliefs; `invertible` says that the transition noise has an inverse."""

    def one(varying, known):
        system = merged(sequence.fixed, varying)
        gain = _gain(system, known) if invertible and known.diffuse is None else _singular_gain(system, known)
        kept = known.root - gain @ (system.transition @ known.root)
        noise = jnp.concatenate([kept, gain @ system.noise], 1)
        return gain, system.transition @ known.mean + system.shift, noise

    earlier = jax.tree.map(lambda a: a[:-1], (sequence.varying, known))
    gain, ahead, noise = jax.vmap(one)(*earlier)
    return Backward(known, gain, ahead, noise, None if sequence.valid is None else sequence.valid[1:])


def _gain(system: System, known: RootBelief) -> Array:
    ahead, crossed = _joint(system, known)
    return solve_triangular(ahead, crossed.T, lower=True, trans=1).T


def _joint(system: System, known: RootBelief) -> tuple[Array, Array]:
    """Of [z'; z] given the past: the root of z', and the block below it."""
    state = known.mean.shape[0]
    lower = jnp.zeros((state, system.noise.shape[1]), known.mean.dtype)
    upper = jnp.concatenate([system.transition @ known.root, system.noise], 1)
    root = triangular(jnp.concatenate([upper, jnp.concatenate([known.root, lower], 1)], 0))
    return root[:state, :state], root[state:, :state]


def _singular_gain(system: System, known: RootBelief) -> Array:
    """The gain where the next state may be certain, or diffuse, in some directions.

    Directions of z' that diffuse ones of z move into say what these are; the others inform as ever.
    """
    state, eye = known.mean.shape[0], jnp.eye(known.mean.shape[0], dtype=known.mean.dtype)
    move = jnp.concatenate([system.transition @ known.root, system.noise], 1)
    here = jnp.concatenate([known.root, jnp.zeros_like(system.noise)], 1)
    if known.diffuse is None:
        root = triangular(jnp.concatenate([move, here], 0))
        return root[state:, :state] @ _inverse(root[:state, :state], move)
    inverse, within = _diffuse_inverse(system.transition @ known.diffuse)
    apart = eye - within @ within.T
    root = triangular(jnp.concatenate([apart @ move, here, move], 0))[:, :state]
    informs = _inverse(root[:state], move) @ apart
    gain = root[state : 2 * state] @ informs
    return gain + known.diffuse @ inverse @ (eye - root[2 * state :] @ informs)


def _inverse(root: Array, units: Array) -> Array:
    """A generalised inverse of a square root, in units of the rows of another."""
    size = jnp.sqrt(jnp.square(units).sum(1))
    scale = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1.0), 0.0)
    left, values, right = jnp.linalg.svd(root * scale[:, None])
    inside = values > 4 * root.shape[0] * jnp.finfo(root.dtype).eps
    inverse = jnp.where(inside, 1 / jnp.where(inside, values, 1.0), 0.0)
    return (right.T * inverse) @ left.T * scale


def _diffuse_inverse(columns: Array) -> tuple[Array, Array]:
    """The pseudo-inverse of the moved diffuse directions, and orthonormal vectors that span them."""
    left, values, right = jnp.linalg.svd(columns)
    inside = values > 16 * columns.shape[0] * jnp.finfo(columns.dtype).eps * values[0]
    inverse = jnp.where(inside, 1 / jnp.where(inside, values, 1.0), 0.0)
    return (right.T * inverse) @ left.T, jnp.where(inside, left, 0.0)


# -- the recursions ------------------------------------------------------------------------------------------------


def smoothed(functions: Backward) -> Smoothed:
    """All states given everything, from the last step to the first, in square-root form."""

    def back(later, step):
        known, gain, ahead, noise, inside = step
        new = _earlier(later, known, gain, ahead, noise)
        new = held(inside, new, known)
        crossed = gain @ outer(later.root)
        return new, (new, crossed if inside is None else jnp.where(inside, crossed, 0.0))

    last = jax.tree.map(lambda a: a[-1], functions.known)
    rest = jax.tree.map(lambda a: a[:-1], functions.known)
    _, (beliefs, crossed) = jax.lax.scan(
        back, last, (rest, functions.gain, functions.ahead, functions.noise, functions.inside), reverse=True
    )
    beliefs = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), beliefs, last)
    return Smoothed(beliefs.mean, covariances(beliefs), crossed)


def _earlier(later: RootBelief, known: RootBelief, gain: Array, ahead: Array, noise: Array) -> RootBelief:
    return RootBelief(
        known.mean + gain @ (later.mean - ahead),
        triangular(jnp.concatenate([noise, gain @ later.root], 1)),
        None if later.diffuse is None else gain @ later.diffuse,
    )


def covariances(beliefs: RootBelief) -> Array:
    """The covariances of many beliefs; the variance of what is still diffuse is infinite."""
    found = outer(beliefs.root)
    if beliefs.diffuse is None:
        return found
    size = jnp.square(beliefs.diffuse).sum(-1)
    unknown = size > jnp.finfo(size.dtype).eps * size.max(initial=0.0)
    return jnp.where(unknown[..., None] & jnp.eye(size.shape[-1], dtype=bool), jnp.inf, found)


def smoothed_in_parallel(functions: Backward) -> Smoothed:
    """The same by a parallel scan (Särkkä and García-Fernández 2021, section IV)."""
    gain, offset = _affine(functions)
    spread = jnp.concatenate([outer(functions.noise), outer(functions.known.root[-1:])])
    if functions.inside is not None:
        alone = outer(functions.known.root[:-1])
        spread = spread.at[:-1].set(jnp.where(functions.inside[:, None, None], spread[:-1], alone))

    def join(later, earlier):
        (gain_2, offset_2, spread_2), (gain_1, offset_1, spread_1) = later, earlier
        moved = gain_1 @ spread_2 @ jnp.swapaxes(gain_1, -1, -2)
        return gain_1 @ gain_2, _times(gain_1, offset_2) + offset_1, symmetric(moved + spread_1)

    _, mean, covariance = jax.lax.associative_scan(join, (gain, offset, spread), reverse=True)
    return Smoothed(mean, covariance, gain[:-1] @ covariance[1:])


def _affine(functions: Backward) -> tuple[Array, Array]:
    """z_t = gain z_{t+1} + offset for all steps; the last, and those behind the end, do without a next one."""
    mean = functions.known.mean
    gain = jnp.concatenate([functions.gain, jnp.zeros_like(functions.known.root[:1])])
    offset = jnp.concatenate([mean[:-1] - _times(functions.gain, functions.ahead), mean[-1:]])
    if functions.inside is not None:
        inside = jnp.concatenate([functions.inside, jnp.zeros(1, bool)])
        gain = jnp.where(inside[:, None, None], gain, 0.0)
        offset = jnp.where(inside[:, None], offset, mean)
    return gain, offset


def _times(matrices: Array, vectors: Array) -> Array:
    return jnp.einsum("...ij,...j->...i", matrices, vectors)


def drawn(functions: Backward, key: Any, *, parallel: bool) -> Float[Array, "time state"]:
    """One draw of all states from their joint posterior."""
    known, dtype = functions.known, functions.known.mean.dtype
    first, second = jr.split(key)
    noise = _times(functions.noise, jr.normal(first, functions.noise.shape[::2], dtype))
    alone = _times(known.root, jr.normal(second, known.mean.shape, dtype))
    gain, offset = _affine(functions)
    inside = jnp.ones(len(noise), bool) if functions.inside is None else functions.inside
    noise = jnp.concatenate([jnp.where(inside[:, None], noise, alone[:-1]), alone[-1:]])
    if parallel:

        def join(later, earlier):
            (gain_2, offset_2), (gain_1, offset_1) = later, earlier
            return gain_1 @ gain_2, _times(gain_1, offset_2) + offset_1

        states = jax.lax.associative_scan(join, (gain, offset + noise), reverse=True)[1]
    else:

        def back(later, step):
            gain, offset = step
            new = gain @ later + offset
            return new, new

        states = jax.lax.scan(back, jnp.zeros_like(known.mean[0]), (gain, offset + noise), reverse=True)[1]
    if functions.inside is None:
        return states
    return states[jnp.minimum(jnp.arange(len(states)), functions.inside.sum())]


def lagged(functions: Backward, lag: int) -> Filtered:
    """p(z_t | x_1 .. x_{t+lag}): so many steps backward from every filter's belief, all at once."""
    rest = jax.tree.map(lambda a: a[:-1], functions.known)

    def back(_, beliefs):
        later = jax.tree.map(lambda a: a[1:], beliefs)
        new = jax.vmap(_earlier)(later, rest, functions.gain, functions.ahead, functions.noise)
        if functions.inside is not None:
            new = jax.vmap(held)(functions.inside, new, rest)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b[-1:]]), new, beliefs)

    beliefs = jax.lax.fori_loop(0, min(lag, len(functions.gain)), back, functions.known)
    return Filtered(beliefs.mean, covariances(beliefs))
