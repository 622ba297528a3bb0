"""What a cell is: a recurrence over vectors that shows a vector."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Element, Float, Num, State
from hiddenstate.core import Recurrence, dtype_of


class Cell(Recurrence):
    """A recurrence over vectors of `input_size`, whose `output` is a vector of `output_size`.

    A new cell has two sizes, weights, and `prepare`, `step`; where its state is more than one vector of
    `hidden_size` it also says `initial` and `output`. See `docs/add-a-cell.md`.
    """

    input_size: eqx.AbstractVar[int]
    hidden_size: eqx.AbstractVar[int]

    @property
    def output_size(self) -> int:
        """How many numbers `output` gives."""
        return self.hidden_size

    def initial(self) -> State:
        """Zeros."""
        return jnp.zeros(self.hidden_size, dtype_of(self))

    @abstractmethod
    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Element:
        """What the input alone decides; a cell's inputs `u` are already part of `x`."""

    def output(self, state: State) -> Float[Array, " output"]:
        """What the head (or the next layer) sees of the state."""
        return state
