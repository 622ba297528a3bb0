"""Which model to choose? Candidates, such as numbers of hidden states, judged by AIC, BIC or held-out data."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import jax.random as jr
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import DataError, HiddenStateError, SequenceModel, Sequences, checked_key, has, name_of
from hiddenstate.core.padding import generator, inside
from hiddenstate.core.registry import recipe_named
from hiddenstate.inference import sequences_for
from hiddenstate.learn.compare import default_method, stopping_split
from hiddenstate.learn.criteria import free_parameters, information_criterion, observed_steps
from hiddenstate.learn.em import EM
from hiddenstate.learn.fit import fit
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.scores import Score, score_of, step_nats

Criterion = Literal["bic", "aic", "cv"]

RESTARTS = 5
"""Unless told otherwise EM starts so many times, and the best counts."""

ITERATIONS = 200
"""The most iterations of EM."""


@dataclass(frozen=True)
class Candidate:
    """One model to choose from. `difference` is to the best, in units of the criterion; lower is better.

    `log_prob` and `parameters` are those of the model that was fitted to all data. Only held-out scores (``"cv"``)
    have errors: `criterion_error` is a standard error, and `difference_error` is that of the difference, step by step.
    """

    model: str
    criterion: float
    criterion_error: float | None
    difference: float
    difference_error: float | None
    log_prob: float
    nats_per_step: float
    parameters: int
    converged: bool
    seconds: float
    reason: str


@dataclass(frozen=True)
class Selection:
    """What a selection found: the candidates, best first, each fitted to all data, and how they were judged."""

    criterion: str
    candidates: tuple[Candidate, ...]
    models: dict[str, SequenceModel]
    options: dict[str, dict[str, Any]]
    """What each candidate was made of: the name under ``"model"``, and its options; nothing for a given model."""
    steps: int
    said: str

    @property
    def table(self) -> pl.DataFrame:
        """The candidates as a polars frame, best first."""
        return pl.DataFrame([asdict(row) for row in self.candidates])

    @property
    def chosen(self) -> str:
        """The name of the best candidate."""
        return self.candidates[0].model

    @property
    def best(self) -> SequenceModel:
        """The best candidate, fitted to all data."""
        return self.models[self.chosen]


@dataclass(frozen=True)
class _Entry:
    """A candidate as it was given: how a fresh model is made, and how it learns."""

    label: str
    make: Callable[[Sequences, PRNGKeyArray], SequenceModel]
    name: str | None
    options: dict[str, Any]


def select(
    candidates: Sequence[Any] | Mapping[str, Any],
    data: Any,
    *,
    key: PRNGKeyArray,
    criterion: Criterion = "bic",
    folds: int = 5,
    restarts: int = RESTARTS,
    method: Method | None = None,
    progress: bool = True,
    announce: Callable[[str], None] | None = None,
) -> Selection:
    """Fit several candidates and say which to choose: ``hs.select([("hmm", {"states": k}) for k in (1, 2, 3)], data,
    key=key)``.

    A candidate is a registered name, a pair of name and options, a dictionary of options with the name under
    ``"model"``, or a model, which learning starts from. In a dictionary of candidates the keys are their names.

    **Criteria**, all of which are better when lower. ``"bic"`` and ``"aic"`` are minus twice the log-probability of the
    data plus a price for each free parameter: 2, or the logarithm of the number of steps at which something was
    observed. ``"cv"`` is the cross-validated nats per step: with at least `folds` sequences, whole ones are held out in
    turn; fewer are cut in time into `folds` + 1 parts, and each part but the first is predicted by a model that has
    learned from all before it (rolling origin).

    `method` is how all of them learn. By default that is `hs.EM` with so many `restarts` where a model has
    `expected_statistics`; others learn as in `hs.compare`, a sixth of the data deciding when to stop.
    """
    if criterion not in get_args(Criterion):
        raise HiddenStateError(f"criterion is {criterion!r}; it must be one of {', '.join(get_args(Criterion))}.")
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise HiddenStateError(f"folds is {folds!r}; it must be a whole number from 2 on.")
    entries = _entries(candidates)
    learn = _Learning(method, restarts, progress)
    data = replace(_sequences(data, candidates), context=None)
    keys = jr.split(checked_key(key), 1 + len(entries))
    cut = _Cut(data, folds, keys[0]) if criterion == "cv" else None
    found: dict[str, tuple[Fit, float]] = {}
    nats: dict[str, np.ndarray] = {}
    for entry, own in zip(entries, keys[1:], strict=True):
        if announce is not None:
            announce(entry.label)
        began = time.perf_counter()
        result = learn.fit(entry, data, data, own)
        if cut is not None:
            nats[entry.label] = cut.held_out(entry, own, learn)
        found[entry.label] = result, time.perf_counter() - began
    models = {label: result.model for label, (result, _) in found.items()}
    rows = _judge(found, nats, data, criterion, cut)
    options = {e.label: {} if e.name is None else {"model": e.name, **e.options} for e in entries}
    return Selection(criterion, rows, models, options, observed_steps(data), _said(criterion, data, cut))


# -- candidates ----------------------------------------------------------------------------------------------


def _entries(candidates: Any) -> list[_Entry]:
    if isinstance(candidates, str | SequenceModel):
        candidates = [candidates]
    named = candidates.items() if isinstance(candidates, Mapping) else [(None, given) for given in candidates]
    entries = [_entry(label, given) for label, given in named]
    if not entries:
        raise DataError("there is no candidate to select from; give at least one.")
    entries = [replace(entry, label=entry.label or _label(entry, entries)) for entry in entries]
    counts: dict[str, int] = {}
    for i, entry in enumerate(entries):
        counts[entry.label] = counts.get(entry.label, 0) + 1
        if counts[entry.label] > 1:
            entries[i] = replace(entry, label=f"{entry.label} #{counts[entry.label]}")
    return entries


def _entry(label: str | None, given: Any) -> _Entry:
    if isinstance(given, SequenceModel):
        return _Entry(label or name_of(given), lambda data, key: given, None, {})
    if isinstance(given, str):
        name, options = given, {}
    elif isinstance(given, Mapping) and "model" in given:
        options = dict(given)
        name = options.pop("model")
    elif isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[1], Mapping):
        name, options = given[0], dict(given[1])
    else:
        raise HiddenStateError(
            f"a candidate is {given!r}; it must be a registered name, a pair such as ('hmm', {{'states': 3}}), a "
            "dictionary such as {'model': 'hmm', 'states': 3}, or a model."
        )
    recipe_named(name)
    return _Entry(label or "", lambda data, key: build(name, data, key=key, **options), name, options)


def _label(entry: _Entry, entries: list[_Entry]) -> str:
    """The name with the options that tell it from others; what all candidates share goes without saying."""
    alike = [other for other in entries if other.name is not None]
    said = [
        f"{option}={value}"
        for option, value in entry.options.items()
        if len(alike) == 1 or any(repr(other.options.get(option)) != repr(value) for other in alike)
    ]
    return f"{entry.name} ({', '.join(said)})" if said else str(entry.name)


def _sequences(data: Any, candidates: Any) -> Sequences:
    listed = candidates.values() if isinstance(candidates, Mapping) else candidates
    model = next((given for given in listed if isinstance(given, SequenceModel)), None)
    return Sequences.of(data) if model is None else sequences_for(model, data)


# -- learning ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Learning:
    """How candidates learn."""

    method: Method | None
    restarts: int
    progress: bool

    def fit(self, entry: _Entry, data: Sequences, padded: Sequences, key: PRNGKeyArray) -> Fit:
        """A candidate fitted to `data`; `padded` are the same, in arrays of one shape for all folds."""
        build_key, split_key, fit_key = jr.split(key, 3)
        model, method = entry.make(data, build_key), self.method
        if method is None and has(model, "expected_statistics"):
            method = EM(iterations=ITERATIONS, restarts=self.restarts if has(model, "restart") else 1)
        if method is not None:
            given = padded if isinstance(method, EM) else data
            return fit(model, given, method, key=fit_key, progress=self.progress)
        train, validation = stopping_split(data, split_key)
        chosen, train = default_method(entry.name, train)
        return fit(model, train, chosen, key=fit_key, validation=validation, progress=self.progress)


# -- cross-validation ----------------------------------------------------------------------------------------


class _Cut:
    """Data in folds: which steps of which sequences are learned from, and which are then predicted."""

    def __init__(self, data: Sequences, folds: int, key: PRNGKeyArray):
        self.data, self.folds = data, folds
        self.whole = len(data) >= folds
        if self.whole:
            self.member = generator(key).permutation(np.arange(len(data)) % folds)
        elif data.lengths.min() <= folds:
            raise DataError(
                f"folds is {folds}, but the shortest of {len(data)} sequences has {data.lengths.min()} steps: give "
                "fewer folds, or more or longer sequences."
            )
        else:
            self.edges = np.round(np.arange(1, folds + 2)[:, None] * data.lengths / (folds + 1)).astype(int)

    @property
    def scored(self) -> Sequences:
        """The data, with all that is never predicted as context."""
        return self.data if self.whole else self.data.after(self.edges[0])

    def held_out(self, entry: _Entry, key: PRNGKeyArray, learn: _Learning) -> np.ndarray:
        """-log p of every step under a model that has not learned from it, (sequence, time)."""
        nats = np.zeros(self.data.shape[:2])
        for fold, own in enumerate(jr.split(key, self.folds)):
            train, padded, held = self._fold(fold)
            model = learn.fit(entry, train, padded, own).model
            nats = np.where(held, step_nats(model, self.data), nats)
        return nats

    def _fold(self, fold: int) -> tuple[Sequences, Sequences, np.ndarray]:
        """What is learned from, the same within arrays of the shape of all data, and which steps are predicted."""
        time = np.arange(self.data.length)
        if self.whole:
            out = self.member == fold
            held = out[:, None] & self.data.valid
            return self.data[np.flatnonzero(~out)], ended(self.data, np.where(out, 0, self.data.lengths)), held
        start, stop = self.edges[fold], self.edges[fold + 1]
        held = (time >= start[:, None]) & (time < stop[:, None])
        return self.data.window(0, start), ended(self.data, start), held


def ended(data: Sequences, lengths: np.ndarray) -> Sequences:
    """The first steps of every sequence, perhaps none, in arrays that keep their shape."""
    real = inside(lengths, data.length)
    spread = real.reshape(*real.shape, *[1] * len(data.event_shape))
    values = np.where(spread, data.values, np.zeros((), data.values.dtype))
    inputs = None if data.inputs is None else np.where(real[..., None], data.inputs, 0.0)
    observed = None if data.observed is None else data.observed | ~spread
    return replace(data, values=values, lengths=np.asarray(lengths, np.int64), inputs=inputs, observed=observed)


# -- judging -------------------------------------------------------------------------------------------------


def _judge(
    found: Mapping[str, tuple[Fit, float]],
    nats: Mapping[str, np.ndarray],
    data: Sequences,
    criterion: str,
    cut: _Cut | None,
) -> tuple[Candidate, ...]:
    log_probs = {label: -float(step_nats(result.model, data).sum()) for label, (result, _) in found.items()}
    counts = {label: free_parameters(result.model) for label, (result, _) in found.items()}
    scores: dict[str, Score] = {}
    if cut is not None:
        scores = {label: score_of(nats[label], cut.scored) for label in found}
        values = {label: scores[label].nats_per_step for label in found}
    else:
        steps = observed_steps(data)
        values = {label: information_criterion(criterion, log_probs[label], counts[label], steps) for label in found}
    order = sorted(found, key=lambda label: (not np.isfinite(values[label]), values[label]))
    rows = []
    for label in order:
        result, seconds = found[label]
        apart = None if cut is None else score_of(nats[label] - nats[order[0]], cut.scored)
        rows.append(
            Candidate(
                model=label,
                criterion=values[label],
                criterion_error=scores[label].standard_error if scores else None,
                difference=values[label] - values[order[0]] if label != order[0] else 0.0,
                difference_error=None if apart is None else apart.standard_error,
                log_prob=log_probs[label],
                nats_per_step=-log_probs[label] / data.steps,
                parameters=counts[label],
                converged=result.converged,
                seconds=seconds,
                reason=result.reason,
            )
        )
    return tuple(rows)


def _said(criterion: str, data: Sequences, cut: _Cut | None) -> str:
    """How the candidates were judged, in a sentence."""
    if cut is None:
        said = "minus twice the log-probability of all data plus"
        if criterion == "aic":
            return f"AIC: {said} 2 for each free parameter."
        return f"BIC: {said} log n for each free parameter, n = {observed_steps(data)} steps."
    if cut.whole:
        return f"cross-validation: nats per step of whole sequences, held out in {cut.folds} folds."
    return (
        f"rolling origin: nats per step of each of the last {cut.folds} of {cut.folds + 1} parts in time, given what "
        "came before, by a model that learned from that."
    )
