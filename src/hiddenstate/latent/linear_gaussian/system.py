"""One step of a linear Gaussian model as arrays, and how a belief moves through it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.ops.gaussian import Conditioned, condition, condition_diffuse, outer, symmetric


class Belief(NamedTuple):
    """What is known of the hidden state z_t before x_t is seen: a Gaussian.

    Where some directions of the first state are diffuse, the covariance is `covariance` plus an infinite multiple of
    ``diffuse @ diffuse.T``; each observation that determines such a direction sets a column of `diffuse` to zero.
    `time` counts the steps of a model whose matrices vary.
    """

    mean: Float[Array, " state"]
    covariance: Float[Array, "state state"]
    diffuse: Float[Array, "state state"] | None = None
    time: Shaped[Array, ""] | None = None


class Observation(NamedTuple):
    """One step's data; `observed` is None where every entry is known."""

    x: Float[Array, " event"]
    u: Float[Array, " inputs"] | None = None
    observed: Shaped[Array, " event"] | None = None


class System(NamedTuple):
    """z' = transition z + shift + noise e, x = emission z + offset + emission_noise e', with e and e' standard normal.

    In a sequence, the fields that do not vary stand in one `System` and those that do, with a leading time axis, in
    another: each has None where the other has something.
    """

    transition: Any
    shift: Any
    noise: Any
    emission: Any
    offset: Any
    emission_noise: Any


def merged(fixed: System, varying: System) -> System:
    """One step's system out of its two halves."""
    return System(*[f if v is None else v for f, v in zip(fixed, varying, strict=True)])


def conditioned(system: System, belief: Belief, x: Array, observed: Array | None, *, diagonal: bool) -> Conditioned:
    """The belief over z_t given x_t as well, with the log-probability of x_t."""
    mean, covariance, diffuse, _ = belief
    noise, x = outer(system.emission_noise), x - system.offset
    if diffuse is None:
        return condition(mean, covariance, system.emission, noise, x, observed)
    return condition_diffuse(mean, covariance, diffuse, system.emission, noise, x, observed, diagonal=diagonal)


def propagated(system: System, known: Conditioned, time: Array | None = None) -> Belief:
    """The belief over z_{t+1}, from that over z_t."""
    covariance = system.transition @ known.covariance @ system.transition.T + outer(system.noise)
    return Belief(
        system.transition @ known.mean + system.shift,
        symmetric(covariance),
        None if known.diffuse is None else system.transition @ known.diffuse,
        None if time is None else time + 1,
    )


def held(inside: Array | None, new: Any, old: Any) -> Any:
    """`new` at a real step, `old` behind the end."""
    if inside is None:
        return new
    return jax.tree.map(lambda a, b: jnp.where(inside, a, b), new, old)
