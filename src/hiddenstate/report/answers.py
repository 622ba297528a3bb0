"""Answers to new sequences as a table: labels with their probabilities, numbers with an interval."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpyro.distributions import Distribution

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, Pairs
from hiddenstate.learn.judging import class_probs, column_part, is_class, is_gaussian, pick
from hiddenstate.report.forecasts import symbol_names
from hiddenstate.report.tables import step_names

DRAWS = 1000
EDGES = {"q0.05": 0.05, "q0.95": 0.95}
_DEVIATIONS = 1.6448536269514722
"""So many standard deviations from its mean a Gaussian has its quantiles of 5% and 95%."""


def answer_table(predicted: Distribution, pairs: Pairs, *, key: PRNGKeyArray) -> pl.DataFrame:
    """A row for each answer: the sequence (and step), the most probable label and the probability of each.

    Numbers have mean and quantiles in place of labels. Where the right answer is known it stands beside, in a column
    whose name begins with ``known_``. `key` draws samples where a distribution has no quantiles of its own.
    """
    rows = np.flatnonzero(pairs.targets.valid)
    sequence, step = np.nonzero(pairs.targets.valid)
    some, columns = pick(predicted, rows), pairs.targets.schema.columns
    which, _ = step_names(pairs.sources.schema, columns)
    table: dict[str, Any] = {which: [pairs.names[i] for i in sequence]}
    if not pairs.single:
        table["step"] = step + 1
    values = pairs.targets.values[sequence, step].reshape(len(rows), -1)
    known = _known(pairs)[sequence, step].reshape(len(rows), -1)
    draws = _drawing(some, key)
    for i, column in enumerate(columns):
        prefix = f"{column.name}_" if len(columns) > 1 else ""
        table |= _answers(some, i, column, prefix, draws)
        if known[:, i].any():
            table[f"known_{column.name}"] = _named(column, values[:, i], known[:, i])
    return pl.DataFrame(table, strict=False)


def _known(pairs: Pairs) -> np.ndarray:
    observed = pairs.targets.observed
    return np.ones(pairs.targets.values.shape, bool) if observed is None else observed


def _drawing(distribution: Distribution, key: PRNGKeyArray) -> Callable[[int], np.ndarray]:
    """Samples of the entry of a column, (sample, case), drawn when they are first asked for."""
    drawn: list[np.ndarray] = []

    def draws(i: int) -> np.ndarray:
        if not drawn:
            drawn.append(np.asarray(distribution.sample(key, (DRAWS,))))
        return drawn[0].reshape(*drawn[0].shape[:2], -1)[..., i]

    return draws


def _answers(
    distribution: Distribution, i: int, column: Column, prefix: str, draws: Callable[[int], np.ndarray]
) -> dict[str, Any]:
    part = column_part(distribution, column)
    if is_class(part, column):
        probs = class_probs(part, i)
        names = symbol_names(column) if column.kind == "symbol" else ("0", "1")
        probs = (draws(i)[..., None] == np.arange(len(names))).mean(0) if probs is None else np.asarray(probs, float)
        names = (*names, *(str(code) for code in range(len(names), probs.shape[1])))
        answer = {column.name: [names[code] for code in probs.argmax(axis=1)]}
        return answer | {f"p({prefix.replace('_', '=')}{name})": probs[:, code] for code, name in enumerate(names)}
    entry = (lambda a: np.asarray(a, float)[:, i]) if part.event_shape else (lambda a: np.asarray(a, float))
    mean = entry(part.mean)
    if is_gaussian(part):
        deviation = np.sqrt(entry(part.variance))
        edges = [mean - _DEVIATIONS * deviation, mean + _DEVIATIONS * deviation]
    else:
        edges = list(np.quantile(draws(i).astype(float), list(EDGES.values()), axis=0))
    return {column.name: mean} | {f"{prefix}{name}": edge for name, edge in zip(EDGES, edges, strict=True)}


def _named(column: Column, values: np.ndarray, known: np.ndarray) -> list[Any]:
    """What is known, symbols by their names, None where nothing is."""
    names = symbol_names(column) if column.kind == "symbol" else None
    shown = values.tolist()
    return [(names[int(v)] if names else v) if k else None for v, k in zip(shown, known, strict=True)]
