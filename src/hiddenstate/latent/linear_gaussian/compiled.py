"""Filter and smoother of a linear Gaussian model by compiled kernels.

Where no observation is missing, covariances do not depend on the data: sequences that are mapped over share one chain
of them, and only means are computed for each. For systems whose matrices do not vary; offsets may.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.latent.linear_gaussian.filtering import RootBelief, Sequence, rooted
from hiddenstate.latent.linear_gaussian.smoothing import Filtered, Smoothed
from hiddenstate.latent.linear_gaussian.system import Belief
from hiddenstate.native import evidence, kalman, smoother
from hiddenstate.native.operation import lengths_of
from hiddenstate.ops.gaussian import outer, semidefinite_root, triangular

LARGEST = kalman.LARGEST
"""Up to so many numbers in a state and in an observation there is a kernel."""


class _Run(NamedTuple):
    """A filter's beliefs. Roots that sequences share go on behind the end of one; means stand there."""

    log_probs: Float[Array, " time"]
    last: RootBelief
    predicted: Any
    filtered: Any


def forward_natively(
    sequence: Sequence, belief: RootBelief, *, keep: bool
) -> tuple[Float[Array, " time"], RootBelief | None, RootBelief]:
    """As `hiddenstate.latent.linear_gaussian.filtering.forward`; the beliefs before each step only if they are kept."""
    log_probs, last, predicted, _ = _run(sequence, belief, keep=keep, filtered=False)
    if keep and sequence.observed is None:
        predicted = RootBelief(predicted.mean, _held(predicted.root, sequence, 0))
    return log_probs, predicted, last


def score_natively(sequence: Sequence, belief: Belief) -> tuple[Float[Array, " time"], Belief]:
    """As `hiddenstate.latent.linear_gaussian.filtering.log_probs_of`, with the way back by a kernel too."""
    system, xs, shift, length = _given(sequence)
    noises = evidence.Noises(outer(sequence.fixed.noise), outer(sequence.fixed.emission_noise))
    start = evidence.Start(belief.mean, semidefinite_root(jax.lax.stop_gradient(belief.covariance)), belief.covariance)
    found = evidence.evidence(system, noises, start, xs, sequence.observed, shift, length)
    return found.log_probs, Belief(found.mean, found.covariance)


def filter_natively(sequence: Sequence, first: Belief) -> tuple[Filtered, Float[Array, " time"]]:
    """p(z_t | x_1 .. x_t) and the log-probability of every step."""
    log_probs, _, _, known = _run(sequence, rooted(first), keep=False, filtered=True)
    covariance = outer(known.root)
    if sequence.observed is None:
        covariance = _held(covariance, sequence, 1)
    return Filtered(known.mean, covariance), log_probs


def smooth_natively(
    sequence: Sequence, first: Belief, *, copied: bool = False
) -> tuple[Smoothed, Float[Array, " time"]]:
    """p(z_t | x_1 .. x_T) and the log-probability of every step; the transition noise must have an inverse.

    Where sequences share covariances these are one array for all of them, or `copied`, one for each.
    """
    log_probs, _, predicted, known = _run(sequence, rooted(first), keep=True, filtered=True)
    system, length = sequence.fixed, lengths_of(sequence.valid, len(sequence.xs))
    gains = smoother.gains(system.transition, triangular(system.noise), known.root[:-1])
    shared = sequence.observed is None
    if shared and sequence.valid is None:
        mean = smoother.means(gains, known.mean, predicted.mean, length)
        spread = smoother.chain(gains, known.root[-1])
        return Smoothed(mean, *(smoother.copied(spread, mean) if copied else spread)), log_probs
    mean, spread = smoother.each(gains, known.root, known.mean, predicted.mean, length, own=not shared)
    return Smoothed(mean, *spread), log_probs


def _run(sequence: Sequence, belief: RootBelief, *, keep: bool, filtered: bool) -> _Run:
    system, xs, shift, length = _given(sequence)
    if sequence.observed is not None:
        each = (belief.mean, belief.root, xs, sequence.observed, shift, length)
        found = kalman.beliefs(system, *each, keep=keep, filtered=filtered)
        predicted = RootBelief(found.predicted, found.predicted_root) if keep else None
        known = RootBelief(found.filtered, found.filtered_root) if filtered else None
        return _Run(found.log_probs, RootBelief(found.last, found.last_root), predicted, known)
    factors = kalman.factors(system, belief.root, len(xs))
    means = kalman.means(system, factors, belief.mean, xs, shift, length, keep=keep or filtered)
    last = factors.predicted[-1] if sequence.valid is None else factors.predicted[length]
    predicted = RootBelief(means.predicted, factors.predicted[:-1]) if keep else None
    known = RootBelief(means.filtered, factors.filtered) if filtered else None
    return _Run(means.log_probs, RootBelief(means.last, last), predicted, known)


def _given(sequence: Sequence) -> tuple[kalman.Roots, Array, Array, Array]:
    """The system, the observations without their offset, the shifts and the length, as kernels take them."""
    fixed, varying = sequence.fixed, sequence.varying
    noises = (triangular(jax.lax.stop_gradient(root)) for root in (fixed.noise, fixed.emission_noise))
    shift = fixed.shift[None] if varying.shift is None else varying.shift
    xs = sequence.xs - (fixed.offset if varying.offset is None else varying.offset)
    system = kalman.Roots(fixed.transition, next(noises), fixed.emission, next(noises))
    return system, xs, shift, lengths_of(sequence.valid, len(xs))


def _held(roots: Array, sequence: Sequence, before: int) -> Array:
    """What stands behind the end of a sequence, `before` steps before that."""
    if sequence.valid is None:
        return roots
    return roots[jnp.minimum(jnp.arange(len(roots)), sequence.valid.sum() - before)]
