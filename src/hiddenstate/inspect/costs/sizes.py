"""The sizes at which costs are measured."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from hiddenstate.core import HiddenStateError

Varied = Literal["steps", "units", "batch"]


class Size(NamedTuple):
    """How long and how many sequences are, and how large the model."""

    steps: int
    units: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class CostSizes:
    """Which sizes are measured: each of the three is varied while the two others stay at the number before it.

    `steps` is the length of sequences T, `units` the number of hidden units, or hidden states, K, and `batch` the
    number of sequences. With no sizes to vary, that size is left out. Each program runs `repeats` times, and the least
    time counts; with none, no time is measured.

    `steps_at` is the number of units and of sequences while the steps are varied, where it is another. With a small
    model the states of long sequences lie in one and the same level of the cache; where longer ones leave it, each
    step waits longer for memory, and the exponent is that of the machine.
    """

    at_steps: int = 1000
    steps: tuple[int, ...] = (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)
    at_units: int = 64
    units: tuple[int, ...] = (32, 64, 128, 256, 512)
    at_batch: int = 4
    batch: tuple[int, ...] = (1, 4, 16, 64, 256)
    repeats: int = 7
    steps_at: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("at_steps", "at_units", "at_batch"):
            _check_whole(name, getattr(self, name))
        _check_whole("repeats", self.repeats, least=0)
        if self.steps_at is not None:
            if len(self.steps_at) != 2:
                raise HiddenStateError(
                    f"steps_at is {self.steps_at}; it must be a number of units and one of sequences."
                )
            for size in self.steps_at:
                _check_whole("steps_at", size)
        for name in ("steps", "units", "batch"):
            sizes = getattr(self, name)
            if len(set(sizes)) != len(sizes) or len(sizes) == 1:
                raise HiddenStateError(f"{name} is {sizes}; it must hold two or more different sizes, or none.")
            for size in sizes:
                _check_whole(name, size)

    def ladder(self, varied: Varied) -> list[Size]:
        """The sizes at which the one that is varied is measured."""
        middle = Size(self.at_steps, self.at_units, self.at_batch)
        if varied == "steps" and self.steps_at is not None:
            middle = Size(self.at_steps, *self.steps_at)
        return [middle._replace(**{varied: size}) for size in sorted(getattr(self, varied))]


def _check_whole(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise HiddenStateError(f"{name} is {value!r}; it must be a whole number from {least} on.")


FULL = CostSizes(steps=(2000, 4000, 8000, 16_000, 32_000, 64_000), steps_at=(4, 1))

QUICK = CostSizes(
    at_steps=500,
    steps=(4000, 8000, 16_000),
    at_units=32,
    units=(32, 64, 128),
    batch=(4, 16, 64),
    repeats=3,
    steps_at=(4, 1),
)
"""Sizes for a first look."""
