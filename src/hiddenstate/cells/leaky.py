"""The leaky recurrent cell: units with time constants."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import TimeConstants, named_nonlinearity, time_constants, weights, whole
from hiddenstate.cells.signs import (
    Currents,
    RecurrentWeight,
    Signs,
    currents_of,
    recurrent_weight,
    signs_told,
    weight_of,
)
from hiddenstate.core import Frozen, register
from hiddenstate.native.reading import reading
from hiddenstate.native.streaming import StreamedLayer, supported
from hiddenstate.native.vanilla import NONLINEARITIES, vanilla
from hiddenstate.ops.nonlinearities import nonlinearity
from hiddenstate.ops.projection import project


@register("leaky")
class Leaky(Cell):
    r"""Units that forget at their own pace (Tripp 2023, "wide range of time constants"; Jaeger et al. 2007).

    .. math::

        h_{t+1} = (1 - \alpha) \odot h_t + \alpha \odot \phi(W h_t + B x_t + b), \qquad
        \alpha = 1 - e^{-1/\tau}

    With no drive a unit decays as :math:`e^{-t/\tau}`, exactly; :math:`\tau` is counted in steps.
    `time_constants` is one number for all units, a tuple ``(shortest, longest)`` over which the units are
    spread evenly in the logarithm, or a list or array of one a unit. They are part of the model but fixed,
    unless ``learn_time_constants=True``: then their logarithms are parameters, so that they stay positive.

    With `signs` each unit is excitatory or inhibitory, as in `Vanilla`.
    """

    recurrent_weight: RecurrentWeight
    input_weight: Float[Array, "hidden input"]
    bias: Float[Array, " hidden"]
    log_time_constants: Float[Array, " hidden"] | Frozen
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    nonlinearity: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        time_constants: TimeConstants = (1.0, 100.0),
        learn_time_constants: bool = False,
        nonlinearity: str = "tanh",
        recurrent_init: str | Initialiser = "orthogonal",
        input_init: str | Initialiser = "glorot",
        signs: Signs = None,
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.nonlinearity = named_nonlinearity(nonlinearity)
        logarithms = _log_time_constants(time_constants, hidden_size)
        self.log_time_constants = logarithms if learn_time_constants else Frozen(logarithms)
        recurrent_key, input_key = jr.split(key)
        drawn = weights("recurrent_init", recurrent_init, recurrent_key, (hidden_size, hidden_size))
        self.recurrent_weight = recurrent_weight(drawn, signs)
        self.input_weight = weights("input_init", input_init, input_key, (hidden_size, input_size))
        self.bias = jnp.zeros(hidden_size)

    def options(self) -> dict[str, Any]:
        """Those of its form; time constants that are not learned belong to it."""
        held = {**super().options(), **signs_told(self.recurrent_weight)}
        if isinstance(self.log_time_constants, Frozen):
            return {**held, "time_constants": _as_range(self.time_constants.tolist())}
        return {**held, "learn_time_constants": True}

    @property
    def dynamics_weight(self) -> Float[Array, "hidden hidden"]:
        """W, with the signs that it is bound to."""
        return weight_of(self.recurrent_weight)

    @property
    def time_constants(self) -> Float[Array, " hidden"]:
        """tau, in steps."""
        held = self.log_time_constants
        return jnp.exp(held.value if isinstance(held, Frozen) else held)

    @property
    def alpha(self) -> Float[Array, " hidden"]:
        """What one step replaces of each unit's state."""
        return -jnp.expm1(-1 / self.time_constants)

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        return (
            StreamedLayer(
                "leaky",
                self.hidden_size,
                self.input_weight,
                self.bias,
                self.dynamics_weight,
                own=-jnp.expm1(-1 / self.time_constants),
                nonlinearity=supported(self.nonlinearity),
            ),
        )

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " hidden"]:
        """B x + b."""
        return project(self.input_weight, x) + self.bias

    def step(self, state: Float[Array, " hidden"], element: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """(1 - alpha) h + alpha phi(W h + element)."""
        alpha = self.alpha
        drive = nonlinearity(self.nonlinearity)(self.dynamics_weight @ state + element)
        return (1 - alpha) * state + alpha * drive

    @property
    def run_natively(self) -> Callable[..., tuple[Array, Array]]:
        """The kernel; AttributeError where it does not know the nonlinearity."""
        if self.nonlinearity not in NONLINEARITIES:
            raise AttributeError(f"there is no kernel for the nonlinearity {self.nonlinearity!r}.")
        return lambda *run: vanilla(self.nonlinearity, self.dynamics_weight, self.alpha, *run)

    @property
    def read_natively(self) -> Callable[..., tuple[Array, Array]]:
        """The same from the inputs: the kernel multiplies them by their weights itself."""
        kernel = self.run_natively
        return lambda state, xs, us, valid: kernel(state, reading(self.input_weight, xs, self.bias), valid)

    def currents(self, state: Float[Array, " hidden"], element: Float[Array, " hidden"]) -> Currents:
        """The parts of W h + element: what excites, what inhibits, and what comes from outside."""
        return currents_of(self.dynamics_weight, state, element)

    def keep(self, state: Float[Array, " hidden"], element: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """1 - alpha."""
        del state, element
        return jnp.exp(-1 / self.time_constants)


def _log_time_constants(value: TimeConstants, hidden_size: int) -> Float[Array, " hidden"]:
    return jnp.log(jnp.asarray(time_constants("time_constants", value, hidden_size)))


def _as_range(taus: list[float]) -> tuple[float, float] | list[float]:
    """Time constants as (shortest, longest) where they are spread as a range would be, to six digits."""
    ends = float(f"{min(taus):.6g}"), float(f"{max(taus):.6g}")
    spread = time_constants("time_constants", ends, len(taus))
    return ends if np.allclose(taus, spread, rtol=1e-5, atol=0) else taus
