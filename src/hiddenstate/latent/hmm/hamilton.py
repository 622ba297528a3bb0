"""Hamilton's autoregression: a series whose mean, and what else one likes, switches with a hidden regime."""

from typing import Any, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped
from hiddenstate.core import (
    DataError,
    Frozen,
    HiddenStateError,
    MissingDataError,
    Schema,
    Sequences,
    Steps,
    recipe,
    register,
)
from hiddenstate.inference.posterior import Decoded
from hiddenstate.latent import checks
from hiddenstate.latent.hmm.build import STAY, Initial
from hiddenstate.latent.hmm.model import HMM
from hiddenstate.latent.hmm.regimes import Form, RegimeAutoregression
from hiddenstate.latent.hmm.results import Smoothed, Statistics
from hiddenstate.latent.hmm.tuples import Tuples
from hiddenstate.strategies import Strategy


@register("hamilton")
class Hamilton(HMM):
    r"""An autoregression around a mean that switches between regimes (Hamilton 1989), with exact inference.

    .. math::

        x_t - \mu_{z_t} = \sum_{j=1}^L \phi_j\,(x_{t-j} - \mu_{z_{t-j}}) + \sigma e_t,
        \qquad z_{t+1} \sim P_{z_t, \cdot}

    An observation depends on the last :math:`L + 1` regimes, so that the belief is over tuples of these. There are
    :math:`K^{L+1}`, each with K successors: a step costs as much as there are tuples, and all answers are exact.

    `means` (state,) are the means of the regimes. `coefficients` are (lag,), the last observation's first, or (state,
    lag), where those of the present regime count. `variances` is one number, or (state,). With ``form="intercept"`` it
    is :math:`x_t = \mu_{z_t} + \sum_j \phi_j x_{t-j} + \sigma e_t`, which depends on the present regime alone:
    `means` are intercepts then, a change of regime is felt little by little, and there are only K tuples.

    `initial` are the probabilities of the first regime, or ``"stationary"``; `transition` is as for `HMM`, and may be
    an `InputDriven`. The first L observations have nothing to follow. They are drawn from one normal distribution,
    whatever the regime, whose mean and variance are `start`: it is not learned, so that the likelihood of all steps
    differs from that given the first L (``given=L``) by a constant, and EM maximises both.
    """

    emission: RegimeAutoregression  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        initial: Any,
        transition: Any,
        means: Any,
        coefficients: Any,
        variances: Any,
        *,
        form: Form = "mean",
        start: Any = None,
        schema: Schema | None = None,
    ):
        emission = RegimeAutoregression(means, coefficients, variances, form, start)
        super().__init__(initial, transition, emission, schema=schema)

    @property
    def lags(self) -> int:
        """How many past observations the next one depends on."""
        return self.emission.lags

    @property
    def means(self) -> Float[Array, " state"]:
        """The mean of each regime, or with ``form="intercept"`` its intercept."""
        return self.emission.means

    @property
    def coefficients(self) -> Float[Array, "..."]:
        """How the last observations pull, the last one first; (state, lag) where they switch."""
        return self.emission.coefficients

    @property
    def variances(self) -> Float[Array, "..."]:
        """The variance of what is not foreseen; (state,) where it switches."""
        return self.emission.variances

    # -- what is hidden ------------------------------------------------------------------------------------------

    def filter(self, steps: Steps, strategy: Strategy) -> Float[Array, "time state"]:
        """p(z_t | x_1 .. x_t)."""
        return self._present(super().filter(steps, strategy))

    def smooth(self, steps: Steps, strategy: Strategy) -> Smoothed:
        """p(z_t | x_1 .. x_T) and the pairs of neighbours."""
        found = super().smooth(steps, strategy)
        return found._replace(marginals=self._present(found.marginals))

    def fixed_lag(self, steps: Steps, strategy: Strategy, lag: int) -> Float[Array, "time state"]:
        """p(z_t | x_1 .. x_{t+lag})."""
        return self._present(super().fixed_lag(steps, strategy, lag))

    def most_likely_states(self, steps: Steps, strategy: Strategy) -> Decoded:
        """The path of Viterbi, and its log-probability with the observations."""
        found = super().most_likely_states(steps, strategy)
        return found._replace(states=found.states % self.states)

    def sample_states(self, steps: Steps, strategy: Strategy, key: PRNGKeyArray) -> Shaped[Array, " time"]:
        """One path from the posterior."""
        return super().sample_states(steps, strategy, key) % self.states

    # -- learning ------------------------------------------------------------------------------------------------

    def check_learns_from(self, data: Sequences) -> None:
        """Raise DataError if no observation of the data has all those before it that it depends on."""
        check_long_enough(data, self.lags)

    def expected_statistics(
        self, steps: Steps, strategy: Strategy, how: str = "backward"
    ) -> tuple[Statistics, Float[Array, ""]]:
        """As for an HMM, with moments for every tuple of regimes."""
        found, total = super().expected_statistics(steps, strategy, how)
        occupancy = self._present(found.occupancy)
        return found._replace(initial=self._present(found.initial), occupancy=occupancy), total

    def restart(self, data: Sequences, *, key: PRNGKeyArray, how: str) -> HMM:
        """The model with new starting parameters."""
        self.check_learns_from(data)
        return super().restart(data, key=key, how=how)

    # -- inside --------------------------------------------------------------------------------------------------

    def _operator(self, matrix: Float[Array, "state state"] | None) -> Tuples:
        return Tuples(self.transition.probs if matrix is None else matrix, self.emission.memory)

    def _first_belief(self) -> Float[Array, " tuple"]:
        """What was before the first regime is of no matter: it is called 0."""
        probs = self.initial_probs
        return jnp.pad(probs, (0, self.states ** (self.emission.memory + 1) - self.states))

    def _present(self, belief: Float[Array, "*time tuple"]) -> Float[Array, "*time state"]:
        """The belief over the last regime of each tuple."""
        return belief.reshape(*belief.shape[:-1], -1, self.states).sum(-2)


@recipe("hamilton")
def hamilton(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    states: int = 2,
    lags: int = 4,
    form: Form = "mean",
    initial: Initial = "stationary",
    switching_coefficients: bool = False,
    switching_variance: bool = False,
) -> Hamilton:
    """Hamilton's autoregression of single real numbers, with `states` regimes and `lags` lags.

    `form` is ``"mean"`` or ``"intercept"``; `initial` is ``"stationary"``, ``"free"`` or ``"fixed"``. Levels switch
    always; with `switching_coefficients` or `switching_variance` these do too.
    """
    checks.whole("states", states)
    checks.whole("lags", lags)
    if initial not in get_args(Initial):
        raise HiddenStateError(f"initial is {initial!r}; it must be one of {', '.join(get_args(Initial))}.")
    values = _observations(data, lags)
    dtype = np.dtype(jnp.result_type(float))
    even = np.full(states, 1 / states, dtype)
    begin = {"stationary": "stationary", "free": even, "fixed": Frozen(jnp.asarray(even))}[initial]
    stay = STAY if states > 1 else 0.0
    variance = float(values.var()) if values.var() > 1e-12 * values.mean() ** 2 else 1.0
    rough = Hamilton(
        begin,
        stay * np.eye(states, dtype=dtype) + (1 - stay) * _elsewhere(states, dtype),
        np.full(states, values.mean(), dtype),
        np.zeros((states, lags) if switching_coefficients else lags, dtype),
        np.full(states if switching_variance else (), variance, dtype),
        form=form,
        start=(values.mean(), variance),
        schema=data.schema,
    )
    return eqx.tree_at(lambda m: m.emission, rough, rough.emission.restart(data, key=key))


def _observations(data: Sequences, lags: int) -> np.ndarray:
    """All observations in a row, or a sentence that says why there can be no autoregression of them."""
    if "symbol" in data.schema.kinds:
        raise DataError("an autoregression needs numbers, but the data hold symbols; take 'hmm'.")
    if data.event_shape != ():
        raise DataError(
            f"each observation has shape {data.event_shape}; Hamilton's autoregression is for single numbers. Take "
            "'hmm' with emission='autoregressive' for vectors."
        )
    if data.observed is not None:
        sequence, step = (int(i) for i in np.argwhere(~data.observed)[0][:2])
        raise MissingDataError(
            f"sequence {data.names[sequence]} has a missing value at step {step + 1}; an autoregression needs each "
            "one, since later ones depend on it. Fill it in, or cut the sequence there."
        )
    check_long_enough(data, lags)
    return np.asarray(data.values, float)[data.valid]


def _elsewhere(states: int, dtype: np.dtype) -> np.ndarray:
    """Moves to all other states alike; of one state, to itself."""
    if states == 1:
        return np.ones((1, 1), dtype)
    return (1 - np.eye(states, dtype=dtype)) / (states - 1)


def check_long_enough(data: Sequences, lags: int) -> None:
    """Raise DataError unless some sequence has more steps than there are lags."""
    longest = int(np.max(data.lengths))
    if longest <= lags:
        raise DataError(
            f"lags is {lags}, but the longest sequence has {longest} steps; an autoregression needs more than {lags}."
        )
