"""The log-probability of observations under a linear Gaussian system, by the Kalman filter, with its derivative.

The filter runs on square roots, but what has slopes are the covariances that they are roots of, so that no root, which
may be singular, is ever differentiated.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native import kalman
from hiddenstate.native.kalman import Roots
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call
from hiddenstate.native.weights import NONE


class Noises(NamedTuple):
    """The covariances that the noises of a system are roots of."""

    transition: Float[Array, "state state"]
    emission: Float[Array, "event event"]


class Start(NamedTuple):
    """The belief before the first observation; `covariance` is that of its root."""

    mean: Float[Array, " state"]
    root: Float[Array, "state state"]
    covariance: Float[Array, "state state"]


class Evidence(NamedTuple):
    """Log-probabilities of all steps, and the belief after the last."""

    log_probs: Float[Array, " time"]
    mean: Float[Array, " state"]
    covariance: Float[Array, "state state"]


def evidence(
    system: Roots,
    noises: Noises,
    start: Start,
    xs: Float[Array, "time event"],
    observed: Shaped[Array, "time event"] | None,
    shift: Float[Array, "rows state"],
    length: Shaped[Array, ""],
) -> Evidence:
    """The evidence of one sequence; `shift` has one row, or one for each step.

    Slopes of roots are zero: those of `noises` and of the covariance of `start` stand for them. Where nothing is
    missing, sequences that are mapped over share one chain of covariances.
    """
    missing = observed is not None
    there = observed if missing else jnp.zeros(NONE, bool)
    arrays = *system, *noises, start.root, start.covariance, start.mean, xs, there, shift, length
    return Evidence(*(_missing if missing else _whole).single(*arrays))


def _run_whole(*arrays, options, keep=False):
    """With the roots and the means before all steps, where they are to be kept."""
    del options
    transition, noise, emission, emission_noise, _, _, root, _, start, xs, _, shift, lengths = arrays
    found = kalman.run_factors(transition, noise, emission, emission_noise, root, options=(xs.shape[2],))
    roots, _, gain, innovation, log_size = (a[:, 0] for a in found)
    shared = transition, emission, gain, innovation, log_size
    log_probs, last, means, _ = kalman.run_means(*shared, start, xs, shift, lengths, options=(keep,))
    at_end = jnp.take_along_axis(roots, lengths[:, :, None, None], 1)
    return [log_probs, last, _square(at_end), *([roots[:, None], means] if keep else [])]


def _run_missing(*arrays, options, keep=False):
    del options
    transition, noise, emission, emission_noise, _, _, root, _, start, xs, observed, shift, lengths = arrays
    system = transition, noise, emission, emission_noise
    found = kalman.run_beliefs(*system, start, root, xs, shift, observed, lengths, options=(keep, False))
    log_probs, last, last_root, means, roots, _, _ = found
    return [log_probs, last, _square(last_root), *([roots, means] if keep else [])]


def _square(root):
    return root @ jnp.swapaxes(root, -1, -2)


def _run_back(transition, emission, noise, *rest, options, own):
    """`rest`: roots, means, observations, which of them are there, lengths, and the slopes of what `evidence` gives."""
    _, means, xs, _, lengths, *_ = rest
    n, m = means.shape[-1], xs.shape[-1]
    sizes = (n,), (n, n), xs.shape[2:], (options[0], n), (n, n), (n, n), (m, n), (m, m)
    shapes = [jax.ShapeDtypeStruct((*lengths.shape, *size), xs.dtype) for size in sizes]
    return call("kalman_gradient", shapes, transition, emission, noise, *rest, own=own)


def _operation(name: str, run: Callable[..., list[Array]], shared: int, *, own: bool) -> Operation:
    """An operation that computes with `run`; sequences have `own` roots and first covariances, or share them."""
    keeping = Operation(f"{name}_keeping", partial(run, keep=True), shared=shared)
    back = Operation(f"{name}_back", partial(_run_back, own=own), shared=3 if own else 4)

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def differentiable(options, *arrays):
        return tuple(forward(*arrays, options=options))

    def keep(options, *arrays):
        *found, roots, means = keeping(*arrays, options=options)
        return tuple(found), (arrays, roots if own else roots[:, 0], means)

    def pull(options, kept, slopes):
        del options
        arrays, roots, means = kept
        transition, noise, emission, emission_noise, _, covariance, root, _, _, xs, observed, shift, lengths = arrays
        given = transition, emission, covariance, roots, means, xs, observed, lengths, *slopes
        d_start, d_first, d_xs, d_shift, *sums = back(*given, options=(shift.shape[2],))
        d_transition, d_noise, d_emission, d_emission_noise = (a.sum(1) for a in sums)
        none = [jnp.zeros_like(a) for a in (noise, emission_noise, root)]
        of_system = d_transition, none[0], d_emission, none[1], d_noise, d_emission_noise
        return *of_system, none[2], d_first if own else d_first.sum(1), d_start, d_xs, None, d_shift, None

    differentiable.defvjp(keep, adjoints_alike(pull))
    forward = Operation(name, run, shared=shared, derivative=differentiable)
    return forward


_whole = _operation("kalman_evidence", _run_whole, 8, own=False)
_missing = _operation("kalman_evidence_missing", _run_missing, 6, own=True)
