"""What a way of learning is, and what comes out of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from hiddenstate._types import PRNGKeyArray


@dataclass(frozen=True)
class Fit:
    """A learned model, and how it came about.

    `history` has one row per update: step, epoch, loss (nats per step), validation (nats per step, null where
    it was not evaluated) and gradient_norm. `converged` is True only if learning stopped because it no longer
    improved; `reason` says in a sentence why it stopped.
    """

    model: Any
    history: pl.DataFrame
    converged: bool
    reason: str


class Method(ABC):
    """A way of learning. Its instances are settings: small, frozen and without state."""

    learns_pairs: ClassVar[bool] = False
    """Whether it learns models that answer (`ConditionalModel`, from `Pairs`) as well as those of sequences."""

    learns_conditionally: ClassVar[bool] = True
    """Whether it can maximise the likelihood of later steps given the first ones, without that of these."""

    @abstractmethod
    def run(
        self,
        model: Any,
        data: Any,
        *,
        key: PRNGKeyArray,
        validation: Any,
        checkpoint: Path | None,
        progress: bool,
    ) -> Fit:
        """Learn from checked data; `hs.fit` is the way in."""
