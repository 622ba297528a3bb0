"""EM and gradients, vanishing gradients, HMMs as networks, and costs: Linderman's lecture notes, checked."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.inspect.costs import CostSizes, cost
from hiddenstate.papers.em_and_gradients import (
    Race,
    best_rates,
    duels,
    excesses,
    one_problem,
    seconds_per_pass,
)
from hiddenstate.papers.expected_counts import compare_counts, compare_predictions
from hiddenstate.papers.linderman_claims import claims, plot
from hiddenstate.papers.paper import Notebook, Tables
from hiddenstate.papers.random_symbols import random_symbols
from hiddenstate.papers.vanishing import (
    networks,
    rate_per_step,
    recall_accuracies,
    way_back,
)
from hiddenstate.strategies import Sequential

__all__ = ["FULL", "QUICK", "SOURCE", "TITLE", "Config", "claims", "plot", "run"]

TITLE = "EM against gradients, the gradient trick, vanishing gradients, and costs"
SOURCE = "Linderman's lecture notes on recurrent neural networks"


@dataclass(frozen=True)
class Config:
    """Sizes: the race of EM and gradients; lengths and networks for gradients through time; and how often to time."""

    race: Race
    tolerance: float
    repeats: int
    length: int
    hidden: int
    radii: tuple[float, ...]
    forget_biases: tuple[float, ...]
    delays: tuple[int, ...]
    recall_steps: int
    seeds: int
    cost_steps: tuple[int, ...]
    cost_units: tuple[int, ...]


QUICK = Config(
    race=Race(
        problems=2,
        starts=5,
        states=4,
        symbols=8,
        concentration=0.5,
        sequences=64,
        length=50,
        batch_size=16,
        passes=40,
        whole_rates=(10.0, 30.0, 100.0),
        plain_rates=(10.0, 30.0, 100.0),
        adam_rates=(0.1, 0.3, 1.0),
    ),
    tolerance=2e-3,
    repeats=3,
    length=81,
    hidden=24,
    radii=(0.5, 0.9),
    forget_biases=(0.0, 1.0, 3.0),
    delays=(40,),
    recall_steps=300,
    seeds=4,
    cost_steps=(128, 1024),
    cost_units=(64, 256),
)
FULL = Config(
    race=Race(
        problems=5,
        starts=8,
        states=5,
        symbols=10,
        concentration=0.5,
        sequences=200,
        length=100,
        batch_size=20,
        passes=200,
        whole_rates=(3.0, 10.0, 30.0, 100.0, 300.0),
        plain_rates=(3.0, 10.0, 30.0, 100.0, 300.0),
        adam_rates=(0.03, 0.1, 0.3, 1.0),
    ),
    tolerance=2e-3,
    repeats=5,
    length=101,
    hidden=64,
    radii=(0.5, 0.9, 0.99),
    forget_biases=(0.0, 1.0, 3.0, 5.0),
    delays=(10, 40, 100),
    recall_steps=1500,
    seeds=8,
    cost_steps=(1000, 4000, 16_000),
    cost_units=(64, 128, 256, 512),
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """Every part of the notes that a run bears on."""
    notebook.expect(config.race.problems + 5 + len(config.delays))
    race_key, time_key, count_key, prediction_key, gradient_key, recall_key, cost_key = jr.split(key, 7)
    curves = []
    for problem, own_key in enumerate(jr.split(race_key, config.race.problems)):
        found = notebook.part(
            f"EM and gradients on model {problem + 1}", lambda k=own_key: one_problem(config.race, key=k)
        )
        curves += [{"problem": problem, **row} for row in found]
    rates = best_rates(curves)
    seconds = notebook.part(
        "seconds of a pass", lambda: seconds_per_pass(config.race, rates, config.repeats, key=time_key)
    )
    size = {"states": config.race.states, "symbols": config.race.symbols, "sequences": 16, "length": config.length}
    return {
        "convergence": _convergence(curves, rates, seconds),
        "speeds": _speeds(curves, rates, seconds, config.tolerance),
        "counts": notebook.part("the gradient trick", lambda: compare_counts(**size, key=count_key)),
        "predictions": notebook.part("an HMM as a network", lambda: compare_predictions(**size, key=prediction_key)),
        **notebook.part("gradients through time", lambda: _gradients(config, gradient_key)),
        "costs": notebook.part("costs", lambda: _costs(config, cost_key)),
        "recall": [
            row
            for delay in config.delays
            for row in notebook.part(
                f"recall after {delay} steps", lambda delay=delay: _recall(config, delay, jr.fold_in(recall_key, delay))
            )
        ],
    }


def _convergence(
    curves: list[dict[str, Any]], rates: dict[str, float], seconds: dict[str, float]
) -> list[dict[str, Any]]:
    """The excess loss after each pass, over all starts: the median and the quartiles."""
    rows = []
    for method, rate in [("EM", None), *rates.items()]:
        low, middle, high = np.percentile(excesses(curves, method, rate), [25, 50, 75], axis=0)
        rows += [
            {
                "method": method,
                "rate": rate,
                "passes": passes,
                "seconds": passes * seconds[method],
                "excess": float(middle[passes]),
                "lower_quartile": float(low[passes]),
                "upper_quartile": float(high[passes]),
            }
            for passes in range(len(middle))
        ]
    return rows


def _speeds(
    curves: list[dict[str, Any]], rates: dict[str, float], seconds: dict[str, float], tolerance: float
) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "em_seconds_per_pass": seconds["EM"],
            "seconds_per_pass": seconds[row["method"]],
        }
        for row in duels(curves, rates, tolerance)
    ]


def _gradients(config: Config, key: PRNGKeyArray) -> Tables:
    data_key, model_key = jr.split(key)
    data = random_symbols(symbols=4, sequences=8, length=config.length, key=data_key)
    norms, rates = [], []
    for name, (recipe, options, radius) in networks(config.radii, config.forget_biases).items():
        found = way_back(build(recipe, data, hidden=config.hidden, key=model_key, **options), data)
        norms += [{"network": name, "lag": lag, "norm": float(norm)} for lag, norm in enumerate(found.norms)]
        rates.append(
            {
                "network": name,
                "kind": name.split(",")[0],
                "spectral_radius": radius,
                "rate_per_step": rate_per_step(found.norms),
                "left_at_the_end": float(found.norms[-1] / found.norms[0]),
                "lags": len(found.norms) - 1,
                "difference_from_autodiff": found.difference,
            }
        )
    return {"norms": norms, "rates": rates}


def _costs(config: Config, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """Seconds, bytes and operations of a vanilla network and a hidden Markov model, against steps and units."""
    sizes = CostSizes(
        at_steps=config.cost_steps[0],
        steps=config.cost_steps,
        at_units=config.cost_units[0],
        units=config.cost_units,
        batch=(),
        repeats=config.repeats,
    )
    seen = random_symbols(symbols=8, sequences=4, length=max(config.cost_units), key=key)
    makes = {
        "vanilla": lambda units: build("vanilla", seen, hidden=units, key=key),
        "hmm": lambda states: build("hmm", seen, states=states, key=key),
    }
    found = cost(makes, key=key, sizes=sizes, strategies={"sequential": Sequential()})
    chosen = ("model", "what", "varied", "size", "steps", "units", "seconds", "bytes", "operations")
    return found.rows.select(chosen).to_dicts()


def _recall(config: Config, delay: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    return recall_accuracies(
        delay=delay,
        hidden=config.hidden,
        sequences=1000,
        steps=config.recall_steps,
        seeds=config.seeds,
        key=key,
    )
