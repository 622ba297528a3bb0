"""All steps at once, in a parallel scan: for recurrences with `combine`."""

from dataclasses import dataclass

import jax

from hiddenstate._types import Array, Element, Shaped, State
from hiddenstate.core import Recurrence, StrategyError, has, name_of
from hiddenstate.strategies.independent import shifted
from hiddenstate.strategies.strategy import Strategy, Unrolled, square_root_chunk


@dataclass(frozen=True)
class Associative(Strategy):
    """A parallel prefix scan over ``combine``: work of order T, in log T rounds.

    ``checkpoint`` as in `Sequential`: chunks are run one after the other, each of them in parallel.
    """

    checkpoint: bool | int = False

    def __post_init__(self):
        if self.checkpoint is not False and self.checkpoint < 1:
            raise StrategyError(
                f"checkpoint is {self.checkpoint}; it must be True, False or a chunk length of 1 or more."
            )

    def check(self, recurrence: Recurrence) -> None:
        """Only a recurrence with `combine`, or one all of whose layers have it, can be run this way."""
        if has(recurrence, "layers"):
            for layer in recurrence.layers():  # pyright: ignore[reportAttributeAccessIssue]
                self.check(layer)
            return
        if not has(recurrence, "combine"):
            raise StrategyError(
                f"Associative needs a recurrence with `combine`; {name_of(recurrence)} has none. "
                "Use Sequential() or Auto()."
            )

    def chunk_length(self, time: int) -> int | None:
        """About sqrt(time) with ``checkpoint=True``, the given length, or None."""
        if self.checkpoint is True:
            return square_root_chunk(time)
        return self.checkpoint or None

    def run(
        self, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
    ) -> Unrolled:
        """Prefixes of the elements, then each applied to the first state."""
        if has(recurrence, "widen"):
            elements = jax.vmap(recurrence.widen)(elements)  # pyright: ignore[reportAttributeAccessIssue]
        combine = jax.vmap(recurrence.combine)  # pyright: ignore[reportAttributeAccessIssue]
        prefixes = jax.lax.associative_scan(combine, elements)
        later = jax.vmap(recurrence.step, (None, 0))(state, prefixes)
        return shifted(state, later, valid)
