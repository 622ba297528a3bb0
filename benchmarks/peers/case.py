"""What is timed: one piece of work of one size, and those who do it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Size = Mapping[str, int]
Precision = Literal["float32", "float64"]
Scale = Literal["full", "quick", "tiny"]

OURS = "hiddenstate"
YARDSTICKS = (OURS, "numpy")
"""Libraries that are no peers: this one without its kernels, and a few lines by hand, are shown beside."""

FUNCTION = 10
"""A tanh, sigmoid, exponential or logarithm counts as so many multiply-adds."""


@dataclass(frozen=True)
class Work:
    """What nobody can do without: multiply-adds, and bytes between memory and processor."""

    multiply_adds: float
    bytes: float


@dataclass(frozen=True)
class Run:
    """One contender, ready: `call` does the work and waits for its end, `result` says what came of it, as arrays."""

    call: Callable[[], Any]
    result: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Agreement:
    """How far results may lie apart, number by number or with `together` in root mean square.

    The reason stands where the numbers are chosen.
    """

    relative: float
    absolute: float = 0.0
    together: bool = False


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `makers` holds for each contender a function of the size that prepares its inputs, all from the same arrays.
    `probed` contenders need no compilation and are tried on a smaller part first, to leave out those that would take
    too long. `scaling` names the size that a plot has on its x axis, where the case is a point of one.
    """

    workload: str
    title: str
    size: Size
    makers: Mapping[str, Callable[[Size], Run]]
    agreement: Mapping[str, Agreement]
    precision: Precision = "float32"
    goal: float | None = None
    work: Work | None = None
    probed: tuple[str, ...] = ()
    scaling: str | None = None
    note: str = ""
    memory: bool = field(default=False)

    @property
    def sizes(self) -> str:
        """The size in words, such as `64 x 1,000, 5 states`: sequences of so many steps, and the rest."""
        rest, words = dict(self.size), []
        if {"sequences", "steps"} <= rest.keys():
            words = [f"{rest.pop('sequences'):,} x {rest.pop('steps'):,}"]
        return ", ".join([*words, *(f"{count:,} {name}" for name, count in rest.items())])

    @property
    def key(self) -> str:
        """What the case is known by in files."""
        size = "-".join(f"{name}{count}" for name, count in self.size.items())
        return "/".join([self.workload, self.title, size, self.precision, *([self.scaling] if self.scaling else [])])

    def smaller(self) -> tuple[Size, float]:
        """Fewer steps of all sequences, which may run side by side, and how many times as many the whole has."""
        whole = self.size["steps"]
        part = max(2, whole // 20)
        return {**self.size, "steps": part}, whole / part


def library(contender: str) -> str:
    """The first word of a contender's name."""
    return contender.split()[0]


def is_peer(contender: str) -> bool:
    """Whether it is somebody else's."""
    return library(contender) not in YARDSTICKS
