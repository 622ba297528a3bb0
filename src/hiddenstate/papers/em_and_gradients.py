"""The same hidden Markov model learned by EM and by steps along the gradient, from the same starting points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax.random as jr
import numpy as np
import optax

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Sequences
from hiddenstate.data import tasks
from hiddenstate.learn import EM, SGD, fit, fit_seeds
from hiddenstate.papers.timing import least_seconds

WHOLE, PLAIN, ADAM = "gradient ascent", "SGD", "Adam"
"""Gradient steps on all data at once, on minibatches, and on minibatches with a step size for each parameter."""

Optimiser = Literal["sgd", "adam"]


@dataclass(frozen=True)
class Race:
    """The sizes of a race: random models (`problems`), starts in each, data, and what each method may try.

    `rates` are the learning rates of each gradient method; the best of them runs for it.
    """

    problems: int
    starts: int
    states: int
    symbols: int
    concentration: float
    sequences: int
    length: int
    batch_size: int
    passes: int
    whole_rates: tuple[float, ...]
    plain_rates: tuple[float, ...]
    adam_rates: tuple[float, ...]

    def contenders(self) -> dict[str, tuple[Optimiser, int, tuple[float, ...]]]:
        """The optimiser, the size of minibatches and the rates of each gradient method."""
        return {
            WHOLE: ("sgd", self.sequences, self.whole_rates),
            PLAIN: ("sgd", self.batch_size, self.plain_rates),
            ADAM: ("adam", self.batch_size, self.adam_rates),
        }


def one_problem(race: Race, *, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """The loss before the first and after every pass over the data, for each start, method and rate.

    All methods set out from the same random models. The loss is that of all data, in nats per step.
    """
    data, make, learn_key = _problem(race, key)
    build_key, _ = jr.split(learn_key)
    by_em = EM(iterations=race.passes + 1, tolerance=0.0, repair=False)
    rows, firsts = [], []
    for start, start_key in enumerate(jr.split(build_key, race.starts)):
        losses = fit(make(start_key), data, by_em, key=learn_key, progress=False).history["loss"].to_list()
        losses += [losses[-1]] * (race.passes + 1 - len(losses))  # it ended: nothing but rounding was left to gain
        firsts.append(losses[0])
        rows.append({"start": start, "method": "EM", "rate": None, "losses": losses})
    for method, (optimiser, size, rates) in race.contenders().items():
        for rate in rates:
            settings = _sgd(race, optimiser, size, rate)
            fits = fit_seeds(
                make, data, settings, key=learn_key, seeds=race.starts, validation=data, progress=False
            ).fits
            for start, found in enumerate(fits):
                seen = found.history["validation"].drop_nulls().to_list()
                seen += [float("inf")] * (race.passes - len(seen))  # it diverged
                losses = [firsts[start], *[loss if np.isfinite(loss) else 1e6 for loss in seen]]
                rows.append({"start": start, "method": method, "rate": rate, "losses": losses})
    return rows


def seconds_per_pass(race: Race, rates: Mapping[str, float], repeats: int, *, key: PRNGKeyArray) -> dict[str, float]:
    """How long each method takes for one pass over the data, where it learns one model and looks at nothing else."""
    data, make, learn_key = _problem(race, key)
    model = make(learn_key)
    methods: dict[str, Any] = {"EM": EM(iterations=race.passes, tolerance=0.0, repair=False)}
    for name, (optimiser, size, _) in race.contenders().items():
        methods[name] = _sgd(race, optimiser, size, rates[name], evaluate=race.passes)
    works = {
        name: lambda method=method: fit(model, data, method, key=learn_key, progress=False).model
        for name, method in methods.items()
    }
    return {name: seconds / race.passes for name, seconds in least_seconds(works, repeats=repeats).items()}


def best_rates(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The rate of each gradient method whose median excess loss is lowest, on average over all passes."""
    found: dict[str, dict[float, float]] = {}
    for method, rate in dict.fromkeys((row["method"], row["rate"]) for row in rows if row["method"] != "EM"):
        found.setdefault(method, {})[rate] = float(median_excess(rows, method, rate).mean())
    return {method: min(means, key=means.__getitem__) for method, means in found.items()}


def median_excess(rows: Sequence[Mapping[str, Any]], method: str, rate: float | None) -> np.ndarray:
    """How far the loss after each pass is above the lowest of all runs on the same data: the median of starts."""
    return np.median(excesses(rows, method, rate), axis=0)


def excesses(rows: Sequence[Mapping[str, Any]], method: str, rate: float | None) -> np.ndarray:
    """The same for every start, (start, pass)."""
    lowest: dict[int, float] = {}
    for row in rows:
        lowest[row["problem"]] = min(min(row["losses"]), lowest.get(row["problem"], np.inf))
    chosen = [row for row in rows if (row["method"], row["rate"]) == (method, rate)]
    return np.array([np.array(row["losses"]) - lowest[row["problem"]] for row in chosen])


def duels(rows: Sequence[Mapping[str, Any]], rates: Mapping[str, float], tolerance: float) -> list[dict[str, Any]]:
    """For every start, the passes that EM and a gradient method need to come to the same loss.

    That loss is the one that both come to: the higher of their last ones, and `tolerance` more.
    """
    curves = {(row["problem"], row["start"], row["method"], row["rate"]): row["losses"] for row in rows}
    found = []
    for (problem, start, method, rate), losses in curves.items():
        if method == "EM" or rates[method] != rate:
            continue
        by_em = curves[problem, start, "EM", None]
        target = max(by_em[-1], losses[-1]) + tolerance
        found.append(
            {
                "problem": problem,
                "start": start,
                "method": method,
                "rate": rate,
                "target": target,
                "em_passes": first_within(by_em, target),
                "passes": first_within(losses, target),
                "em_loss": by_em[-1],
                "loss": losses[-1],
            }
        )
    return found


def first_within(losses: Sequence[float], target: float) -> int:
    """The number of passes after which the loss is for the first time no higher than the target."""
    return int(np.argmax(np.asarray(losses) <= target))


def _problem(race: Race, key: PRNGKeyArray) -> tuple[Sequences, Any, PRNGKeyArray]:
    """Data of a random model, random models of the same form to start from, and a key to learn with."""
    data_key, form_key, learn_key = jr.split(key, 3)
    data = tasks.hmm(
        race.states,
        race.symbols,
        sequences=race.sequences,
        length=race.length,
        concentration=race.concentration,
        key=data_key,
    ).data
    form = build("hmm", data, states=race.states, key=form_key)
    return data, lambda key: form.restart(data, key=key, how="random"), learn_key


def _sgd(race: Race, optimiser: Optimiser, size: int, rate: float, evaluate: int = 1) -> SGD:
    made = optax.sgd(rate) if optimiser == "sgd" else optax.adam(rate)
    return SGD(epochs=race.passes, batch_size=size, optimiser=made, clip=None, patience=None, evaluate_every=evaluate)
