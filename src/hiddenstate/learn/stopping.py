"""When to stop: the best value so far, and how long it has stood."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Stopping:
    """What early stopping remembers of the evaluations.

    `best` is the lowest value and `best_step` when it was; `reference` is the value from which an improvement
    by more than the tolerance counts, and `waited` how many evaluations have passed since there was one.
    `first` and `evaluated` are the steps of the first and the last evaluation.
    """

    best: float = math.inf
    best_step: int = 0
    reference: float = math.inf
    waited: int = 0
    first: int | None = None
    evaluated: int = 0

    def seen(self, value: float, step: int, tolerance: float) -> "Stopping":
        """The memory after one more evaluation; a value that is no number is no improvement."""
        after = replace(self, waited=self.waited + 1, evaluated=step, first=step if self.first is None else self.first)
        if value < self.best:
            after = replace(after, best=value, best_step=step)
        if value < self.reference - tolerance:
            after = replace(after, reference=value, waited=0)
        return after

    @property
    def improved(self) -> bool:
        """Whether any evaluation was better than the first."""
        return self.best_step != (self.first or 0)
