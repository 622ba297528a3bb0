"""A vector with independent noise around it, of which some or all entries may have none."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints

from hiddenstate._types import Array, Float
from hiddenstate.distributions.student_t import StudentTDistribution

NOISES: dict[str, Callable[[Any], dist.Distribution]] = {
    "normal": lambda degrees: dist.Normal(),
    "laplace": lambda degrees: dist.Laplace(),
    "logistic": lambda degrees: dist.Logistic(),
    "student-t": lambda degrees: StudentTDistribution(degrees, 0.0, 1.0),
}
"""Standard noise around zero, by the name of its family; only Student's t has degrees of freedom."""


class PerturbedDistribution(dist.Distribution):
    r"""The vector :math:`\mathrm{loc} + \mathrm{scale} \cdot \epsilon`, with independent standard noise.

    Where the scale is zero an entry is its location for certain: its density is 1 there (within rounding) and 0
    elsewhere.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "scale": constraints.independent(constraints.nonnegative, 1),
    }
    support: Any = constraints.real_vector
    reparametrized_params: ClassVar[Any] = ["loc", "scale"]
    pytree_data_fields = ("loc", "scale")
    pytree_aux_fields = ("family", "degrees")

    def __init__(self, loc: Any, scale: Any, family: str = "normal", degrees: float = 4.0):
        self.loc, self.scale = jnp.broadcast_arrays(loc, scale)
        self.family, self.degrees = family, degrees
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args=False)

    @property
    def noise(self) -> dist.Distribution:
        """The standard noise of one entry."""
        return NOISES[self.family](jnp.asarray(self.degrees, self.loc.dtype))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draws of shape (*sample_shape, *batch_shape, size), smooth in location and scale."""
        drawn: Any = self.noise.sample(key, (*sample_shape, *self.loc.shape))
        return self.loc + self.scale * drawn.astype(self.loc.dtype)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-density of the entries that have noise; minus infinity where another one is not its location."""
        certain = self.scale == 0
        scale = jnp.where(certain, 1.0, self.scale)
        apart = jnp.where(certain, 0.0, value - self.loc) / scale
        each: Any = self.noise.log_prob(apart)
        rounding = 8 * jnp.finfo(self.loc.dtype).eps * (1 + jnp.abs(self.loc))
        exact = jnp.where(jnp.abs(value - self.loc) <= rounding, 0.0, -jnp.inf)
        return jnp.where(certain, exact, each.astype(self.loc.dtype) - jnp.log(scale)).sum(-1)

    @property
    def mean(self) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The location."""
        return self.loc

    @property
    def variance(self) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        """That of the noise, scaled."""
        return jnp.square(self.scale) * self.noise.variance
