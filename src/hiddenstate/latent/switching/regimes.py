"""The parts of a switching linear Gaussian model: as they are kept, and as one step needs them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, HiddenStateError, register
from hiddenstate.latent import checks
from hiddenstate.latent.linear_gaussian.covariances import Full, covariance
from hiddenstate.latent.linear_gaussian.parts import frozen, is_free, plain
from hiddenstate.ops.gaussian import outer

RANKS = {
    "initial_mean": 1,
    "initial_covariance": 2,
    "dynamics": 2,
    "dynamics_offset": 1,
    "dynamics_noise": 2,
    "observation": 2,
    "observation_offset": 1,
    "observation_noise": 2,
}
"""The axes of each part for one regime; one more in front is that of the regimes."""

COVARIANCES = ("initial_covariance", "dynamics_noise", "observation_noise")


@register("switching-linear-gaussian-parameters")
class Parameters(eqx.Module):
    """The parts as they are kept: covariances as factors, what is held fixed as `Frozen`.

    A part with an axis for the regimes has one value for each; a part without is shared by all of them.
    """

    initial_mean: Any
    initial_covariance: Full
    dynamics: Any
    dynamics_offset: Any
    dynamics_noise: Full
    observation: Any
    observation_offset: Any
    observation_noise: Full

    def is_shared(self, name: str) -> bool:
        """Whether all regimes have the part of this name in common; a part that is None is."""
        part = getattr(self, name)
        if part is None:
            return True
        return not part.varies if name in COVARIANCES else plain(part).ndim == RANKS[name]

    def is_learned(self, name: str) -> bool:
        """Whether learning may change the part of this name."""
        return is_free(getattr(self, name))

    def with_part(self, name: str, value: Any) -> "Parameters":
        """The same with another value of one part, a covariance given as such; it is not checked.

        It must have an axis for the regimes just where the part has one now. A part that is held fixed, or None,
        stays.
        """
        if not self.is_learned(name):
            return self
        new = factored(value) if name in COVARIANCES else value
        return eqx.tree_at(lambda parts: getattr(parts, name), self, new)


class Regimes(NamedTuple):
    """The parts of all regimes as plain arrays, shared ones repeated: what the equations need.

    The roots are lower triangular square roots of covariances. Offsets that are not there are zero.
    """

    initial_mean: Float[Array, "regime state"]
    initial_root: Float[Array, "regime state state"]
    dynamics: Float[Array, "regime state state"]
    dynamics_offset: Float[Array, "regime state"]
    dynamics_root: Float[Array, "regime state state"]
    observation: Float[Array, "regime event state"]
    observation_offset: Float[Array, "regime event"]
    observation_root: Float[Array, "regime event event"]

    @property
    def initial_covariance(self) -> Float[Array, "regime state state"]:
        """The covariance of the first state."""
        return outer(self.initial_root)

    @property
    def dynamics_noise(self) -> Float[Array, "regime state state"]:
        """The covariance of what drives the state."""
        return outer(self.dynamics_root)

    @property
    def observation_noise(self) -> Float[Array, "regime event event"]:
        """The covariance of the noise of observations."""
        return outer(self.observation_root)


def regimes_of(parts: Parameters, count: int, chains: tuple[int, ...] | None) -> Regimes:
    """All regimes' arrays. With `chains` the blocks between different chains are zero, whatever is learned."""
    inside, seen = 1.0, 1.0
    if chains is not None:
        inside, seen = masks(chains)

    def each(name, mask: Any = 1.0):
        part = getattr(parts, name)
        found = part.root if name in COVARIANCES else plain(part)
        if parts.is_shared(name):
            found = jnp.broadcast_to(found, (count, *found.shape))
        return found * jnp.asarray(mask, found.dtype)

    def offset(name, size):
        if getattr(parts, name) is None:
            return jnp.zeros((count, size), plain(parts.initial_mean).dtype)
        return each(name)

    dynamics, observation = each("dynamics", inside), each("observation", seen)
    return Regimes(
        each("initial_mean"),
        each("initial_covariance", inside),
        dynamics,
        offset("dynamics_offset", dynamics.shape[-1]),
        each("dynamics_noise", inside),
        observation,
        offset("observation_offset", observation.shape[-2]),
        each("observation_noise"),
    )


def masks(chains: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Ones where two entries of the stacked state belong to one chain, and where a regime sees its own."""
    owner = np.repeat(np.arange(len(chains)), chains)
    same = (owner[:, None] == owner).astype(float)
    return same, (owner == np.arange(len(chains))[:, None]).astype(float)[:, None, :]


def factored(value: Float[Array, "*regime n n"]) -> Full:
    """A positive definite covariance, or one for each regime, in the form that is kept."""
    triangle = jnp.linalg.cholesky(value)
    rows, columns = np.tril_indices(triangle.shape[-1], -1)
    return Full(jnp.log(jnp.diagonal(triangle, axis1=-2, axis2=-1)), triangle[..., rows, columns], None)


def array_part(argument: str, given: Any, shape: tuple[int | None, ...], regimes: int, takes: str, dtype: Any) -> Array:
    """`given` as an array of this shape, or with an axis for the regimes in front of it."""
    numbers = checks.numbers(argument, given)
    inner = numbers.shape[numbers.ndim - len(shape) :]
    fits = numbers.ndim in (len(shape), len(shape) + 1) and all(
        due in (None, got) for due, got in zip(shape, inner, strict=True)
    )
    if not fits:
        raise HiddenStateError(f"{argument} has shape {numbers.shape}; it must be {takes}.")
    if numbers.ndim > len(shape) and numbers.shape[0] != regimes:
        raise HiddenStateError(
            f"{argument} has shape {numbers.shape}, for {numbers.shape[0]} regimes, but initial is for {regimes}."
        )
    return jnp.asarray(numbers, dtype)


def covariance_part(argument: str, given: Any, size: int, regimes: int, takes: str, dtype: Any) -> Full:
    """`given` as a positive definite covariance, or one for each regime."""
    array_part(argument, given, (size, size), regimes, takes, dtype)
    numbers = checks.covariance_matrices(argument, np.asarray(given, float), np.dtype(dtype))
    found = covariance(argument, numbers, size, dtype)
    if not isinstance(found, Full) or found.basis is not None:
        raise HiddenStateError(f"{argument} is singular; covariances must be positive definite.")
    return found


def held(part: Any, fixed: bool) -> Any:
    """The part, not to be learned where `fixed` says so."""
    return frozen(part) if fixed else part


def unwrapped(given: Any) -> tuple[Any, bool]:
    """What is inside `Frozen`, and whether it was."""
    return (given.value, True) if isinstance(given, Frozen) else (given, False)
