"""Stochastic gradient descent on the log-probability: for every model."""

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import optax

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import (
    ConditionalModel,
    HiddenStateError,
    Pairs,
    SequenceModel,
    Sequences,
    dtype_of,
    name_of,
    partition,
)
from hiddenstate.learn.chance import validation_key
from hiddenstate.learn.checkpoint import Checkpoint, identity_of
from hiddenstate.learn.course import Course, Limits
from hiddenstate.learn.digest import digest_of
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.minibatches import Minibatches
from hiddenstate.learn.objectives import Objective, TeacherForcing
from hiddenstate.learn.optimisers import adam, decayed_arrays, rising_and_falling
from hiddenstate.learn.progress import Bar
from hiddenstate.learn.training import Training
from hiddenstate.learn.updates import Learner
from hiddenstate.strategies import Auto, Strategy

_EPOCHS = 100
_STEPS = 1000
_RATE = 1e-2
_CHOICES = {"decay": ("cosine", None), "validate": ("log_prob", "objective"), "precision": ("mixed", None)}


@dataclass(frozen=True, kw_only=True)
class SGD(Method):
    r"""Gradient steps on minibatches; the loss is :math:`-\log p` per time step (of targets, in pairs), in nats.

    **Budget.** At most `epochs` passes over the data or `steps` updates, whichever comes first. If neither is
    given it is 100 epochs, or on small data as many as make 1000 updates. It stops sooner when `patience`
    evaluations in a row have not improved by more than `tolerance` nats per step: on the validation data, or
    without them on the mean training loss since the evaluation before. It evaluates every `evaluate_every`
    epochs or every `evaluate_steps` updates; if neither is given, at the end of an epoch once there have been
    10 updates since the last time.

    **Update.** Minibatches of `batch_size` sequences, sorted into `buckets` by length. Gradients are cut off at
    ±`clip_value`, number by number, and scaled down to the norm `clip` (None: never), in this order. With `truncate`
    the gradient flows back through that many steps only: chunks of a minibatch are taken in order, each one an update,
    with the state carried over (truncated backpropagation through time).

    **Optimiser.** Adam with `learning_rate`, a number or an optax schedule. A number can be reached in `warmup` updates
    and fall from there as a cosine to zero at the end of the planned updates (``decay="cosine"``). `weight_decay` is
    decoupled from the gradient (Loshchilov and Hutter 2019) and takes arrays of two or more axes: no biases, and no
    initial states. `optimiser` is any other optax transformation, which has all of these in itself.

    **Objective.** What is made more probable, one of `hs.objectives`: by default each observation given the true past.
    Validation data are judged by their log-probability, or with ``validate="objective"`` by the objective at the end of
    its schedule. Dropout and other noise is on in updates only, and drawn from the key.

    With ``precision="mixed"`` the operands of matrix products in updates are rounded to bfloat16 and summed in float32;
    all else, and every evaluation, stays in float32.

    `strategy` says how the model runs over time. A checkpoint, if there is one, is written every
    `checkpoint_every` seconds.
    """

    learns_pairs: ClassVar[bool] = True

    epochs: int | None = None
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float | optax.Schedule = _RATE
    warmup: int = 0
    decay: Literal["cosine"] | None = None
    weight_decay: float = 0.0
    optimiser: optax.GradientTransformation | None = None
    clip: float | None = 1.0
    clip_value: float | None = None
    truncate: int | None = None
    objective: Objective = field(default_factory=TeacherForcing)
    validate: Literal["log_prob", "objective"] = "log_prob"
    precision: Literal["mixed"] | None = None
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
        if self.warmup != 0:
            _check_count("warmup", self.warmup, " or 0")
        if not callable(self.learning_rate):
            _check_number("learning_rate", self.learning_rate, "a positive number or an optax schedule")
        for name in ("clip", "clip_value"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), "a positive number or None")
        for name in ("tolerance", "checkpoint_every", "weight_decay"):
            _check_number(name, getattr(self, name), "a number, 0 or more", zero=True)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                said = " or ".join(map(repr, choices))
                raise HiddenStateError(f"{name} is {getattr(self, name)!r}; it must be {said}.")
        if not isinstance(self.strategy, Strategy):
            raise HiddenStateError(f"strategy is {self.strategy!r}; it must be an unroll strategy such as hs.Auto().")
        if not isinstance(self.objective, Objective):
            raise HiddenStateError(
                f"objective is {self.objective!r}; it must be one of hs.objectives, such as "
                "hs.objectives.TeacherForcing()."
            )
        self._check_optimiser()

    def _check_optimiser(self) -> None:
        """Raise HiddenStateError where a setting of the optimiser would be ignored."""
        shaped = [name for name in ("warmup", "decay") if getattr(self, name)]
        if callable(self.learning_rate) and shaped:
            raise HiddenStateError(
                f"learning_rate is a schedule already; leave out {' and '.join(shaped)}, or give a number."
            )
        if self.optimiser is None:
            return
        if not isinstance(self.optimiser, optax.GradientTransformation):
            raise HiddenStateError(f"optimiser is {self.optimiser!r}; it must be an optax transformation.")
        if self.learning_rate != _RATE:
            raise HiddenStateError("give learning_rate or an optimiser, which has its own learning rate, but not both.")
        ignored = [*shaped, *(["weight_decay"] if self.weight_decay else [])]
        if ignored:
            raise HiddenStateError(
                f"{' and '.join(ignored)} would be ignored: an optimiser that is given has its own. Put them into it, "
                "or leave the optimiser out."
            )

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
        self.check(model)
        minibatches = Minibatches(model, data, self.batch_size, self.buckets, self.truncate, key)
        limits = self.limits(minibatches)
        learner = self.learner(model, minibatches, limits)
        identity = identity_of(model, data, validation, key, self._settings(learner)) if checkpoint else {}
        kept = Checkpoint(checkpoint, identity, self.checkpoint_every)
        course = self.course(limits, minibatches, validation is not None)
        training = Training(model, learner, minibatches, validation, course, kept, self.judging_key(key))
        with Bar(progress) as bar:
            return training.run(bar)

    def check(self, model: SequenceModel | ConditionalModel) -> None:
        """Raise HiddenStateError if `model` cannot be learned with these settings."""
        if isinstance(model, SequenceModel):
            self.strategy.check(model)
        elif self.truncate is not None:
            raise HiddenStateError(
                f"truncate is {self.truncate}, but {name_of(model)} answers with all of a source in view: its pairs "
                "cannot be cut in time. Leave truncate out."
            )
        self.objective.check(model, self.strategy)
        if self.precision == "mixed" and dtype_of(model) != np.float32:
            raise HiddenStateError(
                f"precision is 'mixed', but {name_of(model)} computes in {dtype_of(model)}; cast it by "
                "hs.cast(model, 'float32'), or leave precision out."
            )

    def limits(self, minibatches: Minibatches) -> Limits:
        """The budget on these data."""
        epochs = self.epochs
        if epochs is None and self.steps is None:
            epochs = max(_EPOCHS, math.ceil(_STEPS / minibatches.per_epoch))
        return Limits(epochs, self.steps, self.patience, self.tolerance, self.evaluate_every, self.evaluate_steps)

    def learner(self, model: SequenceModel | ConditionalModel, minibatches: Minibatches, limits: Limits) -> Learner:
        """The model taken apart, with the optimiser for a run of that length."""
        learner = Learner(
            model,
            self._optimiser(model, minibatches, limits),
            strategy=self.strategy,
            clip=self.clip,
            clip_value=self.clip_value,
            objective=self.objective,
            mixed=self.precision == "mixed",
        )
        if not learner.initial:
            raise HiddenStateError(
                f"{name_of(model)} has no floating-point arrays that are not frozen: nothing to learn."
            )
        return learner

    def course(self, limits: Limits, minibatches: Minibatches, validated: bool) -> Course:
        """How a run goes on."""
        return Course(limits, validated, self.objective.steady, minibatches.per_epoch)

    def judging_key(self, key: PRNGKeyArray) -> PRNGKeyArray | None:
        """What the objective draws from where it judges validation data."""
        return validation_key(key) if self.validate == "objective" else None

    def _optimiser(self, model: Any, minibatches: Minibatches, limits: Limits) -> optax.GradientTransformation:
        if self.optimiser is not None:
            return self.optimiser
        rate: Any = self.learning_rate
        if self.warmup or self.decay:
            planned = minibatches.updates(limits.epochs, limits.steps) if self.decay else None
            rate = rising_and_falling(rate, self.warmup, planned)
        return adam(rate, self.weight_decay, decayed_arrays(model, partition(model)[0]) if self.weight_decay else ())

    def _settings(self, learner: Learner) -> dict[str, str]:
        """What bears on the result, as text.

        A function is known by what it does: a schedule by its values, an optimiser by its first updates.
        """
        settings = {f.name: repr(getattr(self, f.name)) for f in fields(self) if f.name != "checkpoint_every"}
        settings["objective"] = self.objective.mark()
        if callable(self.learning_rate):
            settings["learning_rate"] = digest_of([self.learning_rate(np.int32(10**i // 10)) for i in range(9)])
        if self.optimiser is not None:
            settings["optimiser"] = digest_of(learner.probe())
        return settings


def _check_count(name: str, value: Any, otherwise: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise HiddenStateError(f"{name} is {value!r}; it must be a whole number from 1 on{otherwise}.")


def _check_number(name: str, value: Any, takes: str, *, zero: bool = False) -> None:
    known = not isinstance(value, bool) and isinstance(value, int | float | np.number)
    if not known or math.isnan(value) or value < 0 or (value == 0 and not zero):
        raise HiddenStateError(f"{name} is {value!r}; it must be {takes}.")
