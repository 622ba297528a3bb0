"""Real numbers that depend on inputs."""

from typing import Any

import jax.numpy as jnp

from hiddenstate._types import Array, Float
from hiddenstate.core import DataError, HiddenStateError, register
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import PartialEmission
from hiddenstate.latent.emissions.regression import Regression


@register("regression-emission")
class LinearRegression(Regression, PartialEmission):
    r"""Real numbers around a linear function of the inputs: :math:`x \sim N(b_k + W_k u, \sigma_k^2)`.

    `intercepts` is (state,) where an observation is one number, `weights` (state, input) and `variances` (state,); for
    vectors they are (state, column), (state, column, input) and (state, column): columns are independent given state
    and inputs.
    """

    def __init__(self, intercepts: Any, weights: Any, variances: Any):
        dtype = checks.precision(intercepts, weights, variances)
        given = checks.numbers("intercepts", intercepts, 1, 2)
        slopes = checks.numbers("weights", weights, given.ndim + 1)
        spreads = checks.numbers("variances", variances, 1, 2)
        for name, array in (("weights", slopes), ("variances", spreads)):
            checks.same_states("intercepts", len(given), name, array)
        if slopes.shape[:-1] != given.shape:
            raise HiddenStateError(
                f"weights has shape {slopes.shape}; with intercepts of shape {given.shape} it must be "
                f"({', '.join(map(str, given.shape))}, inputs)."
            )
        checks.positive("variances", checks.shaped("variances", spreads, given.shape, "as intercepts has"), "variances")
        self.scalar = given.ndim == 1
        table = (len(given), -1)
        self._set(given.reshape(table), slopes.reshape(*table, slopes.shape[-1]), spreads.reshape(table), dtype)

    @property
    def inputs(self) -> int:
        """How many inputs the mean depends on."""
        return self.offsets.shape[-1] - 1

    @property
    def intercepts(self) -> Float[Array, "states *event"]:
        """The mean under each state where all inputs are 0."""
        return self._shown(self.coefficients[..., 0])

    @property
    def weights(self) -> Float[Array, "states *event input"]:
        """How the mean under each state follows the inputs."""
        return self._shown(self.coefficients[..., 1:])

    def regressors(self, u: Any, past: Any) -> Float[Array, " input"]:
        """The inputs."""
        if u is None:
            raise DataError(f"LinearRegression emissions take {self.inputs} inputs at every step, but got none.")
        return jnp.asarray(u, self.spread.dtype)

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Any) -> Float[Array, " states"]:
        """The log-density of the entries that were observed."""
        return jnp.where(observed, self._each(x, self.regressors(u, None)), 0.0).sum(-1)
