"""Expectation maximisation: for every model that can tell what it expects of its hidden states."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, Prior, SequenceModel, Sequences, dtype_of, has, name_of
from hiddenstate.learn import statistics as batch
from hiddenstate.learn.climb import Climb
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.minibatches import even
from hiddenstate.learn.progress import Bar
from hiddenstate.strategies import Auto, Strategy

Start = Literal["given", "kmeans", "random"]

EMPTY = 1e-2
"""A hidden state in which fewer steps than this are expected, of all data together, is empty."""

REPAIRS = 3
"""A run may start empty states anew so many times."""

DECAY = 0.6
"""Minibatch number t weighs (t + 2) ** -DECAY in what is remembered (Cappé and Moulines 2009: between 1/2 and 1)."""

HOTTEST = 100.0
"""The temperature at which annealing starts; what it has above one is halved by every iteration."""

FLOOR = 1e-6
"""Unless told otherwise, no variance falls below this share of the smallest variance of a column."""


@dataclass(frozen=True, kw_only=True)
class EM(Method):
    r"""Expectation maximisation (Dempster, Laird and Rubin 1977): each iteration makes the data more probable.

    An iteration computes what the model expects of the hidden states given the data, and then the parameters that
    are best for that. The log-probability of the data never falls: that is checked, and a run that falls by more than
    rounding stops and says so. It has converged when what is left to gain is less than `tolerance` nats per step, as
    the last two gains foretell (Aitken's extrapolation: one small gain means little where EM is slow). There are at
    most `iterations`.

    **Starts.** The run starts from the model as it is given, or with ``start="kmeans"`` or ``"random"`` from
    parameters made for the data. With `restarts` runs, done side by side, the others start at random, and the best
    wins: by the likelihood, or by the validation data where there are some.

    **Few data.** `pseudocount` is added to every expected count of a probability that may be other than zero; then
    the posterior rises, and the likelihood alone need not. No variance goes below `variance_floor` (by default a
    millionth of the smallest variance of a column). With `repair`, hidden states that no step belongs to any more are
    started anew, three times at most; the best model of the run is kept.

    **Variational EM.** Where the exact posterior is out of reach, as that of an `hs.SwitchingLinearGaussian`, the
    model keeps an approximate one and improves it in every iteration. What never falls is then a bound on the
    log-probability, and the history's `loss` is that of the bound. With `anneal`, so many first iterations believe less
    in what the data say of the regimes, to settle first what all regimes have in common: the log-likelihoods are
    divided by a temperature that starts at 100 and falls by halves to one, in the manner of the deterministic annealing
    of Ghahramani and Hinton (2000). The bound may fall meanwhile.

    **Parts.** `only` names the parts to learn, such as ``("transition",)``; all others stay as they are.

    **Minibatches.** With a `batch_size` the parameters change after every so many sequences, by statistics that
    start with those of all data and then forget: the t-th minibatch weighs :math:`(t+2)^{-0.6}` (Cappé and Moulines
    2009). An iteration is then a pass over the data, the likelihood may fall, and the run has converged when the mean
    loss of a pass changes by less than `tolerance`. Cut one long sequence with ``data.pieces(length)`` first.

    All steps are learned from, also those that are context for others. The history's `loss` is that before the
    update of its row.
    """

    learns_conditionally: ClassVar[bool] = False

    iterations: int = 500
    tolerance: float = 1e-6
    restarts: int = 1
    start: Start = "given"
    pseudocount: float = 0.0
    variance_floor: float | None = None
    only: tuple[str, ...] | None = None
    repair: bool = True
    batch_size: int | None = None
    anneal: int = 0
    strategy: Strategy = field(default_factory=Auto)

    def __post_init__(self):
        for name in ("iterations", "restarts", "batch_size"):
            value = getattr(self, name)
            if (value is not None or name != "batch_size") and not _is_count(value):
                otherwise = " or None" if name == "batch_size" else ""
                raise HiddenStateError(f"{name} is {value!r}; it must be a whole number from 1 on{otherwise}.")
        for name in ("tolerance", "pseudocount", "variance_floor"):
            value = getattr(self, name)
            if (value is not None or name != "variance_floor") and not _is_amount(value):
                otherwise = " or None" if name == "variance_floor" else ""
                raise HiddenStateError(f"{name} is {value!r}; it must be a number, 0 or more{otherwise}.")
        if isinstance(self.anneal, bool) or not isinstance(self.anneal, int | np.integer) or self.anneal < 0:
            raise HiddenStateError(f"anneal is {self.anneal!r}; it must be a whole number of iterations, 0 or more.")
        if self.anneal and self.anneal >= self.iterations:
            raise HiddenStateError(
                f"anneal is {self.anneal}, but iterations is {self.iterations}; some must be left without annealing."
            )
        if self.start not in get_args(Start):
            raise HiddenStateError(f"start is {self.start!r}; it must be one of {', '.join(get_args(Start))}.")
        if isinstance(self.only, str):
            object.__setattr__(self, "only", (self.only,))
        elif self.only is not None:
            object.__setattr__(self, "only", tuple(self.only))
        if not isinstance(self.strategy, Strategy):
            raise HiddenStateError(f"strategy is {self.strategy!r}; it must be an unroll strategy such as hs.Auto().")

    def run(
        self,
        model: SequenceModel,
        data: Sequences,
        *,
        key: PRNGKeyArray,
        validation: Sequences | None,
        checkpoint: Path | None,
        progress: bool,
    ) -> Fit:
        """Learn from checked data; `hs.fit` is the way in."""
        batch.check_learns_by_em(model, "EM")
        self.strategy.check(model)
        if checkpoint is not None:
            raise HiddenStateError("EM keeps no checkpoint; leave out checkpoint, or use hs.SGD().")
        if self.anneal and (not has(model, "variational_statistics") or self.batch_size is not None):
            raise HiddenStateError(
                f"anneal is {self.anneal}, but {name_of(model)} is not learned by variational EM on all data at once; "
                "leave it out."
            )
        start_key, repair_key, order_key = jr.split(key, 3)
        models = batch.stack(self._starts(model, data, start_key))
        checked = self.pseudocount == 0 and self.batch_size is None
        climb = Climb(models, data, validation, self.strategy, self.tolerance, checked)
        prior = self._prior(model, data)
        with Bar(progress) as bar:
            if self.batch_size is None:
                self._whole(climb, data, prior, repair_key, bar)
            else:
                self._minibatches(climb, data, prior, order_key, bar)
        return climb.fit("context" if data.context is not None else "")

    # -- the beginning ---------------------------------------------------------------------------------------

    def _starts(self, model: Any, data: Sequences, key: PRNGKeyArray) -> list[Any]:
        others = ["random"] * (self.restarts - 1)
        if (self.start != "given" or others) and not has(model, "restart"):
            raise HiddenStateError(
                f"{name_of(model)} has no `restart`, so that EM cannot choose where it starts: take restarts=1 and "
                "start='given'."
            )
        keys = jr.split(key, self.restarts)
        told = data[np.flatnonzero(data.lengths)] if (data.lengths == 0).any() else data  # empty ones fill up batches
        return [
            model if how == "given" else model.restart(told, key=own, how=how)
            for how, own in zip([self.start, *others], keys, strict=True)
        ]

    def _prior(self, model: SequenceModel, data: Sequences) -> Prior:
        floor = variance_floor(data) if self.variance_floor is None else self.variance_floor
        dtype = dtype_of(model)
        return Prior(jnp.asarray(self.pseudocount, dtype), jnp.asarray(floor, dtype))

    # -- all data at once ------------------------------------------------------------------------------------

    def _whole(self, climb: Climb, data: Sequences, prior: Prior, key: PRNGKeyArray, bar: Bar) -> None:
        onward, carried = has(climb.models, "variational_statistics"), None
        for iteration in range(1, self.iterations + 2):
            if onward:
                heat = self._temperature(iteration)
                found, totals, carried = batch.expect_onward(climb.models, data, self.strategy, carried, heat)
            else:
                found, totals = batch.expect(climb.models, data, self.strategy)
            if iteration <= self.anneal:
                climb.measure(-totals / data.steps)
            else:
                climb.judge(-totals / data.steps)
            if iteration > self.iterations or not climb.active.any():
                break
            models = batch.maximise(climb.models, found, prior, self.only)
            if self.repair and self.only is None:
                models = self._repaired(climb, models, found, data, jr.fold_in(key, iteration))
            climb.move(models, epoch=iteration)
            bar.show(iteration / self.iterations, iteration, climb.lowest_loss, climb.lowest_validation)

    def _temperature(self, iteration: int) -> float:
        """What the evidence for hidden states is divided by."""
        return 1.0 + (HOTTEST - 1) * 0.5 ** (iteration - 1) if iteration <= self.anneal else 1.0

    def _repaired(self, climb: Climb, models: Any, found: Any, data: Sequences, key: PRNGKeyArray) -> Any:
        occupied = batch.occupancies(models, found)
        if occupied is None:
            return models
        empty = occupied < EMPTY
        for run in np.flatnonzero(empty.any(axis=1) & climb.active & (climb.repairs < REPAIRS)):
            model = batch.pick(models, int(run)).reseed(empty[run], data, key=jr.fold_in(key, int(run)))
            models = batch.put(models, int(run), model)
            climb.repaired(int(run), np.flatnonzero(empty[run]).tolist())
        return models

    # -- minibatches -----------------------------------------------------------------------------------------

    def _minibatches(self, climb: Climb, data: Sequences, prior: Prior, key: PRNGKeyArray, bar: Bar) -> None:
        size = min(self.batch_size or len(data), len(data))
        kept, totals = batch.expect(climb.models, data, self.strategy)  # so that nothing seen later is impossible
        climb.measure(-totals / data.steps)
        step = 0
        for epoch in range(1, self.iterations + 1):
            lost = np.zeros(len(climb.active))
            for part in data.batches(size, key=jr.fold_in(key, epoch)):
                arrays = even(climb.models, part, data, size)._replace(context=None)
                found, log_probs = batch.expect_batch(climb.models, arrays, self.strategy)
                losses = -np.asarray(log_probs, np.float64).sum(axis=1)
                climb.measure(losses / part.steps)
                lost, step = lost + losses, step + 1
                kept = batch.blend(kept, found, (step + 2) ** -DECAY, data.steps / part.steps)
                climb.move(batch.maximise(climb.models, kept, prior, self.only), epoch, validate=False)
            climb.judge_pass(lost / data.steps)
            bar.show(epoch / self.iterations, step, climb.lowest_loss, climb.lowest_validation)
            if not climb.active.any():
                break
        climb.finish()


def variance_floor(data: Sequences) -> float:
    """A small share of the smallest variance of a column: what no variance of a model need go below."""
    seen = data.valid.reshape(*data.shape[:2], *[1] * len(data.event_shape))
    if data.observed is not None:
        seen = seen & data.observed
    table = np.where(np.broadcast_to(seen, data.shape), data.values, np.nan).astype(np.float64)
    columns = table.reshape(-1, math.prod(data.event_shape))
    spread = [float(np.var(c)) for c in (column[~np.isnan(column)] for column in columns.T) if c.size]
    positive = [v for v in spread if v > 0]
    return FLOOR * (min(positive) if positive else 1.0)


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | np.integer) and bool(value >= 1)


def _is_amount(value: Any) -> bool:
    known = not isinstance(value, bool) and isinstance(value, int | float | np.number)
    return known and math.isfinite(value) and bool(value >= 0)
