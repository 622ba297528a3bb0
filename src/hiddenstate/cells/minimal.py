"""What the minimal gated cells share: gates and a candidate that see the input only, so that every step is affine."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Num, Shaped
from hiddenstate.cells.cell import Cell
from hiddenstate.core import AssociativeRecurrence, own
from hiddenstate.native.minimal import minimal
from hiddenstate.ops import linear_recurrence
from hiddenstate.ops.linear_recurrence import Decay, LinearStep, LogAffine, apply, join, log_mixture, mixture
from hiddenstate.ops.nonlinearities import log_positive


class Minimal(Cell, AssociativeRecurrence):
    """A cell whose state moves towards a candidate, as far as a gate lets it (Feng et al. 2024).

    A cell of this kind says what its `gate_and_line` are, and which `kernel` computes them, where there is one. In log
    space the candidate is g of that line, and steps are joined by their logarithms.
    """

    input_weight: eqx.AbstractVar[Float[Array, "rows input"]]
    bias: eqx.AbstractVar[Float[Array, " rows"]]
    log_space: eqx.AbstractVar[bool]
    kernel: ClassVar[str]

    @abstractmethod
    def gate_and_line(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        """The logit of the share of the candidate, and the line that is the candidate, in log space before g."""

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Decay | LogAffine:
        """The gate and the candidate, as an affine step."""
        logit, line = self.gate_and_line(x)
        return log_mixture(logit, log_positive(line)) if self.log_space else mixture(logit, line)

    def step(self, state: Float[Array, " hidden"], element: Decay | LogAffine) -> Float[Array, " hidden"]:
        """What is kept of the state, and the share of the candidate."""
        return apply(state, element)

    def keep(self, state: Float[Array, " hidden"], element: Decay | LogAffine) -> Float[Array, " hidden"]:
        """Which part of each unit is kept."""
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

    @property
    def read_natively(self) -> Callable[..., tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]]:
        """The same from the inputs, by a kernel that makes the gates too: those of its own class, not of a subclass."""
        kernel = own(self, "kernel")

        def read(state: Any, xs: Any, us: None, valid: Any) -> tuple[Array, Array]:
            del us
            return minimal(kernel, self.log_space, self.input_weight, self.bias, state, xs, valid)

        return read

    def gate_and_candidate(self, x: Float[Array, " input"]) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
        """The logit of the candidate's share, and what the state becomes where that share is one."""
        logit, line = self.gate_and_line(x)
        return logit, jnp.exp(log_positive(line)) if self.log_space else line
