"""The course of a run: from what was measured to where it stands next, when to look, when to stop, and what to say."""

import math
from dataclasses import dataclass, replace

from hiddenstate.learn.history import History
from hiddenstate.learn.minibatches import Minibatch
from hiddenstate.learn.standing import Standing, Verdict
from hiddenstate.learn.updates import FAULTS, Leaves

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
class Course:
    """How a run goes on; it computes nothing itself, so that one run or many at once follow it."""

    limits: Limits
    validated: bool
    """Whether validation data decide, and not the training loss."""
    steady: bool
    """Whether losses compare: where they do not and nothing else decides, the last model is the one."""
    per_epoch: int

    def first_look(self, standing: Standing, value: float) -> Standing:
        """The validation of the model as it was given, which is the first to beat."""
        return replace(standing, stopping=replace(standing.stopping.seen(value, 0, self.limits.tolerance), waited=0))

    # -- one update ------------------------------------------------------------------------------------------

    def updated(
        self,
        standing: Standing,
        minibatch: Minibatch,
        learned: Leaves,
        measured: tuple[float, float, float],
        history: History,
    ) -> Standing:
        """After an update with these learned arrays, whose loss, gradient norm and fault were measured."""
        loss, norm, fault = measured
        step = standing.step + 1
        history.add(step, minibatch.place.epoch + 1, loss, norm)
        total, steps = standing.window
        after = replace(
            standing,
            learned=learned,
            measured=standing.learned,
            done=minibatch.place,
            step=step,
            window=(total + loss * minibatch.steps, steps + minibatch.steps),
        )
        return self._stopped(standing, after, FAULTS[int(fault)]) if fault else after

    def _stopped(self, before: Standing, after: Standing, fault: str) -> Standing:
        """The run ends at a number that is not finite, with the last arrays that were good."""
        good = before.measured if fault == "loss" else before.learned
        kept = "the last one with a finite loss"
        if self.validated:
            kept = "the one with the best validation"
        elif fault == "loss" and before.step == 0:
            kept = "the one it started from"
        place = f"step {after.step} (epoch {after.done.epoch + 1})"
        reason = f"the {fault} was not finite at {place}; the model is {kept}."
        best = before.best if self.validated else good
        return replace(after, best=best, verdict=Verdict(False, reason))

    # -- evaluation ------------------------------------------------------------------------------------------

    def is_due(self, standing: Standing, minibatch: Minibatch) -> bool:
        """Whether it is time to evaluate."""
        since = standing.step - standing.stopping.evaluated
        if since == 0 or standing.verdict is not None:
            return False
        if self.limits.evaluate_steps is not None:
            return standing.step % self.limits.evaluate_steps == 0
        if self.limits.evaluate_every is not None:
            return minibatch.ends_epoch and (minibatch.place.epoch + 1) % self.limits.evaluate_every == 0
        return minibatch.ends_epoch and since >= FEW_UPDATES

    def evaluated(self, standing: Standing, value: float | None, history: History) -> Standing:
        """After an evaluation; the `value` on validation data decides, or without them the mean loss since the last."""
        if value is None:
            value, candidate = standing.window[0] / standing.window[1], standing.measured
        else:
            candidate = standing.learned
            history.evaluate(standing.step, value)
        stopping = standing.stopping.seen(value, standing.step, self.limits.tolerance)
        best = candidate if stopping.best_step == standing.step else standing.best
        after = replace(standing, best=best, window=(0.0, 0), stopping=stopping)
        patience = self.limits.patience if self._decides else None
        if patience is None or stopping.waited < patience:
            return after
        if not stopping.improved:
            start = "the model it started from" if self.validated else "the first evaluation"
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

    def is_over(self, standing: Standing) -> bool:
        """Whether it has a verdict, or has made all its steps."""
        return standing.verdict is not None or standing.step == self.limits.steps

    def out_of_budget(self, standing: Standing) -> Standing:
        """The verdict on a run that went on to its end and has been evaluated there."""
        if standing.verdict is not None:
            return standing
        stopping = standing.stopping
        ran = "step" if standing.step == self.limits.steps else "epoch"
        number = self.limits.steps if ran == "step" else self.limits.epochs
        all_of_it = f"its only {ran}" if number == 1 else f"all {number} {ran}s"
        if not self._decides:
            said = "what was learned changed on the way, so that losses do not compare: the model is the last one"
        elif stopping.waited == 0 and stopping.improved:
            said = f"{self._watched} was still improving"
        elif stopping.improved:
            said = f"{self._watched} was best at step {stopping.best_step} ({stopping.best:.4f} nats per step)"
        elif self.validated:
            said = "the validation was never better than that of the model it started from"
        else:
            said = "the training loss was not seen to improve"
        newest = not self.validated and (stopping.best_step == standing.step or not self.steady)
        best = standing.learned if newest else standing.best
        return replace(standing, best=best, verdict=Verdict(False, f"ran {all_of_it}; {said}."))

    def fraction(self, standing: Standing) -> float:
        """How much of the budget is used up."""
        done = standing.done.epoch + (standing.done.batch + 1) / self.per_epoch
        parts = [done / self.limits.epochs] if self.limits.epochs else []
        parts += [standing.step / self.limits.steps] if self.limits.steps else []
        return max(parts)

    def shown(self, standing: Standing) -> float | None:
        """The best validation so far, where there is one to show."""
        best = standing.stopping.best
        return best if self.validated and math.isfinite(best) else None

    @property
    def _decides(self) -> bool:
        return self.validated or self.steady

    @property
    def _watched(self) -> str:
        return "the validation" if self.validated else "the training loss"
