"""Normal distributions whose covariance may be singular."""

from typing import Any, ClassVar

import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Distribution, constraints

from hiddenstate._types import Array
from hiddenstate.distributions import MultivariateNormalDistribution
from hiddenstate.ops.gaussian import outer, triangular


def normal_with_root(mean: Array, root: Array) -> Distribution:
    """N(mean, root root'): numpyro's where the covariance has an inverse, otherwise a `SingularNormal`."""
    size, rank = root.shape
    if rank < size:
        return SingularNormal(mean, root, validate_args=False)
    return MultivariateNormalDistribution(mean, scale_tril=_positive(root), validate_args=False)


def drawn_root(root: Array) -> Array:
    """The root by which `normal_with_root` draws from standard normal numbers, as many as it has columns."""
    return root if root.shape[1] < root.shape[0] else _positive(root)


def _positive(root: Array) -> Array:
    """The triangular root with a positive diagonal."""
    lower = jnp.tril(root)
    return jnp.where(jnp.all(lower == root), lower, _turned(triangular(root)))


def _turned(root: Array) -> Array:
    return root * jnp.where(jnp.diagonal(root) < 0, -1.0, 1.0).astype(root.dtype)


class SingularNormal(Distribution):
    """A normal distribution on the directions that have noise; elsewhere it is exactly its mean.

    Its density is that of the directions with noise, and zero off them.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real_vector, "root": constraints.real_matrix}
    support: Any = constraints.real_vector  # pyright: ignore[reportIncompatibleMethodOverride]
    reparametrized_params = ["loc", "root"]  # noqa: RUF012
    pytree_data_fields = ("loc", "root")

    def __init__(self, loc: Any, root: Any, *, validate_args: bool | None = None):
        self.loc, self.root = loc, root
        super().__init__(jnp.shape(loc)[:-1], jnp.shape(loc)[-1:], validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*sample_shape, *batch_shape, size)."""
        noise = jr.normal(key, (*sample_shape, *self.batch_shape, self.root.shape[-1]), self.loc.dtype)
        return self.loc + jnp.einsum("...ij,...j->...i", self.root, noise)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-density among the directions with noise, -inf off them."""
        del intermediates
        values, vectors = jnp.linalg.eigh(outer(self.root))
        limits = jnp.finfo(self.loc.dtype)
        inside = values > 4 * values.shape[-1] * limits.eps * values.max(-1, keepdims=True)
        variances = jnp.where(inside, values, 1.0)
        apart = jnp.einsum("...ji,...j->...i", vectors, value - self.loc)
        terms = jnp.log(2 * jnp.pi * variances) + apart**2 / variances
        size = 1 + jnp.abs(self.loc).max(-1, keepdims=True)
        off = (~inside & (jnp.abs(apart) > jnp.sqrt(limits.eps) * size)).any(-1)
        return jnp.where(off, -jnp.inf, -0.5 * jnp.where(inside, terms, 0.0).sum(-1))

    @property
    def mean(self) -> Array:
        """The mean."""
        return jnp.broadcast_to(self.loc, self.shape())

    @property
    def covariance_matrix(self) -> Array:
        """The singular covariance."""
        return outer(self.root)

    @property
    def variance(self) -> Array:
        """The variance of each entry."""
        return jnp.square(self.root).sum(-1)
