"""What a cell is: a recurrence over vectors that shows a vector."""

import inspect
from abc import abstractmethod
from dataclasses import fields
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from hiddenstate._types import Array, Element, Float, Num, Shaped, State
from hiddenstate.core import Recurrence, Steps, dtype_of
from hiddenstate.strategies import Auto, Strategy, over_time


class Read(NamedTuple):
    """What a cell made of one sequence: `outputs` at t has seen x_1 .. x_t, `final` is the state after all of it."""

    outputs: Float[Array, "time output"]
    final: State


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

    def options(self) -> dict[str, Any]:
        """The constructor's options that make a cell of the same form again; what they start from is left out.

        These are the static fields that the constructor takes under their names. A cell with options that are not
        kept that way adds them.
        """
        taken = inspect.signature(type(self).__init__).parameters.values()
        names = {p.name for p in taken if p.kind is p.KEYWORD_ONLY}
        kept = [field.name for field in fields(self) if field.metadata.get("static", False)]
        return {name: getattr(self, name) for name in kept if name in names}

    def read(
        self, xs: Float[Array, "time input"], valid: Shaped[Array, " time"] | None = None, strategy: Strategy = Auto()
    ) -> Read:
        """What the cell shows after each step of one sequence, and its last state.

        `valid` is False behind the sequence's end, where the last real state stays.
        """
        steps = Steps(xs, valid=valid)
        before, final = over_time(self, strategy, self.initial(), steps, lambda state, *_: self.output(state))
        return Read(jnp.concatenate([before[1:], self.output(final)[None]]), final)
