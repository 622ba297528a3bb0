"""The loop of updates and evaluations, from one standing to the next."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import ConditionalModel, Pairs, SequenceModel, Sequences
from hiddenstate.learn.chance import learning_key, moment_at
from hiddenstate.learn.checkpoint import Checkpoint
from hiddenstate.learn.course import Course
from hiddenstate.learn.evaluation import nats_per_step
from hiddenstate.learn.history import History
from hiddenstate.learn.method import Fit
from hiddenstate.learn.minibatches import Minibatch, Minibatches
from hiddenstate.learn.progress import Bar
from hiddenstate.learn.standing import Standing
from hiddenstate.learn.updates import Learner


@dataclass(frozen=True)
class Training:
    """One run: what learns, from what, for how long, and where it is written down."""

    model: SequenceModel | ConditionalModel
    learner: Learner
    minibatches: Minibatches
    validation: Sequences | Pairs | None
    course: Course
    checkpoint: Checkpoint
    validation_key: PRNGKeyArray | None = None
    """Where validation data are judged by the objective: the key that it draws from."""

    def run(self, bar: Bar) -> Fit:
        """From the beginning, or from where the checkpoint is, to the end."""
        kept = self.checkpoint.restore(self._start(), self.learner.state)
        if kept is None:
            standing, history = self._first_look(self._start()), History()
            self.checkpoint.save(standing, history)  # a path that cannot be written is known before, not after
        else:
            standing, history = kept
        if standing.verdict is None:
            standing = self._go_on(standing, history, bar)
            self.checkpoint.save(standing, history)
        assert standing.verdict is not None
        model = self.learner.model(standing.best)
        return Fit(model, history.frame(), standing.verdict.converged, standing.verdict.reason)

    def _start(self) -> Standing:
        first = self.learner.initial
        return Standing(first, first, first, self.learner.optimiser_initial)

    def _first_look(self, standing: Standing) -> Standing:
        value = self._validate(standing)
        return standing if value is None else self.course.first_look(standing, value)

    def _go_on(self, standing: Standing, history: History, bar: Bar) -> Standing:
        """Update by update to a verdict; every standing on the way is complete and can be taken up again."""
        course, key = self.course, learning_key(self.minibatches.key)
        try:
            for minibatch in self.minibatches.after(standing.done, course.limits.epochs):
                standing = self._next(standing, minibatch, history, key)
                if course.is_over(standing):
                    break
                self.checkpoint.save_if_due(standing, history)
                bar.show(course.fraction(standing), standing.step, history.last_loss, course.shown(standing))
            if standing.verdict is None and standing.stopping.evaluated < standing.step:
                standing = course.evaluated(standing, self._validate(standing), history)
            return course.out_of_budget(standing)
        except KeyboardInterrupt:
            self.checkpoint.save(standing, history)
            raise

    def _next(self, standing: Standing, minibatch: Minibatch, history: History, key: PRNGKeyArray) -> Standing:
        after = self._update(standing, minibatch, history, key)
        if not self.course.is_due(after, minibatch):
            return after
        return self.course.evaluated(after, self._validate(after), history)

    def _update(self, standing: Standing, minibatch: Minibatch, history: History, key: PRNGKeyArray) -> Standing:
        carried = standing.carried if minibatch.place.chunk else None
        chance: tuple[Any, ...] = ()
        if self.learner.anatomy.draws:
            chance = (moment_at(key, minibatch.place, standing.step),)
        if minibatch.steps == 0:  # nothing but context: the state moves on, and there is nothing to learn from
            _, carried = self.learner.total(standing.learned, minibatch.arrays, carried, *chance)
            return replace(standing, carried=carried, done=minibatch.place)
        outcome = self.learner.update(standing.learned, standing.optimiser, minibatch.arrays, carried, *chance)
        measured = tuple(np.asarray(outcome.measured, np.float64).tolist())
        after = self.course.updated(standing, minibatch, outcome.learned, measured, history)
        carried = outcome.carried if self.minibatches.truncate is not None else None
        return replace(after, optimiser=outcome.optimiser, carried=carried)

    def _validate(self, standing: Standing) -> float | None:
        if self.validation is None:
            return None
        return nats_per_step(
            self.learner, standing.learned, self.model, self.validation, self.minibatches.size, self.validation_key
        )
