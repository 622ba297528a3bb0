r"""EM for linear Gaussian models (Shumway and Stoffer 1982; Ghahramani and Hinton 1996).

Both halves of the model are regressions: of :math:`z_{t+1}` on :math:`\xi_t = (z_t, u_t, 1)` with covariance Q, and of
:math:`x_t` on the same with covariance R. Their expected second moments are all that the maximisation needs, whichever
coefficients are held fixed. What the present coefficients leave unexplained is squared step by step, not taken as a
difference of large sums: states near 400 that move by 0.01 keep their small variance in float32 as well.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.core import Prior
from hiddenstate.latent.linear_gaussian.covariances import Covariance
from hiddenstate.latent.linear_gaussian.filtering import Sequence
from hiddenstate.latent.linear_gaussian.parameters import Parameters
from hiddenstate.latent.linear_gaussian.parts import is_free, plain
from hiddenstate.latent.linear_gaussian.smoothing import Smoothed
from hiddenstate.latent.linear_gaussian.system import System, merged
from hiddenstate.ops.gaussian import outer, semidefinite_inverse, symmetric


class Moments(NamedTuple):
    """Of a regression of y on xi: sums of E[xi xi'], E[y xi'] and E[r r'], and how many there were.

    r is what the coefficients leave of y that the expectation was taken with. Where coefficients vary in time they are
    known and not learned: xi has no entries.
    """

    regressors: Float[Array, "regressor regressor"]
    crossed: Float[Array, "target regressor"]
    left: Float[Array, "target target"]
    number: Float[Array, ""]


class Statistics(NamedTuple):
    """What `maximise` needs of a sequence; those of several sequences are added."""

    moves: Moments
    emissions: Moments
    first: Moments
    """The regression of z_1 on the number one."""


def statistics(sequence: Sequence, inputs: Any, found: Smoothed, start: Array, *, varies: bool) -> Statistics:
    """The expected statistics of one sequence, from its smoothed states; `start` is the model's mean of z_1."""
    mean, covariance, crossed = found
    dtype = mean.dtype
    valid = jnp.ones(len(mean), bool) if sequence.valid is None else sequence.valid
    if not varies and sequence.observed is None:
        return _of_whole(sequence, inputs, found, start, valid.astype(dtype))
    observed = valid if sequence.observed is None else valid & sequence.observed.any(1)
    systems = jax.vmap(lambda varying: merged(sequence.fixed, varying), axis_size=len(mean))(sequence.varying)
    one = jnp.ones((len(mean), 1), dtype)
    known = one if inputs is None else jnp.concatenate([inputs.astype(dtype), one], 1)
    now = jnp.concatenate([mean, known], 1)
    spread = jnp.zeros((len(mean), now.shape[1], now.shape[1]), dtype)
    spread = spread.at[:, : mean.shape[1], : mean.shape[1]].set(covariance)
    after = jnp.zeros((len(crossed), mean.shape[1], now.shape[1]), dtype)
    after = after.at[:, :, : mean.shape[1]].set(jnp.swapaxes(crossed, 1, 2))
    before = jax.tree.map(lambda a: a[:-1], systems)
    matrix, offset, left = jax.vmap(_imputed)(
        systems, sequence.xs, jnp.ones_like(sequence.xs, bool) if sequence.observed is None else sequence.observed
    )
    moves = jax.vmap(_of_move)(before, now[:-1], spread[:-1], mean[1:], covariance[1:], after)
    emissions = jax.vmap(_of_emission)(systems, now, spread, matrix, offset, left)
    if varies:
        moves, emissions = _left_alone(moves), _left_alone(emissions)
    return Statistics(
        _summed(moves, valid[1:].astype(dtype)),
        _summed(emissions, observed.astype(dtype)),
        _of_first(mean[0], covariance[0], start),
    )


def _of_first(mean: Array, covariance: Array, start: Array) -> Moments:
    one = jnp.ones((), mean.dtype)
    return Moments(one[None, None], mean[:, None], covariance + jnp.outer(mean - start, mean - start), one)


def _of_whole(sequence: Sequence, inputs: Any, found: Smoothed, start: Array, weights: Array) -> Statistics:
    """The statistics where the matrices stay and nothing is missing: products over all steps at once.

    Covariances enter on their own, so that sequences which share them share what is computed of them.
    """
    mean, covariance, crossed = found
    system, state = sequence.fixed, mean.shape[1]
    shift = system.shift if sequence.varying.shift is None else sequence.varying.shift[:-1]
    offset = system.offset if sequence.varying.offset is None else sequence.varying.offset
    one = jnp.ones((len(mean), 1), mean.dtype)
    now = jnp.concatenate([mean, one] if inputs is None else [mean, inputs.astype(mean.dtype), one], 1)
    pairs, before = weights[1:], now[:-1]

    def squared(rows, weights):
        return (rows * weights[:, None]).T @ rows

    def among_states(matrix, rows):
        return jnp.pad(matrix, ((0, rows - matrix.shape[0]), (0, now.shape[1] - state)))

    shared = system.transition @ crossed
    moved = system.transition @ covariance[:-1] @ system.transition.T
    left = symmetric(covariance[1:] - shared - jnp.swapaxes(shared, 1, 2) + moved)
    residual = mean[1:] - mean[:-1] @ system.transition.T - shift
    moves = Moments(
        among_states(jnp.tensordot(pairs, covariance[:-1], 1), now.shape[1]) + squared(before, pairs),
        among_states(jnp.tensordot(pairs, crossed, 1).T, state) + (mean[1:] * pairs[:, None]).T @ before,
        jnp.tensordot(pairs, left, 1) + squared(residual, pairs),
        pairs.sum(),
    )
    spread = jnp.tensordot(weights, covariance, 1)
    apart = sequence.xs - offset - mean @ system.emission.T
    emissions = Moments(
        among_states(spread, now.shape[1]) + squared(now, weights),
        (sequence.xs * weights[:, None]).T @ now,
        symmetric(system.emission @ spread @ system.emission.T) + squared(apart, weights),
        weights.sum(),
    )
    return Statistics(moves, emissions, _of_first(mean[0], covariance[0], start))


def _summed(moments: Moments, weights: Array) -> Moments:
    return Moments(*[jnp.tensordot(weights, each, 1) for each in moments])


def _left_alone(moments: Moments) -> Moments:
    """Of moments per step, those of a regression on nothing."""
    return moments._replace(regressors=moments.regressors[:, :0, :0], crossed=moments.crossed[:, :, :0])


def _of_move(system: System, now, spread, after, after_spread, crossed) -> Moments:
    state = after.shape[0]
    residual = after - system.transition @ now[:state] - system.shift
    shared = system.transition @ crossed[:, :state].T
    moved = system.transition @ spread[:state, :state] @ system.transition.T
    return Moments(
        spread + jnp.outer(now, now),
        crossed + jnp.outer(after, now),
        symmetric(after_spread - shared - shared.T + moved) + jnp.outer(residual, residual),
        jnp.ones((), now.dtype),
    )


def _imputed(system: System, x: Array, observed: Array) -> tuple[Array, Array, Array]:
    """x with its missing entries as expected: x = matrix z + offset + noise, given z and the entries that are known."""
    noise = outer(system.emission_noise)
    eye = jnp.eye(x.shape[0], dtype=x.dtype)
    both = observed[:, None] & observed
    gain = noise @ semidefinite_inverse(jnp.where(both, noise, eye))
    gain = jnp.where(~observed[:, None] & observed, gain, 0.0)
    absent = jnp.where(~observed[:, None], eye, 0.0)
    matrix = (absent - gain) @ system.emission
    offset = jnp.where(observed, x, system.offset) + gain @ jnp.where(observed, x - system.offset, 0.0)
    left = absent @ noise @ absent - gain @ noise @ absent
    return matrix, offset, symmetric(left)


def _of_emission(system: System, now, spread, matrix, offset, left) -> Moments:
    state = system.transition.shape[0]
    x, rows = matrix @ now[:state] + offset, matrix - system.emission
    residual = rows @ now[:state] + offset - system.offset
    return Moments(
        spread + jnp.outer(now, now),
        matrix @ spread[:state] + jnp.outer(x, now),
        symmetric(rows @ spread[:state, :state] @ rows.T + left) + jnp.outer(residual, residual),
        jnp.ones((), now.dtype),
    )


class Regression(NamedTuple):
    """The parts of one regression after the maximisation."""

    matrix: Any
    inputs: Any
    offset: Any
    noise: Covariance


def maximised(parts: Parameters, statistics: Statistics, prior: Prior, only: tuple[str, ...] | None) -> Parameters:
    """The parts of greatest expected likelihood; those that are fixed, or not among `only`, stay."""

    def free(*names):
        return tuple((only is None or name in only) and is_free(getattr(parts, name)) for name in names)

    changed = {}
    for kind, moments in (("transition", statistics.moves), ("emission", statistics.emissions)):
        names = (kind, f"{kind}_input", f"{kind}_offset", f"{kind}_noise")
        now = Regression(*[getattr(parts, name) for name in names])
        new = _maximised_regression(now, free(*names), moments, prior)
        changed |= dict(zip(names, new, strict=True))
    names = ("initial_mean", "initial_covariance")
    mean = plain(parts.initial_mean)
    start = Regression(jnp.zeros((len(mean), 0), mean.dtype), None, *[getattr(parts, n) for n in names])
    new = _maximised_regression(start, (False, False, *free(*names)), statistics.first, prior)
    changed |= dict(zip(names, new[2:], strict=True))
    return Parameters(**changed)


def _maximised_regression(now: Regression, free: tuple[bool, ...], moments: Moments, prior: Prior) -> Regression:
    """The coefficients and the covariance of greatest expected likelihood, of those that are `free`."""
    width = moments.regressors.shape[0]
    if not width:
        return now._replace(noise=now.noise.maximise(moments.left, moments.number, prior)) if free[3] else now
    target, state = moments.crossed.shape[0], plain(now.matrix).shape[1]
    dtype = moments.crossed.dtype
    columns = [slice(0, state), slice(state, width - 1), slice(width - 1, width)]
    parts: list[Any] = [now.matrix, now.inputs, now.offset]
    whole = jnp.zeros((target, width), dtype)
    for part, where in zip(parts, columns, strict=True):
        if part is not None:
            whole = whole.at[:, where].set(plain(part).reshape(target, -1))
    before = whole
    structured = hasattr(now.matrix, "maximise")
    if structured and free[0]:
        crossed = moments.crossed[:, :state] - whole[:, state:] @ moments.regressors[state:, :state]
        parts[0] = now.matrix.maximise(moments.regressors[:state, :state], crossed)
        whole = whole.at[:, :state].set(plain(parts[0]))
    chosen = jnp.concatenate(
        [jnp.full(columns[i].stop - columns[i].start, free[i] and not (i == 0 and structured)) for i in range(3)]
    )
    inverse = semidefinite_inverse(jnp.where(chosen[:, None] & chosen, moments.regressors, 0.0))
    change = (moments.crossed - whole @ moments.regressors) @ inverse
    whole = whole + now.noise.within(jnp.where(chosen, change, 0.0))
    for i, where in enumerate(columns):
        if free[i] and parts[i] is not None and not (i == 0 and structured):
            parts[i] = whole[:, where].reshape(plain(parts[i]).shape)
    noise = now.noise
    if free[3]:
        change = whole - before
        shared = change @ (moments.crossed - before @ moments.regressors).T
        scatter = moments.left - shared - shared.T + change @ moments.regressors @ change.T
        noise = now.noise.maximise(symmetric(scatter), moments.number, prior)
    return Regression(parts[0], parts[1], parts[2], noise)
