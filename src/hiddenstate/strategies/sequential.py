"""One step after the other: works for every recurrence."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Element, Shaped, State
from hiddenstate.core import Recurrence, StrategyError
from hiddenstate.native.manual import carried
from hiddenstate.strategies.strategy import Strategy, Unrolled, square_root_chunk


@dataclass(frozen=True)
class Sequential(Strategy):
    """A compiled loop over time.

    With ``checkpoint=True`` (or a chunk length of your own, in steps) the backward pass recomputes what lies
    within chunks of about sqrt(T) steps: the memory for the gradient of a long sequence then grows like the
    square root of T, for about a third more work.
    """

    checkpoint: bool | int = False

    def __post_init__(self):
        if self.checkpoint is not False and self.checkpoint < 1:
            raise StrategyError(
                f"checkpoint is {self.checkpoint}; it must be True, False or a chunk length of 1 or more."
            )

    def check(self, recurrence: Recurrence) -> None:
        """Every recurrence can be run in sequence."""

    def chunk_length(self, time: int) -> int | None:
        """About sqrt(time) with ``checkpoint=True``, the given length, or None."""
        if self.checkpoint is True:
            return square_root_chunk(time)
        return self.checkpoint or None

    def run(
        self, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
    ) -> Unrolled:
        """A scan over the elements."""

        def advance(state, inputs):
            element, inside = inputs
            new = recurrence.step(state, element)
            if inside is not None:
                new = jax.tree.map(lambda a, b: jnp.where(inside, a, b), new, state)
            return new, state

        begun = carried(state, recurrence, elements, valid)
        final, states = jax.lax.scan(advance, begun, (elements, valid))
        return Unrolled(states, final)
