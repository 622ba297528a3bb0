"""Several runs of EM side by side: where each stands, which is best, and when each is done."""

from typing import Any

import numpy as np
import polars as pl

from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, dtype_of, name_of
from hiddenstate.inference import refuse_impossible
from hiddenstate.learn import statistics as batch
from hiddenstate.learn.history import History
from hiddenstate.learn.method import Fit
from hiddenstate.strategies import Strategy

_BLIND = 25
"""So many iterations in a row that gain no more than rounding end a run."""

_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


class Climb:
    """Runs of EM as one stack of models, with all that is decided about each of them.

    `checked` says whether the likelihood must never fall.
    """

    def __init__(
        self,
        models: SequenceModel,
        data: Sequences,
        validation: Sequences | None,
        strategy: Strategy,
        tolerance: float,
        checked: bool,
    ):
        self.models: Any = models
        self.best: Any = models
        self._data, self._validation, self._strategy = data, validation, strategy
        self._tolerance, self._checked = tolerance, checked
        count = batch.count_of(models)
        self.active = np.ones(count, bool)
        self.repairs = np.zeros(count, int)
        self._steps = np.zeros(count, int)
        self._best_step = np.zeros(count, int)
        self._best_value = np.full(count, np.inf)
        self._loss = np.full(count, np.nan)
        self._gain = np.full(count, np.nan)
        self._gain_before = np.full(count, np.nan)
        self._blind = np.zeros(count, int)
        self._passes = np.full(count, np.inf)
        self._excused = np.zeros(count, bool)
        self._converged = np.zeros(count, bool)
        self._reasons = [""] * count
        self._notes: list[list[str]] = [[] for _ in range(count)]
        self._histories = [History() for _ in range(count)]
        self._precision = float(np.finfo(dtype_of(models)).eps)
        self._rounding = self._precision**0.75
        if validation is not None:
            self._look()

    # -- one model after the other ---------------------------------------------------------------------------

    def measure(self, losses: np.ndarray) -> None:
        """The losses of the models as they are, in nats per step; runs whose loss is not finite end."""
        bad = self.active & ~np.isfinite(losses)
        if bad.all() and not self._steps.any():
            refuse_impossible(batch.pick(self.models, 0), self._data, self._strategy)
            raise HiddenStateError(
                f"the log-probability of the data is {-losses[0]} under the {name_of(self.models)} that EM starts "
                "from; it must be finite."
            )
        for run in np.flatnonzero(bad):
            self._stop(run, f"the likelihood was not finite after {_iterations(self._steps[run])}")
        self._gain = self._loss - losses
        self._loss = np.where(self.active, losses, self._loss)

    def judge(self, losses: np.ndarray) -> None:
        """What the losses of the models say of each run: whether it rises, has converged, or has fallen."""
        self.measure(losses)
        slack = self._rounding * (1 + np.abs(losses))
        for run in np.flatnonzero(self.active & ~self._excused & np.isfinite(self._gain)):
            step, gain = int(self._steps[run]), float(self._gain[run])
            if self._checked and gain < -slack[run]:
                self._stop(
                    run,
                    f"the likelihood fell by {-gain:.3g} nats per step at iteration {step}, which is more than "
                    f"rounding; the model is the one before it",
                )
            elif (gain if self._checked else abs(gain)) < self._tolerance:
                self._judge_end(run, step, gain)
        self._gain_before = self._gain
        self._excused[:] = False
        if self._validation is None:
            self._keep(losses)

    def _judge_end(self, run: Any, step: int, gain: float) -> None:
        """Whether a run with a small gain is done. EM is slow where much is hidden: small gains may add up to much.

        What is left is what it would gain if its gains went on to shrink as the last two did (Aitken). A gain within
        rounding says nothing, so that the run goes on a while before it ends.
        """
        if gain <= self._precision * (1 + abs(self._loss[run])):
            self._blind[run] += 1
            if self._tolerance > 0 and self._blind[run] < _BLIND:
                return
            said = f"the last {_iterations(self._blind[run])} gained no more than rounding"
        else:
            self._blind[run] = 0
            before = float(self._gain_before[run])
            if not gain < before or gain * gain / (before - gain) >= self._tolerance:
                return
            said = f"after iteration {step} less than {self._tolerance:g} nats per step were left to gain"
        self._converged[run] = True
        self._stop(run, said)

    def judge_pass(self, losses: np.ndarray) -> None:
        """The same for the mean loss of a pass of minibatches, which may fall."""
        before, self._passes = self._passes, losses
        if self._validation is not None:
            self._look()
        for run in np.flatnonzero(self.active & (np.abs(before - losses) < self._tolerance)):
            self._converged[run] = True
            self._stop(run, f"the mean loss of a pass changed by less than {self._tolerance:g} nats per step")

    def move(self, models: Any, epoch: int, validate: bool = True) -> None:
        """The runs that are not done go on to new models."""
        self.models = batch.where(self.active, models, self.models)
        for run in np.flatnonzero(self.active):
            self._steps[run] += 1
            self._histories[run].add(int(self._steps[run]), epoch, float(self._loss[run]), np.nan)
        if validate and self._validation is not None:
            self._look()

    def repaired(self, run: int, states: list[int]) -> None:
        """Empty states of a run were started anew: its likelihood may fall once."""
        self.repairs[run] += 1
        self._excused[run] = True
        named = f"state {states[0]} was" if len(states) == 1 else f"states {', '.join(map(str, states))} were"
        self._notes[run].append(f"{named} empty and started anew at iteration {self._steps[run] + 1}")

    def finish(self) -> None:
        """After the last minibatch: the likelihood of all data decides between the runs."""
        if self._validation is None:
            self.best = self.models
            self._best_step = self._steps.copy()
            self._best_value = batch.nats_per_step(self.models, self._data, self._strategy)

    # -- what is best ----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Validate the models as they are; that of the one a run starts from is the first to beat."""
        assert self._validation is not None
        values = batch.nats_per_step(self.models, self._validation, self._strategy)
        for run in np.flatnonzero(self.active & (self._steps > 0)):
            self._histories[run].evaluate(int(self._steps[run]), float(values[run]))
        self._keep(values)

    def _keep(self, values: np.ndarray) -> None:
        better = np.isfinite(values) & (values < self._best_value)
        if self._validation is None:  # a gain within rounding is none, but the later model has converged further
            better |= self._converged & (self._best_step == self._steps - 1) & np.isfinite(values)
        if better.any():
            self.best = batch.where(better, self.models, self.best)
            self._best_value = np.where(better, np.minimum(values, self._best_value), self._best_value)
            self._best_step = np.where(better, self._steps, self._best_step)

    @property
    def lowest_loss(self) -> float:
        """The lowest loss of all runs, for the progress bar."""
        return float(np.nanmin(self._loss))

    @property
    def lowest_validation(self) -> float | None:
        """The lowest validation of all runs, where there are validation data."""
        return None if self._validation is None else float(np.nanmin(self._best_value))

    # -- the end ---------------------------------------------------------------------------------------------

    def _stop(self, run: Any, reason: str) -> None:
        self.active[run] = False
        self._reasons[run] = reason

    def fit(self, note: str = "") -> Fit:
        """The best run: its model, its history, and why it ended."""
        if not np.isfinite(self._best_value).any():  # validation data that are impossible under every model
            self.best, self._best_step = self.models, self._steps
            won = int(np.nanargmin(self._loss))
        else:
            won = int(np.argmin(self._best_value))
        frame = self._histories[won].frame().with_columns(pl.lit(None, pl.Float64).alias("gradient_norm"))
        reason = self._reasons[won] or self._out_of_budget(won)
        if self._validation is not None:
            reason += (
                f"; the validation was best after {_iterations(self._best_step[won])} ({self._best_value[won]:.4f})"
            )
        for said in self._notes[won]:
            reason += f"; {said}"
        count = len(self.active)
        if count > 1:
            reason += f"; the {_ordinal(won + 1)} of {count} starts was the best, {self._converged.sum()} converged"
        if note:
            reason += f"; all steps were learned from, also the {note}"
        return Fit(batch.pick(self.best, won), frame, bool(self._converged[won]), reason + ".")

    def _out_of_budget(self, run: int) -> str:
        if np.isfinite(self._passes[run]):
            return f"ran all passes, {int(self._steps[run])} updates; the mean loss of a pass was still changing"
        gained = f"gained {self._gain[run]:.2g}" if self._gain[run] >= 0 else f"lost {-self._gain[run]:.2g}"
        return f"ran all {_iterations(self._steps[run])}; the last still {gained} nats per step"


def _iterations(count: Any) -> str:
    return f"{int(count)} iteration{'' if count == 1 else 's'}"


def _ordinal(number: int) -> str:
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else _ORDINALS.get(number % 10, 'th')}"
