"""Real numbers that depend on those before them."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, HiddenStateError, register
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.regression import Regression


@register("autoregressive-emission")
class Autoregressive(Regression):
    r"""Real numbers that follow the last ones: :math:`x_t \sim N(b_k + \sum_j W_{kj} x_{t-j}, \sigma_k^2)`.

    `intercepts` is (state,) where an observation is one number, `weights` (state, lag) and `variances` (state,); for
    vectors they are (state, column), (state, lag, column, column) and (state, column). The first lag is the last
    observation. `start` (lag, ...) stands for the observations before the first, the oldest first: zeros by default,
    and not learned. A missing observation cannot be summed out: later ones depend on its value.
    """

    start: Frozen
    lags: int = eqx.field(static=True)

    def __init__(self, intercepts: Any, weights: Any, variances: Any, start: Any = None):
        dtype = checks.precision(intercepts, weights, variances)
        given = checks.numbers("intercepts", intercepts, 1, 2)
        slopes = checks.numbers("weights", weights, 2 * given.ndim)
        spreads = checks.numbers("variances", variances, 1, 2)
        for name, array in (("weights", slopes), ("variances", spreads)):
            checks.same_states("intercepts", len(given), name, array)
        event = given.shape[1:]
        if slopes.shape[2:] != 2 * event:
            raise HiddenStateError(
                f"weights has shape {slopes.shape}; with intercepts of shape {given.shape} it must be "
                f"({', '.join(map(str, (len(given), 'lags', *event, *event)))})."
            )
        checks.positive("variances", checks.shaped("variances", spreads, given.shape, "as intercepts has"), "variances")
        self.lags = slopes.shape[1]
        before = np.zeros((self.lags, *event)) if start is None else checks.numbers("start", start)
        checks.shaped("start", before, (self.lags, *event), "an observation for each lag")
        self.start = Frozen(jnp.asarray(before, dtype))
        self.scalar = given.ndim == 1
        states = len(given)
        flat = slopes[:, :, None, None] if self.scalar else slopes
        flat = np.moveaxis(flat, 2, 1).reshape(states, flat.shape[2], -1)
        self._set(given.reshape(states, -1), flat, spreads.reshape(states, -1), dtype)

    @property
    def history(self) -> int:
        """How many past observations the mean depends on."""
        return self.lags

    @property
    def start_values(self) -> Float[Array, "lag *event"]:
        """What stands for the observations before the first, the oldest first."""
        return self.start.value

    @property
    def shared(self) -> tuple[str, ...]:
        """The units, and what was before the first observation."""
        return (*super().shared, "start")

    @property
    def intercepts(self) -> Float[Array, "states *event"]:
        """The mean under each state after zeros."""
        return self._shown(self.coefficients[..., 0])

    @property
    def weights(self) -> Float[Array, "states lag ..."]:
        """How the mean under each state follows the last observations, the first lag first."""
        flat = self.coefficients[..., 1:]
        if self.scalar:
            return flat[:, 0]
        return jnp.moveaxis(flat.reshape(self.states, self.columns, self.lags, self.columns), 2, 1)

    def regressors(self, u: Any, past: Any) -> Float[Array, " regressor"]:
        """The last observations, the last one first."""
        return jnp.asarray(past, self.spread.dtype)[::-1].reshape(-1)
