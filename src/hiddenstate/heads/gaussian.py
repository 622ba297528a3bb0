"""Real numbers with light tails."""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import HiddenStateError, register
from hiddenstate.distributions import MultivariateNormalDistribution, NormalDistribution
from hiddenstate.heads.head import Dispersion, checked_dispersion, locations_first
from hiddenstate.heads.units import Standardised, positive
from hiddenstate.native.streaming import StreamedHead


@register("gaussian-head")
class Gaussian(Standardised):
    r"""Real numbers: :math:`x \sim N(\ell + s\,\mu,\; s\,L L^\top s)` with :math:`\mu, L` from the state.

    `size` is the length of an observation, or None where it is a single number. :math:`\ell` = `location` and
    :math:`s` = `scale` are the units of the data (say, its mean and standard deviation; 0 and 1 by default)
    and are not learned. With ``covariance="diagonal"`` :math:`L` is diagonal, with ``"full"`` lower
    triangular; its diagonal is a softplus shifted so that parameter 0 gives 1. With
    ``dispersion="constant"`` :math:`L` is learned but does not follow the state, which keeps a network from
    being too sure of itself on data unlike those it has learned from. Encoded as :math:`(x - \ell) / s`. With
    a full covariance, the limits that `Head` states are those of the sum of the diagonal's parameters.
    """

    covariance: Literal["diagonal", "full"] = eqx.field(static=True)
    dispersion: Dispersion = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        size: int | None,
        covariance: Literal["diagonal", "full"] = "diagonal",
        location: Any = None,
        scale: Any = None,
        *,
        dispersion: Dispersion = "state",
        key: PRNGKeyArray,
    ):
        if covariance not in ("diagonal", "full"):
            raise HiddenStateError(f"covariance is {covariance!r}; it must be 'diagonal' or 'full'.")
        if covariance == "full" and size is None:
            raise HiddenStateError("covariance is 'full', but size is None: a single number has no covariance.")
        self._set_units(size, location, scale)
        self.covariance = covariance
        self.dispersion = checked_dispersion(dispersion)
        self._initialise(hidden_size, key)

    @property
    def parameter_count(self) -> int:
        """The means, then the standard deviations or the rows of the triangle."""
        n = self.encoded_size
        return n + (n if self.covariance == "diagonal" else n * (n + 1) // 2)

    @property
    def driven(self) -> np.ndarray:
        """The means, and with ``dispersion="state"`` the spreads too."""
        return locations_first(self, self.dispersion)

    @property
    def streamed(self) -> StreamedHead:
        """What a compiled stream takes of it."""
        if self.covariance != "diagonal":
            raise AttributeError("a Gaussian head with a full covariance has no compiled stream.")
        location, scale = self.location.value, self.scale.value
        units: Any = {"shift": location, "spread": scale, "location": location, "scale": scale}
        return StreamedHead("normal", "real", self.event_shape, *self.whole_linear, blocks=2, **units)

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """The normal distribution with these standardised means and spreads, in the units of the data."""
        n = self.encoded_size
        mean, spread = parameters[:n].reshape(self.event_shape), parameters[n:]
        if self.covariance == "diagonal":
            loc, scale = self.in_units(mean, positive(spread.reshape(self.event_shape)))
            return NormalDistribution(loc, scale, validate_args=False).to_event(len(self.event_shape))
        loc, scale = self.in_units(mean, jnp.ones_like(mean))
        return MultivariateNormalDistribution(
            loc, scale_tril=scale[:, None] * _triangle(spread, n), validate_args=False
        )


def _triangle(entries: Float[Array, " entry"], n: int) -> Float[Array, "row column"]:
    """Rows of a lower triangle as a matrix with a positive diagonal."""
    rows, columns = np.tril_indices(n)
    lower = jnp.zeros((n, n), entries.dtype).at[rows, columns].set(entries)
    diagonal = np.arange(n)
    return lower.at[diagonal, diagonal].set(positive(lower[diagonal, diagonal]))
