"""Tasks of prediction whose best possible answer is known, tried by each model from several seeds."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import HiddenStateError, parameter_count
from hiddenstate.data import tasks
from hiddenstate.learn.challenges import chosen
from hiddenstate.learn.compare import Comparison, Row
from hiddenstate.learn.scores import score_of, step_nats
from hiddenstate.learn.seeds import Fits, fit_seeds
from hiddenstate.learn.sgd import SGD

SEEDS = 5
"""From so many seeds every model is learned, unless told otherwise."""

HELD_OUT = 500
"""How many sequences decide when to stop, and as many are held out."""


@dataclass(frozen=True)
class Contest:
    """A task, how many sequences there are to learn from and how, and who tries.

    `make` draws a task of so many sequences by a key: its `data`, and `optimal_step_log_probs` of any data.
    `contenders` are recipes with their options, under the names that they have in the table.
    """

    about: str
    make: Callable[[int, PRNGKeyArray], Any]
    contenders: Mapping[str, tuple[str, Mapping[str, Any]]]
    sequences: int
    method: SGD


_SPREAD = {"dispersion": "state"}

CONTESTS: dict[str, Contest] = {
    "multimodal": Contest(
        "one of four levels, drawn anew every other step: predictions with four peaks and with one by turns",
        lambda n, key: tasks.modes(4, sequences=n, length=12, segment=2, key=key),
        {
            "multi-particle": ("multi-particle", {"cell": "gru", "hidden": 12, "particles": 4, **_SPREAD}),
            "gru": ("gru", {"hidden": 48, **_SPREAD}),
            "gru (mixture)": ("gru", {"hidden": 48, "head": "mixture-gaussian", "components": 4, **_SPREAD}),
        },
        1000,
        SGD(steps=1200, batch_size=64, learning_rate=1e-2, decay="cosine", evaluate_steps=200),
    ),
}
"""The tasks of `hiddenstate compare --task` in which models predict, by their names."""


def contest(
    name: str,
    contenders: Sequence[str] | None = None,
    *,
    key: PRNGKeyArray,
    seeds: int = SEEDS,
    progress: bool = True,
    announce: Callable[[str], None] | None = None,
    sequences: int | None = None,
    steps: int | None = None,
) -> Comparison:
    """Let models learn a task, each from several seeds, and rank them by how they predict new sequences of it.

    Scores are means over the seeds, standard errors are those of these means, and differences are taken seed by seed:
    they say what another seed would change, not what other data would. The models of the comparison are the best of
    their seeds on the validation data. `contenders` are some of the contest's own, or recipes, which then have as many
    units as its first one. `sequences` and `steps` shorten it.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int | np.integer) or seeds < 2:
        raise HiddenStateError(f"seeds is {seeds!r}; it must be a whole number from 2 on, for a standard error.")
    what = CONTESTS[name]
    tried = chosen(name, what.contenders, contenders)
    task_key, *keys = jr.split(key, 1 + len(tried))
    count = sequences or what.sequences
    held = min(HELD_OUT, count)
    task = what.make(count + 2 * held, task_key)
    train, validation, test = task.data[:count], task.data[count:-held], task.data[-held:]
    method = what.method if steps is None else replace(what.method, steps=steps)
    found: dict[str, tuple[Fits, float]] = {}
    for (label, (recipe, options)), own_key in zip(tried.items(), keys, strict=True):
        if announce is not None:
            announce(label)
        began = time.perf_counter()

        def make(build_key: PRNGKeyArray, recipe: str = recipe, options: Mapping[str, Any] = options) -> Any:
            return build(recipe, train, key=build_key, **options)

        fits = fit_seeds(make, train, method, key=own_key, seeds=seeds, validation=validation, progress=progress)
        found[label] = fits, time.perf_counter() - began
    nats = {label: np.stack([step_nats(model, test) for model in fits.models]) for label, (fits, _) in found.items()}
    scores = {label: np.array([score_of(one, test).nats_per_step for one in each]) for label, each in nats.items()}
    optimal = -np.asarray(task.optimal_step_log_probs(test), np.float64)
    return Comparison(
        _rank(found, scores, score_of(optimal, test).nats_per_step),
        {label: fits.best.model for label, (fits, _) in found.items()},
        {label: fits.best.history for label, (fits, _) in found.items()},
        train,
        test,
        {label: each.mean(axis=0) for label, each in nats.items()},
        f"{count} sequences to learn from, {held} to stop by, {held} held out; each model from {seeds} seeds.",
        optimal,
        scores,
    )


def _rank(
    found: Mapping[str, tuple[Fits, float]], scores: Mapping[str, np.ndarray], best_possible: float
) -> tuple[Row, ...]:
    """The rows of the table, best first: means and standard errors over seeds."""
    order = sorted(found, key=lambda label: (not np.isfinite(scores[label].mean()), scores[label].mean()))
    rows = []
    for label in order:
        fits, seconds = found[label]
        apart = scores[label] - scores[order[0]]
        rows.append(
            Row(
                model=label,
                nats_per_step=float(scores[label].mean()),
                standard_error=_error(scores[label]),
                difference=float(apart.mean()),
                difference_error=_error(apart),
                parameters=parameter_count(fits.best.model),
                seconds=seconds,
                converged=all(fit.converged for fit in fits.fits),
                reason=fits.best.reason,
                baseline=False,
                above_optimal=float(scores[label].mean()) - best_possible,
            )
        )
    return tuple(rows)


def _error(values: np.ndarray) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
