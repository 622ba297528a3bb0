"""Which model predicts best? Several are fitted to a part of the data and scored on the rest."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from types import MappingProxyType
from typing import Any

import jax.random as jr
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build, recipe_names
from hiddenstate.core import (
    DataError,
    MissingDataError,
    Pairs,
    Sequences,
    has,
    key_for,
    parameter_count,
    recipe_named,
)
from hiddenstate.learn.em import EM
from hiddenstate.learn.fit import fit
from hiddenstate.learn.lbfgs import LBFGS
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.quality import Quality, quality_of
from hiddenstate.learn.scores import score_of, step_nats
from hiddenstate.learn.sgd import SGD

WHOLE = 10
"""From so many sequences on whole ones are held out; fewer are cut in time."""

PIECE = 256
"""Longer sequences are learned from in pieces of so many steps (and scored whole)."""

SPLIT = (0.7, 0.15)
"""The parts for learning and for early stopping; the rest is held out."""

MANY = 50_000
"""From so many steps on EM starts three times, instead of twenty times."""

UPDATES = 1500
"""The most updates that a model gets where no number of epochs is given."""


@dataclass(frozen=True)
class Contender:
    """How a model takes part in a comparison: how it learns, and for which kinds of data it is a default."""

    method: Method | None = None
    """None: stochastic gradient steps, with a budget that fits the data."""
    baseline: bool = False
    kinds: tuple[str, ...] = ("real", "count", "bit", "symbol", "mixed")
    default: bool = True
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Options of the recipe that are not its defaults."""
    sized: bool = True
    """Whether the recipe is told the sizes of the comparison that it takes, `hidden` or `states`."""
    gaps: bool = False
    """Whether it can do without missing observations; others take no part where some are missing."""
    answers: bool = False
    """Whether it is a default where answers are asked for, not predictions."""


_EM = EM(iterations=300, restarts=20)
_BASELINE = Contender(method=LBFGS(), baseline=True, sized=False)

CONTENDERS: dict[str, Contender] = {
    "unigram": _BASELINE,
    "last": replace(_BASELINE, kinds=("real", "count", "bit", "symbol")),
    "bigram": replace(_BASELINE, kinds=("symbol",)),
    "ar1": replace(_BASELINE, kinds=("real", "count", "bit", "mixed")),
    "majority": replace(_BASELINE, kinds=(), answers=True),
    "vanilla": Contender(answers=True),
    "leaky": Contender(),
    "gru": Contender(answers=True),
    "lstm": Contender(answers=True),
    "mingru": Contender(answers=True),
    "minlstm": Contender(answers=True),
    "linear": Contender(),
    "turning": Contender(default=False),
    "multi-particle": Contender(default=False),
    "noisy": Contender(default=False, gaps=True),
    "hmm": Contender(method=_EM, gaps=True),
    "switch-copy": Contender(method=_EM, default=False, gaps=True),
    "hamilton": Contender(method=_EM, kinds=("real",), default=False, sized=False),
    "slds": Contender(method=EM(iterations=100, restarts=5), kinds=("real",), default=False, sized=False, gaps=True),
    "linear-gaussian": Contender(method=EM(iterations=200, tolerance=1e-5), kinds=("real",), sized=False, gaps=True),
}
"""Who takes part: a model joins the comparison by one entry here. Others run if they are named."""


@dataclass(frozen=True)
class Row:
    """One model in the table. `difference` is to the best, paired step by step.

    `above_optimal` is how many nats per step it needs more than the best possible prediction, where that is known.
    Where answers are asked for, `quality` says how good they are in the unit of `measure`: a share that is right, or a
    squared error; `solved` whether that is good enough, where a task says what is.
    """

    model: str
    nats_per_step: float
    standard_error: float
    difference: float
    difference_error: float
    parameters: int
    seconds: float
    converged: bool
    reason: str
    baseline: bool
    above_optimal: float | None = None
    quality: float | None = None
    measure: str | None = None
    solved: bool | None = None


@dataclass(frozen=True)
class Comparison:
    """What a comparison found: a table, best first, and everything behind it."""

    rows: tuple[Row, ...]
    models: dict[str, Any]
    histories: dict[str, pl.DataFrame]
    train: Any
    test: Any
    step_nats: dict[str, np.ndarray]
    split: str
    optimal_nats: np.ndarray | None = None
    """-log p of every held-out step under the best possible prediction, where that is known."""
    seed_scores: dict[str, np.ndarray] | None = None
    """The nats per step from every seed, where models were learned from several: rows are then means over seeds."""

    @property
    def optimal_nats_per_step(self) -> float | None:
        """What the best possible prediction needs, in nats per step, where that is known."""
        return None if self.optimal_nats is None else score_of(self.optimal_nats, self.test).nats_per_step

    def frame(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return pl.DataFrame([asdict(row) for row in self.rows])


@dataclass(frozen=True)
class Parts:
    """What is learned from, what decides when to stop, what is held out, and a sentence on how they were chosen."""

    train: Any
    validation: Any
    test: Any
    said: str


def default_models(data: Sequences | Pairs) -> tuple[str, ...]:
    """The models that a comparison on these data runs if none are named.

    Where values are missing, only those that can do without them.
    """
    known = recipe_names()
    if isinstance(data, Pairs):
        if not (data.single or data.aligned):
            return ("encoder-decoder",)
        return tuple(n for n, c in CONTENDERS.items() if c.answers and n in known)
    fitting = tuple(n for n, c in CONTENDERS.items() if c.default and n in known and data.schema.kind in c.kinds)
    return tuple(n for n in fitting if CONTENDERS[n].gaps) if data.has_missing else fitting


def compare(
    data: Any,
    models: Sequence[str] | None = None,
    *,
    key: PRNGKeyArray,
    hidden: int = 32,
    states: int = 5,
    epochs: int | None = None,
    optimal: Any = None,
    progress: bool = True,
    announce: Callable[[str], None] | None = None,
    given: int = 0,
) -> Comparison:
    """Fit several models, by their registered names, to a part of the data and rank them by how they predict the rest.

    70% of the data are learned from, 15% decide when to stop, 15% are held out and scored in nats per step: whole
    sequences where there are ten or more, otherwise the last part of each, scored given its past. Networks have
    `hidden` units, Markov models `states` hidden states. A model's score does not depend on which others are compared.
    `announce` is called with the name of each model before it is fitted.

    Where the data were drawn from a known model, `optimal` is what knows it, such as the `hs.tasks.hmm` that they came
    from: its ``optimal(data).step_log_probs`` are the best predictions there are, and the table says how far each model
    is above them.

    Of `Pairs`, models are compared by how they answer: nats per step of the targets, and how many are right.

    With `given`, the first so many steps of each sequence are read and not scored, in learning and in the table: all
    models are judged by their conditional likelihood. EM, which cannot leave steps out, still learns from all.
    """
    data = data if isinstance(data, Pairs) else Sequences.of(data)
    named = [models] if isinstance(models, str) else models
    names = default_models(data) if named is None else tuple(dict.fromkeys(named))
    for name in names:
        recipe_named(name)
        if not isinstance(data, Pairs) and data.has_missing and not CONTENDERS.get(name, Contender(gaps=True)).gaps:
            able = ", ".join(n for n, c in CONTENDERS.items() if c.gaps)
            raise MissingDataError(
                f"the data have missing values, which {name!r} cannot take; compare models that can: {able}."
            )
    if not names:
        raise DataError("there is no model to compare; name at least one.")
    split_key, models_key = jr.split(key)
    parts = _given(_split(data, split_key), given)
    sizes = {"hidden": hidden, "states": states}
    found: dict[str, tuple[Fit, float]] = {}
    for name in names:
        if announce is not None:
            announce(name)
        began = time.perf_counter()
        found[name] = _fit(name, parts, key_for(name, models_key), sizes, epochs, progress), time.perf_counter() - began
    return ranked(found, parts, optimal, key=split_key)


def ranked(
    found: dict[str, tuple[Fit, float]],
    parts: Parts,
    optimal: Any = None,
    *,
    key: PRNGKeyArray,
    threshold: float | None = None,
) -> Comparison:
    """The comparison of fits, each with the seconds that it took, on what was held out.

    A `threshold` says which quality of answers counts as solved.
    """
    nats = {name: step_nats(result.model, parts.test) for name, (result, _) in found.items()}
    best = None if optimal is None else _optimal_nats(optimal, parts.test)
    qualities: dict[str, Quality | None] = dict.fromkeys(found)
    if isinstance(parts.test, Pairs):
        qualities = {name: quality_of(result.model, parts.test, key=key) for name, (result, _) in found.items()}
    return Comparison(
        _rank(found, nats, parts.test, best, qualities, threshold),
        {name: result.model for name, (result, _) in found.items()},
        {name: result.history for name, (result, _) in found.items()},
        parts.train,
        parts.test,
        nats,
        parts.said,
        best,
    )


def _split(data: Sequences | Pairs, key: PRNGKeyArray) -> Parts:
    if len(data) >= WHOLE or isinstance(data, Pairs):
        train, validation, test = data.split(*SPLIT, key=key)
        said = f"{len(train)} sequences to learn from, {len(validation)} to stop by, {len(test)} held out."
        return Parts(train, validation, test, said)
    train, validation, test = data.split_time(*SPLIT, context=True)
    said = (
        f"each sequence cut in time: {train.steps} steps to learn from, {validation.scored_steps} to stop by, the last "
        f"{test.scored_steps} held out and scored given their past."
    )
    return Parts(train, validation, test, said)


def _given(parts: Parts, steps: int) -> Parts:
    """The parts with the first steps of each sequence as context."""
    if not steps:
        return parts
    if isinstance(parts.train, Pairs):
        raise DataError(f"given is {steps}, but pairs are compared by their answers; only sequences have first steps.")
    train, validation, test = (part.given(steps) for part in (parts.train, parts.validation, parts.test))  # pyright: ignore[reportAttributeAccessIssue]
    return Parts(train, validation, test, f"{parts.said[:-1]}; {given_words(steps)}.")


def given_words(steps: int) -> str:
    """What it means that so many steps are given, for people."""
    return f"the first {'step' if steps == 1 else f'{steps} steps'} of each sequence read, not scored"


def _fit(
    name: str, parts: Parts, key: PRNGKeyArray, sizes: Mapping[str, int], epochs: int | None, progress: bool
) -> Fit:
    contender = CONTENDERS.get(name, Contender())
    build_key, fit_key = jr.split(key)
    taken = {option: size for option, size in sizes.items() if contender.sized and takes(name, option)}
    model = build(name, parts.train, key=build_key, **{**taken, **contender.options})
    method, train = default_method(name, parts.train, epochs, model)
    return fit(model, train, method, key=fit_key, validation=parts.validation, progress=progress)


def takes(name: str, option: str) -> bool:
    """Whether the recipe of that name has such an option."""
    return option in signature(recipe_named(name)).parameters


def default_method(name: str | None, train: Any, epochs: int | None = None, model: Any = None) -> tuple[Method, Any]:
    """How a model learns unless it is said otherwise, and the data in the form that this takes.

    Gradients of long sequences are taken piece by piece; EM takes them whole.
    """
    contender = CONTENDERS.get(name or "", Contender())
    method = contender.method or (_EM if model is not None and has(model, "expected_statistics") else None)
    if isinstance(method, EM):
        most = method.restarts if train.steps < MANY else 3
        restarts = min(method.restarts, most) if model is not None and has(model, "restart") else 1
        return replace(method, restarts=restarts), train
    if not isinstance(train, Pairs) and train.length > 2 * PIECE:
        train = train.pieces(PIECE)
    return method or _budget(train, epochs), train


def stopping_split(data: Sequences, key: PRNGKeyArray) -> tuple[Sequences, Sequences]:
    """What is learned from, and what decides when to stop."""
    share = SPLIT[0] / sum(SPLIT)
    return data.split(share, key=key) if len(data) >= WHOLE else data.split_time(share, context=True)  # pyright: ignore[reportReturnType]


def _optimal_nats(optimal: Any, test: Sequences | Pairs) -> np.ndarray:
    """-log p of every held-out step under what knows the model, zero where a step does not count."""
    nats = -np.asarray(optimal.optimal(test).step_log_probs, np.float64)
    shape = (test.targets if isinstance(test, Pairs) else test).shape[:2]
    if nats.shape != shape:
        raise DataError(f"optimal gives step_log_probs of shape {nats.shape}; they must be {shape}.")
    if isinstance(test, Pairs):
        return np.where(test.scored, nats, 0.0)
    starts = np.zeros(len(test), int) if test.context is None else test.context
    return np.where(test.valid & (np.arange(test.length) >= starts[:, None]), nats, 0.0)


def _budget(train: Sequences | Pairs, epochs: int | None) -> SGD:
    """Gradient steps with a budget that fits the data: by updates, so that one short sequence is not starved."""
    size = 32
    per_epoch = -(-len(train) // size)
    steps = UPDATES if epochs is None else epochs * per_epoch
    return SGD(steps=steps, batch_size=size, learning_rate=5e-3, evaluate_steps=max(10, per_epoch // 2), patience=20)


def _rank(
    found: dict[str, tuple[Fit, float]],
    nats: dict[str, np.ndarray],
    test: Sequences | Pairs,
    best: np.ndarray | None,
    qualities: dict[str, Quality | None],
    threshold: float | None,
) -> tuple[Row, ...]:
    scores = {name: score_of(nats[name], test) for name in found}
    order = sorted(found, key=lambda name: (not np.isfinite(scores[name].nats_per_step), scores[name].nats_per_step))
    rows = []
    for name in order:
        result, seconds = found[name]
        apart = score_of(nats[name] - nats[order[0]], test)
        quality = qualities[name]
        rows.append(
            Row(
                model=name,
                nats_per_step=scores[name].nats_per_step,
                standard_error=scores[name].standard_error,
                difference=apart.nats_per_step,
                difference_error=apart.standard_error,
                parameters=parameter_count(result.model),
                seconds=seconds,
                converged=result.converged,
                reason=result.reason,
                baseline=CONTENDERS.get(name, Contender()).baseline,
                above_optimal=None if best is None else score_of(nats[name] - best, test).nats_per_step,
                quality=None if quality is None else quality.value,
                measure=None if quality is None else quality.measure,
                solved=None if quality is None or threshold is None else quality.reaches(threshold),
            )
        )
    return tuple(rows)
