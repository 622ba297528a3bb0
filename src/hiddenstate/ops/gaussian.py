r"""Gaussian beliefs: conditioned, propagated, joined and inverted, as covariances and as square roots.

A square root of a covariance :math:`P` is any matrix :math:`S` with :math:`S S^\top = P`. Covariances may be singular
everywhere; only the covariance of what is observed must have an inverse.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from hiddenstate._types import Array, Float, Shaped

LOG_TWO_PI = 1.8378770664093453


class Conditioned(NamedTuple):
    """A Gaussian belief after an observation, and the log-probability that this had."""

    log_prob: Float[Array, ""]
    mean: Float[Array, " state"]
    covariance: Float[Array, "state state"]
    diffuse: Float[Array, "state state"] | None = None


class Conditional(NamedTuple):
    r"""One or more steps as a function of the state before them, before that state is known.

    The state after is :math:`N(F z + b, C)`, and the probability of what was observed on the way is proportional to
    :math:`\exp(\eta^\top z - z^\top J z / 2)` (Särkkä and García-Fernández 2021, section III).
    """

    matrix: Float[Array, "state state"]
    offset: Float[Array, " state"]
    covariance: Float[Array, "state state"]
    vector: Float[Array, " state"]
    precision: Float[Array, "state state"]


def symmetric(matrix: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """The symmetric part."""
    return 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))


def outer(root: Float[Array, "*batch n k"]) -> Float[Array, "*batch n n"]:
    """The covariance of which `root` is a square root."""
    return root @ jnp.swapaxes(root, -1, -2)


def triangular(root: Float[Array, "*batch n k"]) -> Float[Array, "*batch n n"]:
    """A lower triangular square root of the same covariance, by QR: nothing is squared, so no digits are lost."""
    n, k = root.shape[-2:]
    if k < n:
        root = jnp.concatenate([root, jnp.zeros((*root.shape[:-1], n - k), root.dtype)], -1)
    if n * root.shape[-1] <= _SMALL:
        return _reflected(root)
    return jnp.swapaxes(jnp.linalg.qr(jnp.swapaxes(root, -1, -2), mode="r"), -1, -2)


_SMALL = 16
"""Up to so many entries a QR is written out, number by number: inside a loop XLA then needs no call to LAPACK, which
takes twenty times as long as the arithmetic."""


def _reflected(root):
    """Householder's QR, written out."""
    n, k = root.shape[-2:]
    rows = [[root[..., i, j] for j in range(k)] for i in range(n)]
    zero = jnp.zeros_like(root[..., 0, 0])
    for i, row in enumerate(rows):
        square = sum((row[j] * row[j] for j in range(i + 1, k)), row[i] * row[i])
        size = jnp.sqrt(square)
        corner = jnp.where(row[i] > 0, -size, size)
        mirror = [row[i] - corner, *row[i + 1 :]]
        half = square - corner * row[i]
        scale = jnp.where(half > 0, 1 / jnp.where(half > 0, half, 1.0), 0.0)
        rows[i] = [*row[:i], corner, *[zero] * (k - i - 1)]
        for other in rows[i + 1 :]:
            along = scale * sum((a * b for a, b in zip(other[i + 1 :], mirror[1:], strict=True)), other[i] * mirror[0])
            other[i:] = [a - along * b for a, b in zip(other[i:], mirror, strict=True)]
    return jnp.stack([jnp.stack(row[:n], -1) for row in rows], -2)


def semidefinite_root(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower triangular square root of a matrix that may be singular; not to be differentiated.

    A pivot that is no more than the rounding of its diagonal entry counts as zero, and so does its column.
    """
    n = matrix.shape[0]
    smallest = n * jnp.finfo(matrix.dtype).eps * jnp.diagonal(matrix)
    rows = jnp.arange(n)

    def eliminate(k, carry):
        rest, root = carry
        pivot = rest[k, k]
        inside = pivot > smallest[k]
        scale = jnp.where(inside, 1 / jnp.sqrt(jnp.where(inside, pivot, 1.0)), 0.0)
        column = jnp.where(rows >= k, rest[:, k] * scale, 0.0)
        return rest - jnp.outer(column, column), root.at[:, k].set(column)

    return jax.lax.fori_loop(0, n, eliminate, (matrix, jnp.zeros_like(matrix)))[1]


def semidefinite_inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A generalised inverse of a covariance that may be singular, in the units of its own diagonal."""
    diagonal = jnp.diagonal(matrix)
    scale = jnp.where(diagonal > 0, 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    values, vectors = jnp.linalg.eigh(symmetric(matrix * scale[:, None] * scale))
    inside = values > 4 * matrix.shape[0] * jnp.finfo(matrix.dtype).eps
    inverse = jnp.where(inside, 1 / jnp.where(inside, values, 1.0), 0.0)
    return (vectors * inverse) @ vectors.T * scale[:, None] * scale


def condition(
    mean: Float[Array, " state"],
    covariance: Float[Array, "state state"],
    emission: Float[Array, "event state"],
    noise: Float[Array, "event event"],
    x: Float[Array, " event"],
    observed: Shaped[Array, " event"] | None = None,
) -> Conditioned:
    r"""The belief over z given x = C z + N(0, R), in Joseph's form, which stays symmetric and positive.

    Entries that are not observed get a row of zeros in C and a noise of one of their own: they say nothing and count
    nothing.
    """
    apart, count = x - emission @ mean, x.shape[0]
    if observed is not None:
        emission = jnp.where(observed[:, None], emission, 0.0)
        noise = jnp.where(observed[:, None] & observed, noise, jnp.eye(count, dtype=noise.dtype))
        apart, count = jnp.where(observed, apart, 0.0), observed.sum()
    crossed = covariance @ emission.T
    total = symmetric(emission @ crossed + noise)
    if x.shape[0] == 1:  # no calls to LAPACK, which would take most of the time of a small model
        log_prob = -0.5 * (apart[0] ** 2 / total[0, 0] + jnp.log(total[0, 0]) + LOG_TWO_PI * count)
        gain = crossed / total[0, 0]
    else:
        root = jnp.linalg.cholesky(total)
        white = solve_triangular(root, apart, lower=True)
        log_prob = -0.5 * (white @ white) - jnp.log(jnp.diagonal(root)).sum() - 0.5 * LOG_TWO_PI * count
        gain = cho_solve((root, True), crossed.T).T
    kept = jnp.eye(mean.shape[0], dtype=mean.dtype) - gain @ emission
    updated = kept @ covariance @ kept.T + gain @ noise @ gain.T
    return Conditioned(log_prob, mean + gain @ apart, symmetric(updated))


def condition_on_moments(
    mean: Float[Array, " state"],
    covariance: Float[Array, "state state"],
    expected: Float[Array, " event"],
    spread: Float[Array, "event event"],
    crossed: Float[Array, "state event"],
    noise: Float[Array, "event event"],
    x: Float[Array, " event"],
    observed: Shaped[Array, " event"] | None = None,
) -> Conditioned:
    """The belief over z given x, from the mean and covariance of x without its noise and its covariance with z."""
    apart, count, total = x - expected, x.shape[0], symmetric(spread + noise)
    if observed is not None:
        total = jnp.where(observed[:, None] & observed, total, jnp.eye(count, dtype=total.dtype))
        crossed = jnp.where(observed, crossed, 0.0)
        apart, count = jnp.where(observed, apart, 0.0), observed.sum()
    root = jnp.linalg.cholesky(total)
    white = solve_triangular(root, apart, lower=True)
    log_prob = -0.5 * (white @ white) - jnp.log(jnp.diagonal(root)).sum() - 0.5 * LOG_TWO_PI * count
    half = solve_triangular(root, crossed.T, lower=True)
    return Conditioned(log_prob, mean + half.T @ white, symmetric(covariance - half.T @ half))


def condition_diffuse(
    mean: Float[Array, " state"],
    covariance: Float[Array, "state state"],
    diffuse: Float[Array, "state state"],
    emission: Float[Array, "event state"],
    noise: Float[Array, "event event"],
    x: Float[Array, " event"],
    observed: Shaped[Array, " event"] | None = None,
    *,
    diagonal: bool = False,
) -> Conditioned:
    r"""As `condition`, where the covariance is :math:`P + \kappa S S^\top` with :math:`\kappa \to \infty`.

    Entry by entry (Koopman 1997; Durbin and Koopman 2012, sections 5.2 and 6.4), so that any pattern of infinite and
    finite variances works. An entry that meets an infinite variance uses up one column of S, which is zero from
    then on, and counts :math:`-\tfrac12(\log 2\pi + \log F_\infty)`: the limit of its log-probability plus
    :math:`\tfrac12\log\kappa`. With ``diagonal=True`` the noise is known to be diagonal, and may hold zeros.
    """
    seen = jnp.ones(x.shape, bool) if observed is None else observed
    noise = jnp.where(seen[:, None] & seen, noise, jnp.eye(x.shape[0], dtype=noise.dtype))
    emission, x = jnp.where(seen[:, None], emission, 0.0), jnp.where(seen, x, 0.0)
    if not diagonal and x.shape[0] > 1:
        root = jnp.linalg.cholesky(noise)
        spread = jnp.diagonal(root)
        unit = root / spread
        both = solve_triangular(unit, jnp.concatenate([x[:, None], emission], 1), lower=True, unit_diagonal=True)
        x, emission, variances = both[:, 0], both[:, 1:], spread**2
    else:
        variances = jnp.diagonal(noise)

    def one(carry, entry):
        x, row, variance, seen = entry
        log_prob, carry = _condition_entry(carry, row, variance, x)
        return carry, jnp.where(seen, log_prob, 0.0)

    (mean, covariance, diffuse), log_probs = jax.lax.scan(
        one, (mean, covariance, diffuse), (x, emission, variances, seen)
    )
    return Conditioned(log_probs.sum(), mean, covariance, diffuse)


class Direction(NamedTuple):
    """How one number, seen through `row`, meets the diffuse directions: whether it does, the gain with which it then
    determines one of them, the root of the variance per kappa, and the columns that are left."""

    infinite: Shaped[Array, ""]
    gain: Float[Array, " state"]
    size: Float[Array, ""]
    rest: Float[Array, "state state"]


def diffuse_direction(diffuse: Float[Array, "state state"], row: Float[Array, " state"]) -> Direction:
    """What is left of the diffuse directions once the number seen through `row` is known."""
    weights = row @ diffuse
    reach = (jnp.abs(row)[:, None] * jnp.abs(diffuse)).sum()
    infinite = (weights @ weights) > jnp.finfo(row.dtype).eps * reach**2
    safe = jnp.where(infinite, weights, jnp.zeros_like(weights).at[0].set(1.0))
    size = jnp.sqrt(safe @ safe)
    rest = jnp.where(infinite, _without(diffuse, safe, size), diffuse)
    return Direction(infinite, diffuse @ safe / size**2, size, rest)


def _condition_entry(belief, row, variance, x):
    """One number observed: through a diffuse direction where there is one, otherwise as ever."""
    mean, covariance, diffuse = belief
    direction = diffuse_direction(diffuse, row)
    crossed = covariance @ row
    total = jnp.where(direction.infinite, 1.0, row @ crossed + variance)
    gain = jnp.where(direction.infinite, direction.gain, crossed / total)
    apart = x - row @ mean
    proper = -0.5 * (jnp.log(total) + apart**2 / total)
    log_prob = jnp.where(direction.infinite, -jnp.log(direction.size), proper) - 0.5 * LOG_TWO_PI
    kept = jnp.eye(mean.shape[0], dtype=mean.dtype) - jnp.outer(gain, row)
    updated = symmetric(kept @ covariance @ kept.T + variance * jnp.outer(gain, gain))
    return log_prob, (mean + gain * apart, updated, direction.rest)


def _without(diffuse, weights, size):
    """The columns turned so that one of them has all the weight, and that one dropped."""
    largest = jnp.argmax(jnp.abs(weights))
    chosen = jnp.arange(weights.shape[0]) == largest
    mirror = weights + jnp.where(chosen, jnp.where(weights[largest] < 0, -size, size), 0.0)
    turned = diffuse - 2 * jnp.outer(diffuse @ mirror, mirror) / (mirror @ mirror)
    return jnp.where(chosen, 0.0, turned)


def conditional(
    transition: Float[Array, "state state"],
    offset: Float[Array, " state"],
    transition_noise: Float[Array, "state state"],
    emission: Float[Array, "event state"],
    noise: Float[Array, "event event"],
    x: Float[Array, " event"],
    observed: Shaped[Array, " event"] | None = None,
) -> Conditional:
    """One step in the form that can be joined: the move, and what x says of the state before it."""
    if observed is not None:
        emission = jnp.where(observed[:, None], emission, 0.0)
        noise = jnp.where(observed[:, None] & observed, noise, jnp.eye(x.shape[0], dtype=noise.dtype))
    if x.shape[0] == 1:
        deviation = jnp.sqrt(noise[0, 0])
        rows, x = emission / deviation, x / deviation
    else:
        root = jnp.linalg.cholesky(noise)
        white = solve_triangular(root, jnp.concatenate([emission, x[:, None]], 1), lower=True)
        rows, x = white[:, :-1], white[:, -1]
    return Conditional(transition, offset, transition_noise, rows.T @ x, rows.T @ rows)


def apply_conditional(
    mean: Float[Array, " state"], covariance: Float[Array, "state state"], step: Conditional
) -> tuple[Float[Array, " state"], Float[Array, "state state"]]:
    """The belief after the steps, from the belief before them."""
    eye = jnp.eye(mean.shape[0], dtype=mean.dtype)
    right = jnp.concatenate([covariance, (mean + covariance @ step.vector)[:, None]], 1)
    solved = jnp.linalg.solve(eye + covariance @ step.precision, right)
    updated = symmetric(solved[:, :-1])
    moved = step.matrix @ updated @ step.matrix.T + step.covariance
    return step.matrix @ solved[:, -1] + step.offset, symmetric(moved)


def join(earlier: Conditional, later: Conditional) -> Conditional:
    """Both steps as one (Särkkä and García-Fernández 2021, lemma 8)."""
    eye = jnp.eye(earlier.offset.shape[0], dtype=earlier.offset.dtype)
    between = jnp.linalg.solve(eye + earlier.covariance @ later.precision, eye)
    forward, back = later.matrix @ between, earlier.matrix.T @ between.T
    return Conditional(
        forward @ earlier.matrix,
        forward @ (earlier.offset + earlier.covariance @ later.vector) + later.offset,
        symmetric(forward @ earlier.covariance @ later.matrix.T + later.covariance),
        back @ (later.vector - later.precision @ earlier.offset) + earlier.vector,
        symmetric(back @ later.precision @ earlier.matrix + earlier.precision),
    )
