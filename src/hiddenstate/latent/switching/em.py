r"""The maximisation of variational EM: parameters of switching models from expected second moments.

Moves, observations and first states are regressions, weighted by how probable each regime is at each step. Parts that
regimes share, entries outside of a chain's block and parts that are held fixed stay as they are told to be: the
coefficients that are free are those of greatest expected likelihood given the noise, and the noise that of greatest
expected likelihood given these. Where coefficients are not shared, or the noise is, that is the joint maximum; where
regimes with noise of their own share coefficients it is one step towards it (Meng and Rubin 1993), and the bound rises
all the same. A regime in which fewer steps are expected than it has coefficients keeps its own parts as they were.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Prior, Steps
from hiddenstate.latent.linear_gaussian.covariances import Full
from hiddenstate.latent.linear_gaussian.parts import plain
from hiddenstate.latent.switching.regimes import Parameters, Regimes, masks
from hiddenstate.latent.switching.variational import VariationalPosterior
from hiddenstate.ops.gaussian import semidefinite_inverse, symmetric


class Moments(NamedTuple):
    """Of a regression of y on (r, 1) in each regime: weighted sums of second moments, and how many steps there were.

    `left` are the squares of what the coefficients leave of y that the expectation was taken with.
    """

    regressors: Float[Array, "regime regressor regressor"]
    crossed: Float[Array, "regime target regressor"]
    left: Float[Array, "regime target target"]
    number: Float[Array, " regime"]


class SwitchingStatistics(NamedTuple):
    """What `maximise` needs of a sequence; those of several sequences are added."""

    initial: Float[Array, " regime"]
    transition: Float[Array, "regime regime"]
    occupancy: Float[Array, " regime"]
    first: Moments
    moves: Moments
    seen: Moments


# -- expectation -----------------------------------------------------------------------------------------------


def statistics(regimes: Regimes, steps: Steps, found: VariationalPosterior) -> SwitchingStatistics:
    """The expected statistics of one sequence under its variational posterior."""
    mean, covariance, crossed, _ = found.states
    dtype = mean.dtype
    marginals = found.regimes.marginals
    if steps.valid is not None:
        marginals = jnp.where(steps.valid[:, None], marginals, 0.0)
    nothing = jnp.zeros((*regimes.initial_mean.shape, 0), dtype)
    first = _moments(
        marginals[:1], mean[:1], covariance[:1], mean[:1, :0], covariance[:1, :0, :0], covariance[:1, :, :0],
        nothing, regimes.initial_mean,
    )  # fmt: skip
    moves = _moments(
        marginals[1:], mean[1:], covariance[1:], mean[:-1], covariance[:-1], jnp.swapaxes(crossed, 1, 2),
        regimes.dynamics, regimes.dynamics_offset,
    )  # fmt: skip
    x = jnp.asarray(steps.values, dtype).reshape(steps.length, -1)
    if steps.observed is None:
        exact = jnp.zeros((len(x), x.shape[1], x.shape[1]), dtype)
        apart = jnp.zeros((len(x), x.shape[1], mean.shape[1]), dtype)
        seen = _moments(marginals, x, exact, mean, covariance, apart, regimes.observation, regimes.observation_offset)
    else:
        seen = _partly_seen(regimes, marginals, x, steps.observed.reshape(x.shape), mean, covariance)
    return SwitchingStatistics(marginals[0], found.regimes.moves, marginals.sum(0), first, moves, seen)


def _moments(weights, target, spread, regressor, regressor_spread, crossed, matrix, offset) -> Moments:
    """Sums over time; residuals are squared step by step, so that small ones keep their digits."""
    one = jnp.ones((len(regressor), 1), regressor.dtype)
    now = jnp.concatenate([regressor, one], 1)
    within = jnp.einsum("tk,tij->kij", weights, regressor_spread)
    across = jnp.einsum("tk,tij->kij", weights, crossed)
    of_target = jnp.einsum("tk,tij->kij", weights, spread)
    residual = target[:, None] - jnp.einsum("kij,tj->tki", matrix, regressor) - offset
    shared = across @ jnp.swapaxes(matrix, 1, 2)
    left = jnp.einsum("tk,tki,tkj->kij", weights, residual, residual) + of_target
    left += -shared - jnp.swapaxes(shared, 1, 2) + matrix @ within @ jnp.swapaxes(matrix, 1, 2)
    room = ((0, 0), (0, 0), (0, 1))
    return Moments(
        jnp.einsum("tk,ti,tj->kij", weights, now, now) + jnp.pad(within, ((0, 0), (0, 1), (0, 1))),
        jnp.einsum("tk,ti,tj->kij", weights, target, now) + jnp.pad(across, room),
        symmetric(left),
        weights.sum(0),
    )


def _partly_seen(regimes: Regimes, weights, x, observed, mean, covariance) -> Moments:
    """The moments of observations with missing entries, which are expected as regime, state and the others say."""
    weights = jnp.where(observed.any(1)[:, None], weights, 0.0)

    def of_regime(weights, matrix, offset, noise):
        def of_step(weight, x, observed, mean, covariance):
            eye = jnp.eye(len(x), dtype=x.dtype)
            inverse = jnp.linalg.inv(jnp.where(observed[:, None] & observed, noise, eye))
            gain = jnp.where(~observed[:, None] & observed, noise @ inverse, 0.0)
            absent = jnp.where(~observed[:, None], eye, 0.0)
            rows = (absent - gain) @ matrix
            filled = jnp.where(observed, x, offset) + gain @ jnp.where(observed, x - offset, 0.0)
            rest = symmetric(absent @ noise @ absent - gain @ noise @ absent)
            spread = rows @ covariance @ rows.T + rest
            found = _moments(
                weight[None, None], (rows @ mean + filled)[None], spread[None], mean[None], covariance[None],
                (rows @ covariance)[None], matrix[None], offset[None],
            )  # fmt: skip
            return jax.tree.map(lambda a: a[0], found)

        each = jax.vmap(of_step)(weights, x, observed, mean, covariance)
        return jax.tree.map(lambda a: a.sum(0), each)

    parts = regimes.observation, regimes.observation_offset, regimes.observation_noise
    return jax.vmap(of_regime, (1, 0, 0, 0))(weights, *parts)


# -- maximisation ----------------------------------------------------------------------------------------------


def maximised(
    parameters: Parameters,
    regimes: Regimes,
    chains: tuple[int, ...] | None,
    found: SwitchingStatistics,
    prior: Prior,
    only: tuple[str, ...] | None,
) -> Parameters:
    """The parts of greatest expected likelihood; `only` names those that may change."""
    inside = seen = None
    if chains is not None:
        inside, seen = masks(chains)
    for names, moments, root, mask, block in (
        (("", "initial_mean", "initial_covariance"), found.first, regimes.initial_root, None, inside),
        (("dynamics", "dynamics_offset", "dynamics_noise"), found.moves, regimes.dynamics_root, inside, inside),
        (("observation", "observation_offset", "observation_noise"), found.seen, regimes.observation_root, seen, None),
    ):
        free = tuple(bool(name) and (only is None or name in only) and parameters.is_learned(name) for name in names)
        parameters = _regressed(parameters, names, free, moments, root, mask, block, prior)
    return parameters


def _regressed(
    parameters: Parameters,
    names: tuple[str, str, str],
    free: tuple[bool, ...],
    moments: Moments,
    root: Float[Array, "regime target target"],
    mask: Any,
    block: Any,
    prior: Prior,
) -> Parameters:
    """One regression's coefficients and noise; `mask` is one where a coefficient may be, `block` a variance."""
    matrix, offset, noise = names
    width = moments.regressors.shape[-1] - 1
    enough = moments.number >= (width + 1 if width else 0.5)
    own = [bool(name) and not parameters.is_shared(name) for name in names]
    before = _coefficients(parameters, matrix, offset, moments, mask)
    change = jnp.zeros_like(before)
    if free[0] or free[1]:
        allowed = np.ones(before.shape, bool)
        allowed[..., :width] = free[0] if mask is None else (free[0] * np.asarray(mask) > 0)
        allowed[..., width] = free[1]
        slack = moments.crossed - before @ moments.regressors
        usable = jnp.where(enough[:, None, None], 1.0, 0.0).astype(before.dtype)
        of_own = (own[0], own[1])
        if (free[0] and not own[0]) or (free[1] and not own[1]):  # what is shared is learned from all regimes
            usable = jnp.ones_like(usable)
        regressors, slack = moments.regressors * usable, slack * usable
        change = _best_change(regressors, slack, allowed, of_own, root, noise_shared=not own[2])
    whole = before + change
    if free[0]:
        new = whole[..., :width]
        parameters = _with(parameters, matrix, new if own[0] else _shared(new, mask))
    if free[1]:
        parameters = _with(parameters, offset, whole[..., width] if own[1] else whole[0, :, width])
    if free[2]:
        slack = moments.crossed - before @ moments.regressors
        crossed = change @ jnp.swapaxes(slack, 1, 2)
        scatter = moments.left - crossed - jnp.swapaxes(crossed, 1, 2)
        scatter = symmetric(scatter + change @ moments.regressors @ jnp.swapaxes(change, 1, 2))
        scatter = scatter if block is None else scatter * jnp.asarray(block, scatter.dtype)
        now = getattr(parameters, noise)
        new = _noise(now, scatter, moments.number, enough, own[2], prior)
        parameters = eqx.tree_at(lambda p: getattr(p, noise), parameters, new)
    return parameters


def _coefficients(parameters: Parameters, matrix: str, offset: str, moments: Moments, mask: Any) -> Array:
    """The matrix and the offset of every regime side by side."""
    count, target, width = moments.crossed.shape
    left = jnp.zeros((count, target, width - 1), moments.crossed.dtype)
    if matrix:
        left = left + plain(getattr(parameters, matrix))
        left = left if mask is None else left * jnp.asarray(mask, left.dtype)
    last = getattr(parameters, offset)
    right = jnp.zeros((count, target), left.dtype) if last is None else plain(last) + jnp.zeros((count, target))
    return jnp.concatenate([left, right.astype(left.dtype)[..., None]], -1)


def _shared(new: Float[Array, "regime target regressor"], mask: Any) -> Float[Array, "target regressor"]:
    """What all regimes have in common; with a mask for each regime, every entry from one that has it."""
    if mask is None or np.ndim(mask) == 2:
        return new[0]
    return (new * jnp.asarray(mask, new.dtype)).sum(0)


def _with(parameters: Parameters, name: str, value: Array) -> Parameters:
    now = plain(getattr(parameters, name))
    return eqx.tree_at(lambda p: getattr(p, name), parameters, value.astype(now.dtype))


def _noise(now: Full, scatter: Array, number: Array, enough: Array, own: bool, prior: Prior) -> Full:
    """The covariances, from the mean of squares; regimes with too few steps keep theirs."""
    one = jnp.ones((), scatter.dtype)
    if not own:
        total = number.sum()
        mean = scatter.sum(0) / jnp.where(total > 0, total, 1.0)
        return now.maximise(mean, jnp.where(total > 0, one, 0.0), prior)
    mean = scatter / jnp.where(enough, number, 1.0)[:, None, None]
    counts = jnp.where(enough, one, 0.0)
    return jax.vmap(lambda now, mean, count: now.maximise(mean, count, prior))(now, mean, counts)


def _best_change(
    regressors: Float[Array, "regime regressor regressor"],
    slack: Float[Array, "regime target regressor"],
    allowed: np.ndarray,
    own: tuple[bool, bool],
    root: Float[Array, "regime target target"],
    *,
    noise_shared: bool,
) -> Float[Array, "regime target regressor"]:
    """The change of all coefficients that makes the expected likelihood greatest, given the noise.

    Where nothing that changes is shared every regime is a regression of its own, whatever its noise. Where the noise
    is shared as well, rows are regressions of their own too. (Entries outside of blocks are no exception: noise that
    has the same blocks does not join the rows that differ.) Only regimes with noise of their own that share
    coefficients need all of them at once.
    """
    count, _, width = slack.shape
    learned = allowed[..., :-1].any(), allowed[..., -1].any()
    shares = (learned[0] and not own[0]) or (learned[1] and not own[1])
    if not shares:
        inside = jnp.asarray(allowed.any(1))
        both = inside[:, :, None] & inside[:, None, :]
        inverses = jax.vmap(semidefinite_inverse)(jnp.where(both, regressors, 0.0))
        return jnp.where(jnp.asarray(allowed), slack @ inverses, 0.0)
    somewhere = np.asarray(allowed.any(1))
    places = _places(count, width, own) * somewhere[..., None]
    if noise_shared:
        return _row_by_row(regressors, slack, places, np.asarray((allowed @ places).any(0)))
    return _all_at_once(regressors, slack, allowed, places, root)


def _places(count: int, width: int, own: tuple[bool, bool]) -> np.ndarray:
    """Which unknown each regressor of each regime goes with: (regime, regressor, unknown), zeros and ones."""
    index = np.zeros((count, width), int)
    matrices = count if own[0] else 1
    for k in range(count):
        index[k, :-1] = np.arange(width - 1) + (k * (width - 1) if own[0] else 0)
        index[k, -1] = matrices * (width - 1) + (k if own[1] else 0)
    return np.eye(matrices * (width - 1) + (count if own[1] else 1))[index]


def _row_by_row(regressors: Array, slack: Array, places: np.ndarray, reach: np.ndarray) -> Array:
    """One regression for each row of the target; `reach` (target, unknown) says which unknowns a row has."""
    e = jnp.asarray(places, slack.dtype)
    square = jnp.einsum("kap,kab,kbq->pq", e, regressors, e)
    right = jnp.einsum("kda,kap->dp", slack, e)
    kinds, which = np.unique(reach, axis=0, return_inverse=True)
    both = jnp.asarray(kinds[:, :, None] & kinds[:, None, :])
    inverses = jax.vmap(semidefinite_inverse)(jnp.where(both, square, 0.0))
    found = jnp.where(jnp.asarray(reach), jnp.einsum("dp,dpq->dq", right, inverses[which.reshape(-1)]), 0.0)
    return jnp.einsum("dp,kap->kda", found, e)


def _all_at_once(regressors: Array, slack: Array, allowed: np.ndarray, places: np.ndarray, root: Array) -> Array:
    """Generalised least squares over all unknowns: every row meets every other through the noise's precision."""
    target = slack.shape[1]
    unknowns = places.shape[-1]
    eye = jnp.eye(target, dtype=root.dtype)
    precision = jax.vmap(lambda root: jax.scipy.linalg.cho_solve((root, True), eye))(root)
    mask = jnp.asarray(allowed, slack.dtype)
    e = jnp.asarray(places, slack.dtype)
    square = jnp.einsum(
        "kij,kab,kia,kjb,kap,kbq->ipjq", precision, regressors, mask, mask, e, e, optimize="optimal"
    ).reshape(target * unknowns, target * unknowns)
    right = jnp.einsum("kij,kja,kia,kap->ip", precision, slack, mask, e).reshape(-1)
    found = (semidefinite_inverse(square) @ right).reshape(target, unknowns)
    return jnp.einsum("ip,kap->kia", found, e) * mask
