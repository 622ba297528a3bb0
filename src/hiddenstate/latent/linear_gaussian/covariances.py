"""Covariances as numbers that may take any value, so that a gradient step never leaves the positive ones."""

from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, HiddenStateError, Prior, register
from hiddenstate.latent.linear_gaussian.parts import Free, plain
from hiddenstate.ops.gaussian import outer, symmetric


@register("full-covariance")
class Full(eqx.Module):
    r"""A covariance :math:`W L L^\top W^\top` with a triangular L of positive diagonal.

    W is None for a covariance that has an inverse. Otherwise its columns, which are orthonormal and not learned, span
    the directions that have noise: all others have none, exactly and for good. With a leading axis in
    `log_diagonal` and `lower` it holds one covariance per step.
    """

    log_diagonal: Free
    lower: Free
    """The entries below the diagonal, row by row."""
    basis: Frozen | None

    @property
    def rank(self) -> int:
        """How many directions have noise."""
        return plain(self.log_diagonal).shape[-1]

    @property
    def size(self) -> int:
        """How many numbers it is the covariance of."""
        return self.rank if self.basis is None else self.basis.value.shape[0]

    @property
    def diagonal(self) -> bool:
        """Whether it is diagonal whatever is learned."""
        return self.size == 1

    @property
    def varies(self) -> bool:
        """Whether it holds one covariance per step."""
        return plain(self.log_diagonal).ndim == 2

    @property
    def root(self) -> Float[Array, "*time size rank"]:
        """A square root."""
        log_diagonal, lower = plain(self.log_diagonal), plain(self.lower)
        rows, columns = np.tril_indices(self.rank, -1)
        triangle = jnp.exp(log_diagonal)[..., None] * jnp.eye(self.rank, dtype=log_diagonal.dtype)
        triangle = triangle.at[..., rows, columns].set(lower)
        return triangle if self.basis is None else self.basis.value @ triangle

    def residual_log_prob(self, residual: Float[Array, " size"], root: Float[Array, "size rank"]) -> Float[Array, ""]:
        """The log-density of a residual among the directions that have noise; `root` is the one of that step."""
        if self.basis is not None:
            residual, root = self.basis.value.T @ residual, self.basis.value.T @ root
        return _log_density(residual, root)

    def within(self, residual: Float[Array, "size ..."]) -> Float[Array, "size ..."]:
        """The part of a vector or of a matrix's columns that lies in directions with noise."""
        return residual if self.basis is None else self.basis.value @ (self.basis.value.T @ residual)

    def maximise(self, scatter: Float[Array, "size size"], count: Float[Array, ""], prior: Prior) -> "Full":
        """The covariance of greatest likelihood, given a sum of squared residuals."""
        old = plain(self.log_diagonal)
        scatter = scatter if self.basis is None else self.basis.value.T @ scatter @ self.basis.value
        values, vectors = jnp.linalg.eigh(symmetric(scatter / jnp.maximum(count, 1)))
        least = jnp.maximum(prior.variance_floor, _least(old, values.max(initial=0.0)))
        values = jnp.maximum(values, least.astype(old.dtype))
        triangle = jnp.linalg.cholesky(symmetric((vectors * values) @ vectors.T))
        log_diagonal, lower = _packed(triangle)
        some = count > 0
        return Full(
            jnp.where(some, log_diagonal, old),
            jnp.where(some, lower, plain(self.lower)),
            self.basis,
        )

    def perturbed(self, noise: Any, spread: float) -> "Full":
        """Other variances of the same order; `noise` draws standard normal numbers of a shape."""
        free = not isinstance(self.log_diagonal, Frozen)
        moved = plain(self.log_diagonal) + spread * noise(plain(self.log_diagonal).shape)
        return Full(moved, plain(self.lower), self.basis) if free else self


@register("diagonal-covariance")
class Diagonal(eqx.Module):
    """A diagonal covariance. `groups` says which variance each entry has; -1 stands for none at all."""

    log_variances: tuple[Free, ...]
    groups: tuple[int, ...] = eqx.field(static=True)
    like: Frozen
    """An array of no numbers, which knows the precision."""

    @property
    def rank(self) -> int:
        """How many entries have noise."""
        return sum(group >= 0 for group in self.groups)

    @property
    def size(self) -> int:
        """How many numbers it is the covariance of."""
        return len(self.groups)

    @property
    def diagonal(self) -> bool:
        """It is."""
        return True

    @property
    def varies(self) -> bool:
        """It is the same at every step."""
        return False

    @property
    def _noisy(self) -> np.ndarray:
        return np.flatnonzero(np.asarray(self.groups) >= 0)

    @property
    def root(self) -> Float[Array, "size rank"]:
        """A square root: the columns of a diagonal matrix that are not zero."""
        noisy, dtype = self._noisy, self.like.value.dtype
        if not noisy.size:
            return jnp.zeros((self.size, 0), dtype)
        deviations = jnp.exp(0.5 * jnp.stack([plain(v) for v in self.log_variances]))
        chosen = deviations[np.asarray(self.groups)[noisy]]
        return jnp.zeros((self.size, noisy.size), dtype).at[noisy, np.arange(noisy.size)].set(chosen)

    def residual_log_prob(self, residual: Float[Array, " size"], root: Float[Array, "size rank"]) -> Float[Array, ""]:
        """The log-density of a residual among the entries that have noise."""
        return _log_density(residual[self._noisy], root[self._noisy])

    def within(self, residual: Float[Array, "size ..."]) -> Float[Array, "size ..."]:
        """The vector or matrix with zeros in the rows that have no noise."""
        inside = (np.asarray(self.groups) >= 0).reshape(-1, *[1] * (residual.ndim - 1))
        return jnp.where(inside, residual, 0.0)

    def maximise(self, scatter: Float[Array, "size size"], count: Float[Array, ""], prior: Prior) -> "Diagonal":
        """The variances of greatest likelihood, given a sum of squared residuals."""
        squares = jnp.diagonal(scatter)
        least = _least(self.like.value, squares.max(initial=0.0) / jnp.maximum(count, 1))
        new = []
        for group, old in enumerate(self.log_variances):
            mine = np.flatnonzero(np.asarray(self.groups) == group)
            variance = squares[mine].sum() / (jnp.maximum(count, 1) * max(1, mine.size))
            variance = jnp.maximum(variance, jnp.maximum(prior.variance_floor, least).astype(squares.dtype))
            new.append(old if isinstance(old, Frozen) else jnp.where(count > 0, jnp.log(variance), old))
        return Diagonal(tuple(new), self.groups, self.like)

    def perturbed(self, noise: Any, spread: float) -> "Diagonal":
        """Other variances of the same order; `noise` draws standard normal numbers of a shape."""
        moved = tuple(v if isinstance(v, Frozen) else v + spread * noise(()) for v in self.log_variances)
        return Diagonal(moved, self.groups, self.like)


@register("given-covariance")
class Given(eqx.Module):
    """Covariances held as they were given: one per step, of which some are singular. They are not learned."""

    factor: Frozen

    rank = property(lambda self: self.factor.value.shape[-1])
    size = property(lambda self: self.factor.value.shape[-2])
    diagonal = property(lambda self: self.size == 1)
    varies = property(lambda self: True)
    root = property(lambda self: self.factor.value)

    def residual_log_prob(self, residual: Float[Array, " size"], root: Float[Array, "size rank"]) -> Float[Array, ""]:
        """The log-density of a residual among the directions that have noise at that step."""
        values, vectors = jnp.linalg.eigh(outer(root))
        inside = values > 4 * self.size * jnp.finfo(values.dtype).eps * values.max()
        variances = jnp.where(inside, values, 1.0)
        terms = jnp.log(2 * jnp.pi * variances) + (vectors.T @ residual) ** 2 / variances
        return -0.5 * jnp.where(inside, terms, 0.0).sum()

    def within(self, residual: Float[Array, "size ..."]) -> Float[Array, "size ..."]:
        """Nothing is learned here, so nothing lies within."""
        return jnp.zeros_like(residual)

    def maximise(self, scatter: Any, count: Any, prior: Prior) -> "Given":
        """As it is."""
        del scatter, count, prior
        return self

    def perturbed(self, noise: Any, spread: float) -> "Given":
        """As it is."""
        del noise, spread
        return self


Covariance: TypeAlias = Full | Diagonal | Given


def covariance(argument: str, given: Any, size: int, dtype: Any, *, scalar: bool = False) -> Covariance:
    """A covariance out of what a caller gave: a matrix, a vector of variances, a number, or one matrix per step.

    With ``scalar=True`` what has it is a single number: a number, or one number per step.
    """
    array = _numbers(argument, given)
    takes = f"({size}, {size}), ({size},) for a diagonal one, or (time, {size}, {size}) for one per step"
    if scalar:
        takes = "a number, or (time,) for one per step"
        array = array.reshape(*array.shape[:1], 1, 1) if array.ndim == 1 and array.size > 1 else array.reshape(-1)
        if array.ndim == 1 and array.size != 1:
            raise HiddenStateError(f"{argument} has shape {np.shape(given)}; it must be {takes}.")
        array = array.reshape(1, 1) if array.ndim == 1 else array
    if array.ndim == 0 and size == 1:
        array = array.reshape(1, 1)
    if array.ndim == 1 and array.shape == (size,):
        if (array < 0).any():
            where = int(np.argmin(array))
            raise HiddenStateError(f"{argument} holds the variance {array[where]:g} at {where}; none may be negative.")
        return diagonal(array, dtype)
    if array.ndim not in (2, 3) or array.shape[-2:] != (size, size) or array.shape[0] == 0:
        raise HiddenStateError(f"{argument} has shape {np.shape(given)}; it must be {takes}.")
    check_covariance(argument, array)
    return _factored(symmetric_part(array), dtype)


def diagonal(variances: Any, dtype: Any, groups: tuple[int, ...] | None = None) -> Diagonal:
    """A diagonal covariance with these variances, one per entry or one per group; zeros stay zero."""
    variances = np.asarray(variances, float)
    index = np.arange(variances.size) if groups is None else np.asarray(groups, int)
    kept = np.flatnonzero(variances > 0)
    place = {int(old): new for new, old in enumerate(kept)}
    chosen = tuple(place.get(int(group), -1) for group in index)
    logs = tuple(jnp.asarray(np.log(variances[i]), dtype) for i in kept)
    return Diagonal(logs, chosen, Frozen(jnp.zeros(0, dtype)))


def check_covariance(argument: str, array: np.ndarray) -> None:
    """Raise unless every matrix is symmetric and has no negative eigenvalue, up to rounding."""
    size = np.abs(array).max(initial=0.0)
    uneven = np.abs(array - np.swapaxes(array, -1, -2)).max(initial=0.0)
    if uneven > 1e-5 * size:
        raise HiddenStateError(
            f"{argument} is not symmetric: two entries that should be equal differ by {uneven:g}. A covariance is due."
        )
    lowest = np.linalg.eigvalsh(symmetric_part(array)).min(initial=0.0)
    if lowest < -1e-5 * size:
        raise HiddenStateError(
            f"{argument} has the negative eigenvalue {lowest:g}; a covariance is due, which has none."
        )


def symmetric_part(array: np.ndarray) -> np.ndarray:
    """As `hiddenstate.ops.gaussian.symmetric`, in NumPy."""
    return 0.5 * (array + np.swapaxes(array, -1, -2))


def _numbers(argument: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given, float)
    except (TypeError, ValueError):
        raise HiddenStateError(f"{argument} is {given!r}; it must be an array of numbers.") from None
    if not np.isfinite(array).all():
        raise HiddenStateError(f"{argument} holds numbers that are not finite.")
    return array


def _factored(array: np.ndarray, dtype: Any) -> Full | Given:
    size = array.shape[-1]
    noisy = (np.diagonal(array, axis1=-2, axis2=-1).reshape(-1, size) > 0).any(0)
    inner = array[..., noisy, :][..., :, noisy]
    triangle = _cholesky(inner)
    if triangle is not None:
        basis = None if noisy.all() else Frozen(jnp.asarray(np.eye(size)[:, noisy], dtype))
        return _full(triangle, basis, dtype)
    values, vectors = np.linalg.eigh(array)
    values = np.where(values > size * 1e-12 * values.max(-1, keepdims=True), values, 0.0)
    if array.ndim == 3:
        return Given(Frozen(jnp.asarray(vectors * np.sqrt(values)[..., None, :], dtype)))
    basis = vectors[:, values > 0]
    triangle = np.linalg.cholesky(basis.T @ array @ basis)
    return _full(triangle, Frozen(jnp.asarray(basis, dtype)), dtype)


def _cholesky(array: np.ndarray) -> np.ndarray | None:
    try:
        triangle = np.linalg.cholesky(array)
    except np.linalg.LinAlgError:
        return None
    squares = np.diagonal(triangle, axis1=-2, axis2=-1) ** 2
    variances = np.diagonal(array, axis1=-2, axis2=-1)
    return triangle if (squares > 1e-12 * variances).all() else None


def _full(triangle: np.ndarray, basis: Frozen | None, dtype: Any) -> Full:
    rows, columns = np.tril_indices(triangle.shape[-1], -1)
    logs = np.log(np.diagonal(triangle, axis1=-2, axis2=-1))
    return Full(jnp.asarray(logs, dtype), jnp.asarray(triangle[..., rows, columns], dtype), basis)


def _packed(triangle: Array) -> tuple[Array, Array]:
    rows, columns = np.tril_indices(triangle.shape[-1], -1)
    return jnp.log(jnp.diagonal(triangle)), triangle[rows, columns]


def _least(like: Array, largest: Array) -> Array:
    """The smallest variance that a factor can hold beside the largest: its logarithm must be finite."""
    limits = jnp.finfo(like.dtype)
    return jnp.maximum(limits.eps * largest, limits.tiny * 1e6)


def _log_density(residual: Array, root: Array) -> Array:
    white = jnp.linalg.solve(root, residual)
    return -0.5 * (white @ white) - jnp.linalg.slogdet(root)[1] - 0.5 * np.log(2 * np.pi) * residual.shape[0]
