"""The minimal LSTM: gates that see the input only, normalised to sum to one."""

import equinox as eqx
import jax
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


@register("minlstm")
class MinLSTM(Cell, AssociativeRecurrence):
    r"""The minimal LSTM, which runs as a parallel scan (Feng et al. 2024).

    .. math::

        f &= \sigma(B_f x_t + b_f), \qquad i = \sigma(B_i x_t + b_i), \qquad c = B_c x_t + b_c \\
        f' &= \frac{f}{f + i}, \qquad i' = \frac{i}{f + i} \\
        h_{t+1} &= f' \odot h_t + i' \odot c

    Because :math:`i' = \sigma(\log i - \log f)` and :math:`f' = 1 - i'`, this is a `MinGRU` whose gate has
    that logit; computed so, nothing is divided and two closed gates cannot give 0/0. ``log_space=True`` is as
    in `MinGRU`: a positive candidate :math:`g(c)`, states never negative, steps joined by their logarithms.

    The weights of f, i and c are stacked in this order; the forget gate's bias starts at `forget_bias`.
    """

    input_weight: Float[Array, "three_hidden input"]
    bias: Float[Array, " three_hidden"]
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
        forget_bias: float = 1.0,
        input_init: str | Initialiser = "glorot",
    ):
        self.input_size = whole("input_size", input_size)
        self.hidden_size = whole("hidden_size", hidden_size)
        self.log_space = log_space
        self.input_weight = weights("input_init", input_init, key, (hidden_size, input_size), gates=3)
        self.bias = jnp.zeros(3 * hidden_size).at[:hidden_size].set(number("forget_bias", forget_bias))

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of it."""
        return (StreamedLayer("minlstm", self.hidden_size, self.input_weight, self.bias, logarithms=self.log_space),)

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Decay | LogAffine:
        """The normalised gates and the candidate, as an affine step."""
        logit, candidate = self._gate_and_line(x)
        return log_mixture(logit, log_positive(candidate)) if self.log_space else mixture(logit, candidate)

    def step(self, state: Float[Array, " hidden"], element: Decay | LogAffine) -> Float[Array, " hidden"]:
        """f' h + i' c."""
        return apply(state, element)

    def keep(self, state: Float[Array, " hidden"], element: Decay | LogAffine) -> Float[Array, " hidden"]:
        """f'."""
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
        return minimal("minlstm", self.log_space, self.input_weight, self.bias, state, xs, valid)

    def gate_and_candidate(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        """The logit of i', and what the state becomes where i' is one: c, in log space g(c)."""
        logit, line = self._gate_and_line(x)
        return logit, jnp.exp(log_positive(line)) if self.log_space else line

    def _gate_and_line(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        f, i, line = jnp.split(project(self.input_weight, x) + self.bias, 3)
        return jax.nn.log_sigmoid(i) - jax.nn.log_sigmoid(f), line
