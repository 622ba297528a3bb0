"""How good a model's probabilities are on data: accuracy and calibration, or CRPS and coverage."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.random as jr
import numpy as np
import polars as pl
from numpyro.distributions import Distribution

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import (
    Column,
    ConditionalModel,
    DataError,
    HiddenStateError,
    Pairs,
    SequenceModel,
    Sequences,
    checked_key,
    dtype_of,
    has,
    name_of,
)
from hiddenstate.inference import data_for, predictive, prototype, states
from hiddenstate.inference.simulate import check_counts, forecast_from
from hiddenstate.learn.judging import Drawn, Judged, Numbers, Symbols, judge, pick
from hiddenstate.learn.metrics import LEVELS, Reliability, accuracy, brier, coverage, log_loss, reliability
from hiddenstate.learn.scores import Score, score_of, step_nats
from hiddenstate.strategies import Auto, Strategy

DRAWS_AT_ONCE = 2**23
"""So many numbers are drawn at a time, so that memory stays bounded."""


@dataclass(frozen=True, eq=False)
class Classified:
    """How well the symbols of a column were predicted; each array has one entry for each number of steps ahead.

    `accuracy` is the share whose symbol had the highest probability (to be compared with `most_frequent`, the share
    of the symbol that is seen most often), `log_loss` is in nats, `brier` lies between 0 and 2, and `reliability` says
    how often predictions of each confidence were right.
    """

    accuracy: np.ndarray
    log_loss: np.ndarray
    brier: np.ndarray
    reliability: tuple[Reliability, ...]
    most_frequent: np.ndarray
    counts: np.ndarray

    @property
    def calibration_error(self) -> np.ndarray:
        """The expected calibration error."""
        return np.array([one.error for one in self.reliability])


@dataclass(frozen=True, eq=False)
class Predicted:
    """How well the numbers of a column were predicted; each array has one entry for each number of steps ahead.

    `crps` is the continuous ranked probability score and, like `rmse` (of the predicted mean) and `mae` (of the
    predicted median), has the unit of the data. `coverage` maps the level of a central interval to the share of
    observations that fell into it; `pit`, one array for each number of steps ahead, says where each observation lay
    in its prediction.
    """

    crps: np.ndarray
    rmse: np.ndarray
    mae: np.ndarray
    coverage: dict[float, np.ndarray]
    pit: tuple[np.ndarray, ...]
    counts: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How good a model's probabilities are: its `score`, and for each of the `columns` what fits its kind.

    `unjudged` names the columns of which nothing can be judged, as all of it is missing.
    """

    score: Score
    columns: dict[str, Classified | Predicted]
    horizon: int
    unjudged: tuple[str, ...] = ()

    @property
    def only(self) -> Classified | Predicted:
        """That of the only column there is."""
        if not self.columns:
            raise HiddenStateError(
                "nothing was judged step by step: answers that are written one after the other have a score only; "
                "hs.generate writes them."
            )
        if len(self.columns) != 1:
            raise HiddenStateError(f"there are {len(self.columns)} columns; take one of .columns by its name.")
        return next(iter(self.columns.values()))

    def __repr__(self) -> str:
        """The score, and a line for each column and each number of steps ahead."""
        lines = [str(self.score)]
        for row in self.frame().iter_rows(named=True):
            ahead = f", {row['ahead']} ahead" if self.horizon > 1 else ""
            measures = {name: value for name, value in row.items() if name not in ("column", "ahead", "count")}
            said = ", ".join(f"{name} {value:.4g}" for name, value in measures.items() if value is not None)
            lines.append(f"{row['column']}{ahead}: {said.replace('_', ' ')}")
        return "\n".join([*lines, *(f"{name}: not judged" for name in self.unjudged)])

    def frame(self) -> pl.DataFrame:
        """A row for each column and each number of steps ahead."""
        rows = []
        for name, found in self.columns.items():
            for i in range(self.horizon):
                row: dict[str, Any] = {"column": name, "ahead": i + 1, "count": int(found.counts[i])}
                if isinstance(found, Classified):
                    row |= {m: float(getattr(found, m)[i]) for m in ("accuracy", "log_loss", "brier")}
                    row["calibration_error"] = float(found.calibration_error[i])
                else:
                    row |= {m: float(getattr(found, m)[i]) for m in ("crps", "rmse", "mae")}
                    row |= {f"within_{level:.0%}": float(shares[i]) for level, shares in found.coverage.items()}
                rows.append(row)
        return pl.concat([pl.DataFrame(row) for row in rows], how="diagonal") if rows else pl.DataFrame()


def evaluate(
    model: SequenceModel | ConditionalModel,
    data: Any,
    *,
    key: PRNGKeyArray,
    horizon: int = 1,
    n: int = 200,
    origins: int = 200,
    bins: int = 10,
    strategy: Strategy = Auto(),
    given: int = 0,
) -> Evaluation:
    """How good a model's predictions are, each step from those before it; or its answers, where it answers.

    Symbols and bits are judged as classes: accuracy, log-loss, Brier score, and calibration in `bins` of confidence.
    Numbers are judged by CRPS and by how many fall into central intervals of 50, 80 and 95%: in closed form where the
    prediction is Gaussian or a mixture of at most 32 such, otherwise from `n` samples. Steps at which a model has no
    proper prediction, as at a diffuse start, are left out; `counts` says how many were judged.

    With a `horizon` above 1 the predictions are forecasts of so many steps, from `n` sampled futures after each of at
    most `origins` steps, spread evenly over the data; inputs of the steps to come are those of the data. With `given`,
    at least the first so many steps of each sequence are context: they are read and not judged.

    >>> hs.evaluate(model, data, key=key).only.accuracy  # doctest: +SKIP
    array([0.93])
    """
    check_counts(horizon=horizon, n=n, origins=origins, bins=bins)
    if n < 2:
        raise DataError(f"n is {n}; from a single sample nothing can be judged.")
    data = data_for(model, data, given)
    score = score_of(step_nats(model, data, strategy=strategy), data)
    key = checked_key(key)
    targets = data.targets if isinstance(data, Pairs) else data
    if isinstance(data, Pairs):
        if horizon > 1:
            raise DataError(f"horizon is {horizon}, but {name_of(model)} answers what it reads: it has no steps ahead.")
        judged = [_answers(model, data, key, n, strategy)] if has(model, "answers") else []
    elif horizon == 1:
        judged = [_next_steps(model, data, key, n, strategy)]
    else:
        judged = _ahead(model, data, key, horizon, n, origins, strategy)  # pyright: ignore[reportArgumentType]
    by_column = dict(zip(targets.schema.columns, zip(*judged, strict=True), strict=True)) if judged else {}
    seen = {column: steps for column, steps in by_column.items() if any(map(len, steps))} or by_column
    columns = {column.name: _column(steps, column, bins) for column, steps in seen.items()}
    unjudged = tuple(column.name for column in by_column if column.name not in columns)
    return Evaluation(score, columns, horizon, unjudged)


# -- what is judged ------------------------------------------------------------------------------------------


def _next_steps(model: Any, data: Sequences, key: PRNGKeyArray, n: int, strategy: Strategy) -> list[Judged]:
    """Every step that counts, predicted from those before it."""
    starts = np.zeros(len(data), int) if data.context is None else data.context
    counted = _known(data) & (np.arange(data.length) >= starts[:, None])
    return _judge_all(predictive(model, data, strategy=strategy), data, counted, key, n)


def _answers(model: Any, data: Pairs, key: PRNGKeyArray, n: int, strategy: Strategy) -> list[Judged]:
    """Every answer that is known."""
    return _judge_all(predictive(model, data, strategy=strategy), data.targets, data.scored, key, n)


def _known(data: Sequences) -> np.ndarray:
    """A boolean array (sequence, time): True at real steps of which something was observed."""
    if data.observed is None:
        return data.valid
    return data.valid & data.observed.reshape(*data.valid.shape, -1).any(axis=-1)


def _judge_all(
    predicted: Distribution, data: Sequences, counted: np.ndarray, key: PRNGKeyArray, n: int
) -> list[Judged]:
    """The cases that count, judged a part at a time."""
    rows = np.flatnonzero(counted)
    if not len(rows):
        raise DataError("there is nothing to judge: every observation is missing.")
    values = data.values.reshape(-1, *data.event_shape)[rows]
    parts = max(1, -(-len(rows) * n * max(1, int(np.prod(data.event_shape))) // DRAWS_AT_ONCE))
    found = []
    for part, part_key in zip(np.array_split(np.arange(len(rows)), parts), jr.split(key, parts), strict=True):
        some = pick(predicted, rows[part])
        draw_key, place_key = jr.split(part_key)
        drawn = Drawn(some, partial(_draw, some, draw_key, n), None)
        found.append(judge(drawn, values[part], data.schema, place_key))
    return [type(pieces[0]).joined(pieces) for pieces in zip(*found, strict=True)]


def _draw(predicted: Distribution, key: PRNGKeyArray, n: int) -> np.ndarray:
    return np.asarray(jax.jit(lambda d, k: d.sample(k, (n,)))(predicted, key))


def _ahead(
    model: SequenceModel, data: Sequences, key: PRNGKeyArray, horizon: int, n: int, origins: int, strategy: Strategy
) -> list[list[Judged]]:
    """Forecasts of `horizon` steps from many origins, judged for each number of steps ahead."""
    sequence, origin = _origins(data, horizon, origins)
    at = jax.tree.map(lambda a: a[sequence, origin], states(model, data, strategy=strategy))
    steps = origin[:, None] + np.arange(horizon)
    inputs = None
    if model.inputs and data.inputs is not None:
        inputs = data.inputs[sequence[:, None], steps].astype(dtype_of(model))
    forecast_key, place_key = jr.split(key)
    forecast = forecast_from(model, at, horizon, key=forecast_key, n=n, inputs=inputs)
    values = data.values[sequence[:, None], steps]
    judged = []
    for i, step_key in enumerate(jr.split(place_key, horizon)):
        exact = forecast.distribution
        exact = None if exact is None else pick(exact, np.arange(len(origin)) * horizon + i)
        drawn = np.moveaxis(forecast.samples[:, :, i], 1, 0)
        probs = None if forecast.probs is None else forecast.probs[:, i]
        some = Drawn(exact or prototype(model), lambda drawn=drawn: drawn, probs, exact=exact is not None)
        judged.append(judge(some, values[:, i], data.schema, step_key))
    return judged


def _origins(data: Sequences, horizon: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences and steps to forecast from: all that have seen something and have so many steps to come, or some."""
    first = np.ones(len(data), int) if data.context is None else np.maximum(data.context, 1)
    step = np.arange(data.length)
    fit = (step >= first[:, None]) & (step + horizon <= data.lengths[:, None])
    sequence, origin = np.nonzero(fit)
    if not len(origin):
        most = max(0, int((data.lengths - first).max()))
        raise DataError(
            f"horizon is {horizon}, but at most {most} can be judged here: a forecast begins behind a step that was "
            f"seen, and the longest sequence has {data.length}."
        )
    chosen = np.unique(np.linspace(0, len(origin) - 1, min(most, len(origin))).round().astype(int))
    return sequence[chosen], origin[chosen]


# -- what comes of it ----------------------------------------------------------------------------------------


def _column(steps: Sequence[Judged], column: Column, bins: int) -> Classified | Predicted:
    """The judgements of one column, one for each number of steps ahead, as one record."""
    for step in steps:
        if not len(step):
            raise DataError(
                f"there is nothing to judge in column {column.name!r}: all is missing or has no prediction."
            )
    counts = np.array([len(step) for step in steps])
    symbols = [step for step in steps if isinstance(step, Symbols)]
    if symbols:
        return Classified(
            accuracy=np.array([accuracy(s.probs, s.labels) for s in symbols]),
            log_loss=np.array([log_loss(s.probs, s.labels) for s in symbols]),
            brier=np.array([brier(s.probs, s.labels) for s in symbols]),
            reliability=tuple(reliability(s.probs, s.labels, bins=bins) for s in symbols),
            most_frequent=np.array([np.bincount(s.labels).max() / len(s) for s in symbols]),
            counts=counts,
        )
    numbers = [step for step in steps if isinstance(step, Numbers)]
    return Predicted(
        crps=np.array([s.crps.mean() for s in numbers]),
        rmse=np.array([np.sqrt(((s.mean - s.x) ** 2).mean()) for s in numbers]),
        mae=np.array([np.abs(s.median - s.x).mean() for s in numbers]),
        coverage={level: np.array([coverage(s.pit, level) for s in numbers]) for level in LEVELS},
        pit=tuple(s.pit for s in numbers),
        counts=counts,
    )
