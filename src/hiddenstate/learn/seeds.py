"""One model from several beginnings, all learned at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import jax
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.core import ConditionalModel, HiddenStateError, SequenceModel, checked_key
from hiddenstate.inference import data_for
from hiddenstate.learn.chance import learning_key, moment_at
from hiddenstate.learn.course import Course
from hiddenstate.learn.evaluation import each_nats_per_step
from hiddenstate.learn.history import History
from hiddenstate.learn.method import Fit
from hiddenstate.learn.minibatches import START, Minibatch, Minibatches
from hiddenstate.learn.progress import Bar
from hiddenstate.learn.sgd import SGD
from hiddenstate.learn.standing import Standing
from hiddenstate.learn.updates import Learner, Learners, Leaves


@dataclass(frozen=True)
class Fits:
    """The same model learned from several beginnings, and how far the results are apart.

    `fits` are what `hs.fit` would have given one by one. `scores` are the nats per step at which each of them was best:
    on the validation data, or without them on the training data. `mean` and `standard_deviation` are those of the
    scores that are finite.
    """

    fits: list[Fit]
    scores: np.ndarray

    @property
    def models(self) -> list[Any]:
        """The learned models."""
        return [fit.model for fit in self.fits]

    @property
    def best(self) -> Fit:
        """The one with the lowest score."""
        return self.fits[int(np.argmin(np.where(np.isfinite(self.scores), self.scores, np.inf)))]

    @cached_property
    def mean(self) -> float:
        """The mean of the scores."""
        return float(self._finite.mean()) if len(self._finite) else float("nan")

    @cached_property
    def standard_deviation(self) -> float:
        """By how much a score varies from one beginning to another."""
        return float(self._finite.std(ddof=1)) if len(self._finite) > 1 else float("nan")

    @property
    def _finite(self) -> np.ndarray:
        return self.scores[np.isfinite(self.scores)]

    def __len__(self) -> int:
        return len(self.fits)

    def __str__(self) -> str:
        spread = f"{self.mean:.4f} nats per step, standard deviation {self.standard_deviation:.4f}"
        lost = len(self) - len(self._finite)
        return f"{len(self)} fits: {spread}" + (f" ({lost} without a finite score left out)" if lost else "")


def fit_seeds(
    make: Callable[[PRNGKeyArray], Any],
    data: Any,
    method: SGD,
    *,
    key: PRNGKeyArray,
    seeds: int = 8,
    validation: Any = None,
    progress: bool = True,
) -> Fits:
    """Learn a model from several beginnings at once: ``hs.fit_seeds(lambda key: hs.build("gru", data, key=key), ...)``.

    ``make(key)`` gives a model, of the same form for every key. All `seeds` of them see the same minibatches (and the
    same masks of dropout) and are updated by one program; each is judged and stopped for itself, and one that diverges
    does not touch the others. With ``build_key, fit_key = jax.random.split(key)`` it is, up to rounding, the same as
    ``hs.fit(make(k), data, method, key=fit_key)`` for every k of ``jax.random.split(build_key, seeds)``.
    """
    if not isinstance(method, SGD):
        raise HiddenStateError(f"the method is {method!r}; hs.fit_seeds takes hs.SGD(...).")
    if isinstance(seeds, bool) or not isinstance(seeds, int | np.integer) or seeds < 1:
        raise HiddenStateError(f"seeds is {seeds!r}; it must be a whole number from 1 on.")
    if not callable(make):
        raise HiddenStateError(
            f"make is a {type(make).__name__}; it must be a function that makes a model from a key, such as "
            "lambda key: hs.build('gru', data, key=key)."
        )
    build_key, fit_key = jr.split(checked_key(key))
    models = [make(k) for k in jr.split(build_key, seeds)]
    first = models[0]
    if not isinstance(first, SequenceModel | ConditionalModel):
        raise HiddenStateError(f"make gives a {type(first).__name__}; it must give a model, such as hs.RNN.")
    data = data_for(first, data)
    validation = None if validation is None else data_for(first, validation)
    method.check(first)
    minibatches = Minibatches(first, data, method.batch_size, method.buckets, method.truncate, fit_key)
    limits = method.limits(minibatches)
    learners = [method.learner(model, minibatches, limits) for model in models]
    _check_alike(learners)
    course = method.course(limits, minibatches, validation is not None)
    training = SeveralTrainings(first, learners, minibatches, validation, course, method.judging_key(fit_key))
    with Bar(progress) as bar:
        return training.run(bar)


def _check_alike(learners: Sequence[Learner]) -> None:
    """Raise HiddenStateError unless all models have one form, so that one program serves them."""

    def form(learner: Learner) -> tuple:
        leaves = jax.tree.leaves((learner.initial, learner.rest_arrays))
        return learner.anatomy, [(leaf.shape, leaf.dtype) for leaf in leaves]

    for number, learner in enumerate(learners):
        if form(learner) != form(learners[0]):
            raise HiddenStateError(
                f"make gives models of different form: that of key {number} differs from the first in its structure, "
                "or in the shapes of its arrays."
            )


class Copy(Sequence[Array]):
    """The arrays of one of several models, cut out of the stack of all only where they are asked for."""

    def __init__(self, stack: Leaves, number: int):
        self._stack, self._number = stack, number

    def __len__(self) -> int:
        return len(self._stack)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> list[Array]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [leaf[self._number] for leaf in self._stack[index]]
        return self._stack[index][self._number]


@dataclass(frozen=True)
class SeveralTrainings:
    """Runs side by side, each with a standing and a history of its own; those without a verdict are at one place."""

    model: Any
    learners: Sequence[Learner]
    minibatches: Minibatches
    validation: Any
    course: Course
    validation_key: PRNGKeyArray | None

    def run(self, bar: Bar) -> Fits:
        """From the beginning to the end of the last of them."""
        together, histories = Learners(self.learners), [History() for _ in self.learners]
        learned, optimiser, carried = together.initial, together.optimiser_initial, None
        runs = self._start(together)
        key, updates = learning_key(self.minibatches.key), 0
        for minibatch in self.minibatches.after(START, self.course.limits.epochs):
            carried = carried if minibatch.place.chunk else None
            moment = moment_at(key, minibatch.place, updates) if together.anatomy.draws else None
            if minibatch.steps == 0:  # nothing but context: the states move on, and there is nothing to learn from
                _, carried = together.total(learned, minibatch.arrays, carried, moment)
                continue
            outcome = together.update(learned, optimiser, minibatch.arrays, carried, moment)
            learned, optimiser, carried = outcome.learned, outcome.optimiser, outcome.carried
            updates += 1
            runs = self._updated(runs, minibatch, learned, np.asarray(outcome.measured, np.float64), histories)
            if any(self.course.is_due(run, minibatch) for run in runs):
                runs = self._evaluated(runs, together, learned, histories)
            if all(self.course.is_over(run) for run in runs):
                break
            self._show(bar, runs, histories)
        if any(run.verdict is None and run.stopping.evaluated < run.step for run in runs):
            runs = self._evaluated(runs, together, learned, histories)
        return self._ended([self.course.out_of_budget(run) for run in runs], histories)

    def _start(self, together: Learners) -> list[Standing]:
        first = [Copy(together.initial, number) for number in range(len(self.learners))]
        runs = [Standing(copy, copy, copy, []) for copy in first]
        values = self._validate(together, together.initial)
        if values is None:
            return runs
        return [self.course.first_look(run, value) for run, value in zip(runs, values, strict=True)]

    def _updated(
        self,
        runs: list[Standing],
        minibatch: Minibatch,
        learned: Leaves,
        measured: np.ndarray,
        histories: list[History],
    ) -> list[Standing]:
        after = []
        for number, (run, history) in enumerate(zip(runs, histories, strict=True)):
            if run.verdict is None:
                loss, norm, fault = measured[number].tolist()
                run = self.course.updated(run, minibatch, Copy(learned, number), (loss, norm, fault), history)
            after.append(run)
        return after

    def _evaluated(
        self, runs: list[Standing], together: Learners, learned: Leaves, histories: list[History]
    ) -> list[Standing]:
        values = self._validate(together, learned) or [None] * len(runs)
        return [
            run if run.verdict is not None else self.course.evaluated(run, value, history)
            for run, value, history in zip(runs, values, histories, strict=True)
        ]

    def _validate(self, together: Learners, learned: Leaves) -> list[float] | None:
        if self.validation is None:
            return None
        return each_nats_per_step(
            together, learned, self.model, self.validation, self.minibatches.size, self.validation_key
        )

    def _show(self, bar: Bar, runs: list[Standing], histories: list[History]) -> None:
        """The mean loss of those that go on, and the best validation of all."""
        going = [number for number, run in enumerate(runs) if run.verdict is None]
        loss = float(np.mean([histories[number].last_loss for number in going]))
        best = [value for value in map(self.course.shown, runs) if value is not None]
        leader = runs[going[0]]
        bar.show(self.course.fraction(leader), leader.step, loss, min(best) if best else None)

    def _ended(self, runs: list[Standing], histories: list[History]) -> Fits:
        fits = []
        for run, learner, history in zip(runs, self.learners, histories, strict=True):
            assert run.verdict is not None
            fits.append(Fit(learner.model(run.best), history.frame(), run.verdict.converged, run.verdict.reason))
        return Fits(fits, np.array([run.stopping.best for run in runs]))
