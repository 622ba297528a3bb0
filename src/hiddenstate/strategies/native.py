"""All steps in one call of a compiled kernel: for recurrences that have one."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hiddenstate import native
from hiddenstate._types import Array, Element, Shaped, State
from hiddenstate.core import Recurrence, StrategyError, dtype_of, has, kernel_of, name_of, reading_kernel_of
from hiddenstate.strategies.strategy import Strategy, Unrolled, square_root_chunk


@dataclass(frozen=True)
class Native(Strategy):
    """One after the other inside a compiled kernel, which keeps weights and states in the cache; on a CPU.

    Gradients take the kernel's own backward pass: the first derivative, backwards (`jax.grad`). Forward mode and second
    derivatives need `Sequential`. ``checkpoint`` as there.
    """

    checkpoint: bool | int = False

    def __post_init__(self):
        if self.checkpoint is not False and self.checkpoint < 1:
            raise StrategyError(
                f"checkpoint is {self.checkpoint}; it must be True, False or a chunk length of 1 or more."
            )

    def check(self, recurrence: Recurrence) -> None:
        """Only a recurrence with a kernel can be run this way, on a CPU, with kernels that were compiled."""
        if has(recurrence, "layers"):
            for layer in recurrence.layers():  # pyright: ignore[reportAttributeAccessIssue]
                self.check(layer)
            return
        reason = obstacle(recurrence)
        if reason:
            raise StrategyError(f"Native cannot run {name_of(recurrence)}: {reason} Use Sequential() or Auto().")

    def chunk_length(self, time: int) -> int | None:
        """About sqrt(time) with ``checkpoint=True``, the given length, or None."""
        if self.checkpoint is True:
            return square_root_chunk(time)
        return self.checkpoint or None

    def reader(self, recurrence: Recurrence) -> Callable[..., tuple[State, State]] | None:
        """The recurrence's own kernel that takes observations, where it has one."""
        try:
            return reading_kernel_of(recurrence)
        except AttributeError:
            return None

    def run(
        self, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
    ) -> Unrolled:
        """The recurrence's own call of a kernel."""
        return Unrolled(*recurrence.run_natively(state, elements, valid))  # pyright: ignore[reportAttributeAccessIssue]


def obstacle(recurrence: Recurrence, device: str | None = None) -> str | None:
    """The sentence that says why no kernel can run this recurrence here; None where one can."""
    there = native.available()
    if not there:
        return there.reason
    if (jax.default_backend() if device is None else device) != "cpu":
        return "kernels run on a CPU."
    try:
        kernel_of(recurrence)
    except AttributeError as error:
        words = str(error).rstrip(".")
        says_why = " " in words and "has no attribute" not in words  # which are Python's own words
        return f"there is no kernel for it; {words}." if says_why else "there is no kernel for it."
    if dtype_of(recurrence) not in (jnp.float32, jnp.float64):
        return f"kernels take float32 or float64, not {dtype_of(recurrence)}."
    return None
