"""The Kalman filter in square-root form, of systems whose matrices do not vary in time.

z' = transition z + shift + noise e, x = emission z + emission_noise e'. Both noises are lower triangular roots of
their covariances, so that no factorisation is left to do.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.operation import Operation, call

LARGEST = 32
"""Up to so many numbers in a state and in an observation."""


class Roots(NamedTuple):
    """The matrices of a system, its noises as lower triangular roots."""

    transition: Float[Array, "state state"]
    noise: Float[Array, "state state"]
    emission: Float[Array, "event state"]
    emission_noise: Float[Array, "event event"]


class Factors(NamedTuple):
    """What no observation changes where none is missing: roots of covariances, and gains.

    `predicted` has a root more than there are steps: that after the last.
    """

    predicted: Float[Array, "boundary state state"]
    filtered: Float[Array, "time state state"]
    gain: Float[Array, "time state event"]
    innovation: Float[Array, "time event event"]
    log_size: Float[Array, " time"]


class Means(NamedTuple):
    """Log-probabilities of all steps and the mean after the last; the means before and at each, where asked for."""

    log_probs: Float[Array, " time"]
    last: Float[Array, " state"]
    predicted: Any
    filtered: Any


class Beliefs(NamedTuple):
    """As `Means`, with roots of the covariances, which differ between sequences."""

    log_probs: Float[Array, " time"]
    last: Float[Array, " state"]
    last_root: Float[Array, "state state"]
    predicted: Any
    predicted_root: Any
    filtered: Any
    filtered_root: Any


def factors(system: Roots, start: Float[Array, "state state"], time: int) -> Factors:
    """All that a filter of so many steps computes without looking at observations, from the root of a first covariance.

    Mapped over sequences that share the system and the start, it is still computed once.
    """
    return Factors(*_factors.single(*system, start, options=(time,)))


def means(
    system: Roots,
    known: Factors,
    start: Float[Array, " state"],
    xs: Float[Array, "time event"],
    shift: Float[Array, "rows state"],
    length: Shaped[Array, ""],
    *,
    keep: bool,
) -> Means:
    """The rest of the filter: `shift` has one row, or one for each step; behind the end the last mean stands."""
    shared = (system.transition, system.emission, known.gain, known.innovation, known.log_size)
    return Means(*_present(_means.single(*shared, start, xs, shift, length, options=(keep,)), keep, keep))


def beliefs(
    system: Roots,
    start: Float[Array, " state"],
    start_root: Float[Array, "state state"],
    xs: Float[Array, "time event"],
    observed: Shaped[Array, "time event"],
    shift: Float[Array, "rows state"],
    length: Shaped[Array, ""],
    *,
    keep: bool,
    filtered: bool,
) -> Beliefs:
    """The whole filter of a sequence of which entries are missing."""
    each = (start, start_root, xs, shift, observed, length)
    found = _beliefs.single(*system, *each, options=(keep, filtered))
    return Beliefs(*_present(found, keep, keep, filtered, filtered))


def _present(found: list[Array], *asked: bool) -> list[Any]:
    """The results, with None in place of those last ones that were not asked for."""
    first = len(found) - len(asked)
    return [*found[:first], *(a if there else None for a, there in zip(found[first:], asked, strict=True))]


def run_factors(transition, noise, emission, emission_noise, start, *, options):
    """Call the kernel of `factors` on arrays with leading axes; `options` is the number of steps."""
    groups, event, state = emission.shape
    (time,) = options
    shapes = ((time + 1, state, state), (time, state, state), (time, state, event), (time, event, event), (time,))
    made = [_shape(start, groups, 1, *shape) for shape in shapes]
    return call("kalman_factors", made, transition, noise, emission, emission_noise, start)


def run_means(transition, emission, gain, innovation, log_size, start, xs, shift, length, *, options):
    """Call the kernel of `means` on arrays with leading axes; `options` says whether to keep the means of all steps."""
    lead, time, state = xs.shape[:2], xs.shape[2], start.shape[-1]
    steps = time if options[0] else 0
    shapes = ((time,), (state,), (steps, state), (steps, state))
    made = [_shape(xs, *lead, *shape) for shape in shapes]
    return call("kalman_means", made, transition, emission, gain, innovation, log_size, start, xs, shift, length)


def run_beliefs(
    transition, noise, emission, emission_noise, start, start_root, xs, shift, observed, length, *, options
):
    """Call the kernel of `beliefs` on arrays with leading axes; `options` says which beliefs of all steps to keep."""
    lead, time, state = xs.shape[:2], xs.shape[2], start.shape[-1]
    shapes = [(time,), (state,), (state, state)]
    for asked in options:
        steps = time if asked else 0
        shapes += [(steps, state), (steps, state, state)]
    made = [_shape(xs, *lead, *shape) for shape in shapes]
    system = (transition, noise, emission, emission_noise)
    return call("kalman_each", made, *system, start, start_root, xs, shift, observed, length)


def _shape(like: Array, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.result_type(like))


_factors = Operation("kalman_factors", run_factors, shared=5)
_means = Operation("kalman_means", run_means, shared=5)
_beliefs = Operation("kalman_each", run_beliefs, shared=4)
