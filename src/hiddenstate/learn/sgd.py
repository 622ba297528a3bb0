"""Stochastic gradient descent on the log-probability: for every model."""

import math
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import optax

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import ConditionalModel, HiddenStateError, Pairs, SequenceModel, Sequences, name_of
from hiddenstate.learn.checkpoint import Checkpoint, digest_of, identity_of
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.minibatches import Minibatches
from hiddenstate.learn.progress import Bar
from hiddenstate.learn.training import Limits, Training
from hiddenstate.learn.updates import Learner
from hiddenstate.strategies import Auto, Strategy

_EPOCHS = 100
_STEPS = 1000
_RATE = 1e-2


@dataclass(frozen=True, kw_only=True)
class SGD(Method):
    r"""Gradient steps on minibatches; the loss is :math:`-\log p` per time step (of targets, in pairs), in nats.

    **Budget.** At most `epochs` passes over the data or `steps` updates, whichever comes first. If neither is
    given it is 100 epochs, or on small data as many as make 1000 updates. It stops sooner when `patience`
    evaluations in a row have not improved by more than `tolerance` nats per step: on the validation data, or
    without them on the mean training loss since the evaluation before. It evaluates every `evaluate_every`
    epochs or every `evaluate_steps` updates; if neither is given, at the end of an epoch once there have been
    10 updates since the last time.

    **Update.** Minibatches of `batch_size` sequences, sorted into `buckets` by length. `optimiser` is any
    optax transformation; without one it is Adam with `learning_rate`, a number or an optax schedule.
    Gradients are scaled down to the norm `clip` (None: never). With `truncate` the gradient flows back
    through that many steps only: chunks of a minibatch are taken in order, each one an update, with the state
    carried over (truncated backpropagation through time).

    `strategy` says how the model runs over time. A checkpoint, if there is one, is written every
    `checkpoint_every` seconds.
    """

    learns_pairs: ClassVar[bool] = True

    epochs: int | None = None
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float | optax.Schedule = _RATE
    optimiser: optax.GradientTransformation | None = None
    clip: float | None = 1.0
    truncate: int | None = None
    buckets: int = 4
    patience: int | None = 10
    tolerance: float = 1e-4
    evaluate_every: int | None = None
    evaluate_steps: int | None = None
    strategy: Strategy = field(default_factory=Auto)
    checkpoint_every: float = 30.0

    def __post_init__(self):
        for name in ("batch_size", "buckets"):
            _check_count(name, getattr(self, name))
        for name in ("epochs", "steps", "truncate", "patience", "evaluate_every", "evaluate_steps"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), " or None")
        if not callable(self.learning_rate):
            _check_number("learning_rate", self.learning_rate, "a positive number or an optax schedule")
        if self.clip is not None:
            _check_number("clip", self.clip, "a positive number or None")
        for name in ("tolerance", "checkpoint_every"):
            _check_number(name, getattr(self, name), "a number, 0 or more", zero=True)
        if not isinstance(self.strategy, Strategy):
            raise HiddenStateError(f"strategy is {self.strategy!r}; it must be an unroll strategy such as hs.Auto().")
        if self.optimiser is None:
            return
        if not isinstance(self.optimiser, optax.GradientTransformation):
            raise HiddenStateError(f"optimiser is {self.optimiser!r}; it must be an optax transformation.")
        if self.learning_rate != _RATE:
            raise HiddenStateError("give learning_rate or an optimiser, which has its own learning rate, but not both.")

    def run(
        self,
        model: SequenceModel | ConditionalModel,
        data: Sequences | Pairs,
        *,
        key: PRNGKeyArray,
        validation: Sequences | Pairs | None,
        checkpoint: Path | None,
        progress: bool,
    ) -> Fit:
        """Learn from checked data; `hs.fit` is the way in."""
        if isinstance(model, SequenceModel):
            self.strategy.check(model)
        elif self.truncate is not None:
            raise HiddenStateError(
                f"truncate is {self.truncate}, but {name_of(model)} answers with all of a source in view: its pairs "
                "cannot be cut in time. Leave truncate out."
            )
        optimiser = _adam(self.learning_rate) if self.optimiser is None else self.optimiser
        learner = Learner(model, optimiser, strategy=self.strategy, clip=self.clip)
        if not learner.initial:
            raise HiddenStateError(
                f"{name_of(model)} has no floating-point arrays that are not frozen: nothing to learn."
            )
        identity = identity_of(model, data, validation, key, self._settings(learner)) if checkpoint else {}
        minibatches = Minibatches(model, data, self.batch_size, self.buckets, self.truncate, key)
        epochs = self.epochs
        if epochs is None and self.steps is None:
            epochs = max(_EPOCHS, math.ceil(_STEPS / minibatches.per_epoch))
        limits = Limits(epochs, self.steps, self.patience, self.tolerance, self.evaluate_every, self.evaluate_steps)
        kept = Checkpoint(checkpoint, identity, self.checkpoint_every)
        training = Training(model, learner, minibatches, validation, limits, kept)
        with Bar(progress) as bar:
            return training.run(bar)

    def _settings(self, learner: Learner) -> dict[str, str]:
        """What bears on the result, as text.

        A function is known by what it does: a schedule by its values, an optimiser by its first updates.
        """
        settings = {f.name: repr(getattr(self, f.name)) for f in fields(self) if f.name != "checkpoint_every"}
        if callable(self.learning_rate):
            settings["learning_rate"] = digest_of([self.learning_rate(np.int32(10**i // 10)) for i in range(9)])
        if self.optimiser is not None:
            settings["optimiser"] = digest_of(learner.probe())
        return settings


@lru_cache(maxsize=64)
def _adam(learning_rate: float | optax.Schedule) -> optax.GradientTransformation:
    """The same object for the same rate, so that runs share compiled updates."""
    return optax.adam(learning_rate)


def _check_count(name: str, value: Any, otherwise: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise HiddenStateError(f"{name} is {value!r}; it must be a whole number from 1 on{otherwise}.")


def _check_number(name: str, value: Any, takes: str, *, zero: bool = False) -> None:
    known = not isinstance(value, bool) and isinstance(value, int | float | np.number)
    if not known or math.isnan(value) or value < 0 or (value == 0 and not zero):
        raise HiddenStateError(f"{name} is {value!r}; it must be {takes}.")
