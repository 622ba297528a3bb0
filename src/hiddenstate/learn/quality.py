"""How good answers are in a word that everybody knows: the share that is right, or the squared error."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Pairs, has
from hiddenstate.inference import generate
from hiddenstate.learn.evaluate import Classified, evaluate

Measure = Literal["accuracy", "exact match", "squared error"]


@dataclass(frozen=True)
class Quality:
    """One number and what it measures: the share of answers that are right, or their mean squared error."""

    measure: Measure
    value: float

    def reaches(self, threshold: float) -> bool:
        """Whether it is as good as that: a share above it, an error below it."""
        return self.value < threshold if self.measure == "squared error" else self.value > threshold


def quality_of(model: Any, pairs: Pairs, *, key: PRNGKeyArray) -> Quality | None:
    """How good a model's answers to pairs are; None where they have several columns.

    Answers of single steps are judged one by one: symbols by how many are right, numbers by the squared error of the
    mean. Answers that are written step by step are right if all of their symbols are.
    """
    if not has(model, "answers"):
        return Quality("exact match", exact_match(model, pairs)) if pairs.targets.schema.kind == "symbol" else None
    found = evaluate(model, pairs, key=key, n=2)
    if len(found.columns) != 1:
        return None
    if isinstance(found.only, Classified):
        return Quality("accuracy", float(found.only.accuracy[0]))
    return Quality("squared error", float(found.only.rmse[0]) ** 2)


def exact_match(model: Any, pairs: Pairs) -> float:
    """The share of pairs whose whole target is what the model writes, the likeliest symbol at each step."""
    lengths = pairs.targets.lengths if model.stop_symbol is None else None
    written = generate(model, pairs.sources, length=lengths).sequences
    right = [np.array_equal(mine, theirs) for mine, theirs in zip(written, pairs.targets, strict=True)]
    return float(np.mean(right))
