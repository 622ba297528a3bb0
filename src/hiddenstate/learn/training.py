"""The loop of updates and evaluations, from one standing to the next."""

import math
from dataclasses import dataclass, replace

import numpy as np

from hiddenstate.core import ConditionalModel, Pairs, SequenceModel, Sequences
from hiddenstate.learn.checkpoint import Checkpoint
from hiddenstate.learn.evaluation import nats_per_step
from hiddenstate.learn.history import History
from hiddenstate.learn.method import Fit
from hiddenstate.learn.minibatches import Minibatch, Minibatches
from hiddenstate.learn.progress import Bar
from hiddenstate.learn.standing import Standing, Verdict
from hiddenstate.learn.updates import FAULTS, Learner

FEW_UPDATES = 10
"""Unless told otherwise, fewer updates than this are too few to judge by."""


@dataclass(frozen=True)
class Limits:
    """When to look and when to stop."""

    epochs: int | None
    steps: int | None
    patience: int | None
    tolerance: float
    evaluate_every: int | None
    evaluate_steps: int | None


@dataclass(frozen=True)
class Training:
    """One run: what learns, from what, for how long, and where it is written down."""

    model: SequenceModel | ConditionalModel
    learner: Learner
    minibatches: Minibatches
    validation: Sequences | Pairs | None
    limits: Limits
    checkpoint: Checkpoint

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
        """With validation data, the model as it was given is the first to beat."""
        if self.validation is None:
            return standing
        value = self._validate(standing)
        return replace(standing, stopping=replace(standing.stopping.seen(value, 0, self.limits.tolerance), waited=0))

    def _go_on(self, standing: Standing, history: History, bar: Bar) -> Standing:
        """Update by update to a verdict; every standing on the way is complete and can be taken up again."""
        per_epoch = self.minibatches.per_epoch
        try:
            for minibatch in self.minibatches.after(standing.done, self.limits.epochs):
                standing = self._next(standing, minibatch, history)
                if standing.verdict is not None or standing.step == self.limits.steps:
                    break
                self.checkpoint.save_if_due(standing, history)
                best = standing.stopping.best
                shown = None if self.validation is None or not math.isfinite(best) else best
                bar.show(self._fraction(standing, per_epoch), standing.step, history.last_loss, shown)
            return standing if standing.verdict is not None else self._out_of_budget(standing, history)
        except KeyboardInterrupt:
            self.checkpoint.save(standing, history)
            raise

    def _next(self, standing: Standing, minibatch: Minibatch, history: History) -> Standing:
        after = self._update(standing, minibatch, history)
        due = after.verdict is None and self._is_due(after, minibatch)
        return self._evaluate(after, history) if due else after

    # -- one update ------------------------------------------------------------------------------------------

    def _update(self, standing: Standing, minibatch: Minibatch, history: History) -> Standing:
        carried = standing.carried if minibatch.place.chunk else None
        if minibatch.steps == 0:  # nothing but context: the state moves on, and there is nothing to learn from
            _, carried = self.learner.total(standing.learned, minibatch.arrays, carried)
            return replace(standing, carried=carried, done=minibatch.place)
        outcome = self.learner.update(standing.learned, standing.optimiser, minibatch.arrays, carried)
        loss, norm, fault = np.asarray(outcome.measured, np.float64).tolist()
        step = standing.step + 1
        history.add(step, minibatch.place.epoch + 1, loss, norm)
        total, steps = standing.window
        after = replace(
            standing,
            learned=outcome.learned,
            measured=standing.learned,
            optimiser=outcome.optimiser,
            carried=outcome.carried if self.minibatches.truncate is not None else None,
            done=minibatch.place,
            step=step,
            window=(total + loss * minibatch.steps, steps + minibatch.steps),
        )
        return self._stopped(standing, after, FAULTS[int(fault)]) if fault else after

    def _stopped(self, before: Standing, after: Standing, fault: str) -> Standing:
        """The run ends at a number that is not finite, with the last arrays that were good."""
        good = before.measured if fault == "loss" else before.learned
        kept = "the last one with a finite loss"
        if self.validation is not None:
            kept = "the one with the best validation"
        elif fault == "loss" and before.step == 0:
            kept = "the one it started from"
        place = f"step {after.step} (epoch {after.done.epoch + 1})"
        reason = f"the {fault} was not finite at {place}; the model is {kept}."
        best = before.best if self.validation is not None else good
        return replace(after, best=best, verdict=Verdict(False, reason))

    # -- evaluation ------------------------------------------------------------------------------------------

    def _is_due(self, standing: Standing, minibatch: Minibatch) -> bool:
        since = standing.step - standing.stopping.evaluated
        if since == 0:
            return False
        if self.limits.evaluate_steps is not None:
            return standing.step % self.limits.evaluate_steps == 0
        if self.limits.evaluate_every is not None:
            return minibatch.ends_epoch and (minibatch.place.epoch + 1) % self.limits.evaluate_every == 0
        return minibatch.ends_epoch and since >= FEW_UPDATES

    def _validate(self, standing: Standing) -> float:
        assert self.validation is not None
        return nats_per_step(self.learner, standing.learned, self.model, self.validation, self.minibatches.size)

    def _evaluate(self, standing: Standing, history: History) -> Standing:
        """The value that decides: on validation data, or without them the mean loss since the last time."""
        if self.validation is None:
            value, candidate = standing.window[0] / standing.window[1], standing.measured
        else:
            value, candidate = self._validate(standing), standing.learned
            history.evaluate(standing.step, value)
        stopping = standing.stopping.seen(value, standing.step, self.limits.tolerance)
        best = candidate if stopping.best_step == standing.step else standing.best
        after = replace(standing, best=best, window=(0.0, 0), stopping=stopping)
        if self.limits.patience is None or stopping.waited < self.limits.patience:
            return after
        if not stopping.improved:
            start = "the model it started from" if self.validation is not None else "the first evaluation"
            reason = (
                f"{self._watched} was no better than at {start} for {stopping.waited} evaluations: either "
                "that is the optimum already, or the learning rate is too high."
            )
            return replace(after, verdict=Verdict(False, reason))
        reason = (
            f"{self._watched} has not improved by more than {self.limits.tolerance:g} nats per step for "
            f"{stopping.waited} evaluations; it was best at step {stopping.best_step} ({stopping.best:.4f})."
        )
        return replace(after, verdict=Verdict(True, reason))

    # -- the end ---------------------------------------------------------------------------------------------

    @property
    def _watched(self) -> str:
        return "the training loss" if self.validation is None else "the validation"

    def _fraction(self, standing: Standing, per_epoch: int) -> float:
        done = standing.done.epoch + (standing.done.batch + 1) / per_epoch
        parts = [done / self.limits.epochs] if self.limits.epochs else []
        parts += [standing.step / self.limits.steps] if self.limits.steps else []
        return max(parts)

    def _out_of_budget(self, standing: Standing, history: History) -> Standing:
        if standing.stopping.evaluated < standing.step:
            standing = self._evaluate(standing, history)
        if standing.verdict is not None:
            return standing
        stopping = standing.stopping
        ran = "steps" if standing.step == self.limits.steps else "epochs"
        number = self.limits.steps if ran == "steps" else self.limits.epochs
        if stopping.waited == 0 and stopping.improved:
            said = f"{self._watched} was still improving"
        elif stopping.improved:
            said = f"{self._watched} was best at step {stopping.best_step} ({stopping.best:.4f} nats per step)"
        elif self.validation is not None:
            said = "the validation was never better than that of the model it started from"
        else:
            said = "the training loss was not seen to improve"
        newest = self.validation is None and stopping.best_step == standing.step
        best = standing.learned if newest else standing.best
        return replace(standing, best=best, verdict=Verdict(False, f"ran all {number} {ran}; {said}."))
