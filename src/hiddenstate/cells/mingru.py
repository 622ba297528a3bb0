"""The minimal gated recurrent unit: gates that see the input only."""

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Initialiser, Num, PRNGKeyArray, Shaped
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import number, weights, whole
from hiddenstate.core import AssociativeRecurrence, register
from hiddenstate.native.minimal import minimal
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.ops import linear_recurrence
from hiddenstate.ops.linear_recurrence import Decay, LinearStep, LogAffine, apply, join, log_mixture, mixture
from hiddenstate.ops.nonlinearities import log_positive
from hiddenstate.ops.projection import project


@register("mingru")
class MinGRU(Cell, AssociativeRecurrence):
    r"""The minimal GRU, which runs as a parallel scan (Feng et al. 2024).

    .. math::

        k &= B_z x_t + b_z, \qquad z = \sigma(k) \\
        c &= B_c x_t + b_c \\
        h_{t+1} &= (1 - z) \odot h_t + z \odot c

    :math:`z` says what is new (in `GRU` it says what is kept), and :math:`1 - z` is computed as
    :math:`\sigma(-k)`.

    With ``log_space=True`` the candidate is :math:`g(c)`, where :math:`g(a) = a + 1/2` for :math:`a \ge 0`
    and :math:`\sigma(a)` below: states are then never negative, and steps are joined by their logarithms
    (Feng et al. 2024, appendix B). The state itself stays in plain space, so that it may start at zero, with
    finite gradients.

    The weights of z and c are stacked in this order; the gate's bias starts at `gate_bias`.
    """

    input_weight: Float[Array, "two_hidden input"]
    bias: Float[Array, " two_hidden"]
    input_size: int = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    log_space: bool = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        log_space: bool = False,
        gate_bias: float = 0.0,
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.log_space = log_space
        self.input_weight = weights("input_init", input_init, key, (hidden_size, input_size), gates=2)
        self.bias = jnp.zeros(2 * hidden_size).at[:hidden_size].set(number("gate_bias", gate_bias))

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        return (StreamedLayer("mingru", self.hidden_size, self.input_weight, self.bias, logarithms=self.log_space),)

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Decay | LogAffine:
        """The gate and the candidate, as an affine step."""
        logit, candidate = self._gate_and_line(x)
        return log_mixture(logit, log_positive(candidate)) if self.log_space else mixture(logit, candidate)

    def step(self, state: Float[Array, " hidden"], element: Decay | LogAffine) -> Float[Array, " hidden"]:
        """(1 - z) h + z c."""
        return apply(state, element)

    def keep(self, state: Float[Array, " hidden"], element: Decay | LogAffine) -> Float[Array, " hidden"]:
        """1 - z."""
        del state
        return jnp.exp(element.log_a)

    def combine(self, earlier: LinearStep, later: LinearStep) -> LinearStep:
        """Two affine steps as one."""
        return join(earlier, later)

    def run_natively(
        self, state: Float[Array, " hidden"], elements: Decay | LogAffine, valid: Shaped[Array, " time"] | None
    ) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
        """All states of one sequence, and the last."""
        return linear_recurrence.run_natively(state, elements, valid)

    def read_natively(
        self,
        state: Float[Array, " hidden"],
        xs: Float[Array, "time input"],
        us: None,
        valid: Shaped[Array, " time"] | None,
    ) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
        """The same from the inputs, by a kernel that makes the gates too."""
        del us
        return minimal("mingru", self.log_space, self.input_weight, self.bias, state, xs, valid)

    def gate_and_candidate(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        """The logit of z, and what the state becomes where z is one: c, in log space g(c)."""
        logit, line = self._gate_and_line(x)
        return logit, jnp.exp(log_positive(line)) if self.log_space else line

    def _gate_and_line(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        logit, line = jnp.split(project(self.input_weight, x) + self.bias, 2)
        return logit, line
