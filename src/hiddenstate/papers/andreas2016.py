"""A network learns the inference of a hidden Markov model from samples alone, without its probabilities.

Andreas (2016, "A neural network is a monference, not a model") trains a network on hidden states and observations of a
known hidden Markov model and finds that it mimics the predictions that the model would make by its forward
probabilities; Choe, Shin and Spencer (2017, section 4.1) repeat it and add that larger networks, at the right learning
rate, need fewer sequences. So here agreement and divergence are measured against the number of sequences. All that a
network has are these: four in five to learn from, the fifth to choose its learning rate and when to stop.

Beside them stands a hidden Markov model whose probabilities are counted in the same sequences (one added to each
count) and run by the forward algorithm: what one can do who knows the form of the model, but not its probabilities.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.learn import Fit
from hiddenstate.papers.labelled_hmm import (
    LabelledHMM,
    beliefs_of,
    compare_predictions,
    divergence,
    draw_labelled,
    learn_states,
    margin_of,
    mean_and_error,
    summary_of,
)
from hiddenstate.papers.paper import Claim, Notebook, Tables
from hiddenstate.report.charts import Chart, Layer, Line, Rule

TITLE = "A network learns the inference of a hidden Markov model from samples"
SOURCE = "Andreas 2016, as repeated by Choe, Shin and Spencer 2017, section 4.1"

ENOUGH = 0.99
"""The agreement that counts as recovering the forward algorithm's predictions."""

COUNTED = "counts"


@dataclass(frozen=True)
class Config:
    """Networks of so many `units` learn from so many `sequences`, at all `learning_rates` from `seeds` beginnings."""

    hmms: int
    states: int
    symbols: int
    units: tuple[int, ...]
    sequences: tuple[int, ...]
    learning_rates: tuple[float, ...]
    seeds: int
    test: int
    updates: int
    batch_size: int


QUICK = Config(
    hmms=2,
    states=2,
    symbols=3,
    units=(1, 20),
    sequences=(100, 1000, 5000),
    learning_rates=(0.03, 0.003),
    seeds=2,
    test=5000,
    updates=300,
    batch_size=200,
)
FULL = Config(
    hmms=3,
    states=2,
    symbols=3,
    units=(1, 20, 100),
    sequences=(100, 300, 1000, 3000, 10_000, 20_000),
    learning_rates=(0.03, 0.01, 0.003),
    seeds=2,
    test=10_000,
    updates=1000,
    batch_size=200,
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """For each model and number of sequences: count, and learn with every number of units."""
    notebook.expect(config.hmms * len(config.sequences) * (1 + len(config.units)))
    rows = []
    for hmm, hmm_key in enumerate(jr.split(key, config.hmms), 1):
        draw_key, learn_key = jr.split(hmm_key)
        for sequences in config.sequences:
            for units in (0, *config.units):
                learner = f"units {units}" if units else COUNTED

                def part(hmm=hmm, sequences=sequences, units=units, draw_key=draw_key, learn_key=learn_key) -> dict:
                    drawn = _draw(config, sequences, draw_key)
                    part_key = jr.fold_in(jr.fold_in(learn_key, sequences), units)
                    found = _learned(config, drawn, units, part_key) if units else _judged(drawn, _counted(drawn))
                    return {"hmm": hmm, "sequences": sequences, "units": units, **found}

                rows.append(notebook.part(f"HMM {hmm}, sequences {sequences}, {learner}", part))
    return {"sequences": rows}


def _draw(config: Config, sequences: int, key: PRNGKeyArray) -> LabelledHMM:
    """The first so many of the sequences to learn from, and the same test sequences for all numbers."""
    most = max(config.sequences)
    drawn = draw_labelled(config.states, config.symbols, train=most, validation=1, test=config.test, key=key)
    learn = max(1, 4 * sequences // 5)
    return replace(drawn, train=drawn.train[:learn], validation=drawn.train[learn:sequences])


def _learned(config: Config, drawn: LabelledHMM, units: int, key: PRNGKeyArray) -> dict[str, Any]:
    best: tuple[float, float, Fit] | None = None
    for rate, rate_key in zip(config.learning_rates, jr.split(key, len(config.learning_rates)), strict=True):
        fits = learn_states(
            drawn,
            units,
            seeds=config.seeds,
            updates=config.updates,
            batch_size=min(config.batch_size, len(drawn.train)),
            learning_rate=rate,
            key=rate_key,
        )
        score = float(np.nanmin(fits.scores))
        if best is None or score < best[0]:
            best = score, rate, fits.best
    assert best is not None
    _, rate, fit = best
    return {"learning_rate": rate, **_judged(drawn, beliefs_of(fit.model, drawn.test))}


def _counted(drawn: LabelledHMM) -> np.ndarray:
    """Beliefs on the test sequences by the forward algorithm with probabilities counted in all that is labelled."""
    pairs = (drawn.train, drawn.validation)
    hidden = np.concatenate([one.targets.values[:, 1:] for one in pairs])
    seen = np.concatenate([one.sources.values[:, 1:] for one in pairs])
    initial, transition, emission = (np.ones_like(one) for one in _probabilities(drawn))
    np.add.at(initial, hidden[:, 0], 1)
    np.add.at(transition, (hidden[:, :-1], hidden[:, 1:]), 1)
    np.add.at(emission, (hidden, seen), 1)
    shares = [counts / counts.sum(axis=-1, keepdims=True) for counts in (initial, transition, emission)]
    task = replace(drawn.task, initial=shares[0], transition=shares[1], emission=shares[2])
    return replace(drawn, task=task).optimal().filtered


def _probabilities(drawn: LabelledHMM) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return drawn.task.initial, drawn.task.transition, drawn.task.emission


def _judged(drawn: LabelledHMM, said: np.ndarray) -> dict[str, Any]:
    forward = drawn.optimal().filtered
    nats, error = mean_and_error(divergence(forward, said))
    compared = compare_predictions(said.argmax(axis=-1), forward, drawn.hidden)
    return {**summary_of(compared), "divergence": nats, "divergence_error": error}


def means_over_models(tables: Tables, units: int) -> list[dict[str, Any]]:
    """One row for each number of sequences: means over models, with the spread of models in their standard errors."""
    rows = []
    for sequences in sorted({row["sequences"] for row in tables["sequences"]}):
        these = [row for row in tables["sequences"] if (row["sequences"], row["units"]) == (sequences, units)]
        mean: dict[str, Any] = {"sequences": sequences, "units": units, "models": len(these)}
        for name in ("agreement", "divergence", "lost_accuracy"):
            values = np.array([row[name] for row in these])
            several = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else these[0][f"{name}_error"]
            mean[name], mean[f"{name}_error"] = float(values.mean()), float(several)
        rows.append(mean)
    return rows


def _units(tables: Tables) -> list[int]:
    return sorted({row["units"] for row in tables["sequences"]} - {0})


def claims(tables: Tables) -> list[Claim]:
    """Recovered given enough data, sooner by larger networks, never outperformed."""
    means = {units: means_over_models(tables, units) for units in _units(tables)}
    counted = needed(means_over_models(tables, 0)) if any(not row["units"] for row in tables["sequences"]) else None
    return [_recovers(means), _approaches(means), _sooner(means, counted), _not_better(tables)]


def _recovers(means: dict[int, list[dict[str, Any]]]) -> Claim:
    last = {units: rows[-1] for units, rows in means.items()}
    short = [row for row in last.values() if row["agreement"] < ENOUGH]
    sequences = next(iter(last.values()))["sequences"]
    return Claim(
        "A network that is shown hidden states and observations learns to predict as the forward algorithm does, "
        f"without the model's probabilities (Andreas 2016); here: mean agreement of at least {ENOUGH:.0%} given "
        "the most sequences.",
        f"{sequences:,} sequences: "
        + "; ".join(
            f"{_so_many(units)} {row['agreement']:.2%} ± {row['agreement_error']:.2%} (accuracy lost: "
            f"{row['lost_accuracy']:.3%})"
            for units, row in last.items()
        ),
        not short,
        _sentence("; ".join(f"{_so_many(row['units'])} {margin_of(row)}" for row in short)),
    )


def _sentence(text: str) -> str:
    return f"What is predicted otherwise: with {text}." if text else ""


def _approaches(means: dict[int, list[dict[str, Any]]]) -> Claim:
    falls = {units: rows[0]["divergence"] / rows[-1]["divergence"] for units, rows in means.items()}
    return Claim(
        "Not only predictions but the whole table of forward probabilities is learned (Andreas 2016, as told in "
        "section 2.4 of Choe, Shin and Spencer 2017); here: the divergence of the largest network from them falls to a "
        "fifth or less from the fewest sequences to the most.",
        "; ".join(
            f"{_so_many(units)} {means[units][0]['divergence']:.4f} to {means[units][-1]['divergence']:.5f} nats a step"
            for units in falls
        ),
        falls[max(falls)] >= 5,
        "Smaller networks stop where their form does not fit the model's update."
        if means[min(falls)][-1]["divergence"] > 2 * means[max(falls)][-1]["divergence"]
        else "",
    )


def needed(rows: list[dict[str, Any]]) -> float:
    """The fewest sequences from which on the mean agreement is enough; infinite where it never is."""
    enough = float("inf")
    for row in reversed(rows):
        if row["agreement"] < ENOUGH:
            break
        enough = row["sequences"]
    return enough


def _sooner(means: dict[int, list[dict[str, Any]]], counted: float | None) -> Claim:
    units = list(means)
    least = {one: needed(means[one]) for one in units}
    holds = least[units[-1]] < least[units[0]]
    reason = (
        "With 2 states a single unit is already nearly the right form, and what a small network cannot express "
        "weighs less than what a large one has to learn. The learning rate was chosen for each on its validation "
        "sequences."
    )
    return Claim(
        "With more units and a learning rate to suit, the predictions are recovered from much less data (Choe, Shin "
        f"and Spencer 2017, section 4.1); here: {units[-1]} units reach a mean agreement of {ENOUGH:.0%}, and stay "
        f"there, from fewer sequences than {units[0]}.",
        "sequences needed: "
        + "; ".join(f"{_so_many(one)} {_number(least[one])}" for one in units)
        + ("" if counted is None else f"; counted probabilities {_number(counted)}"),
        holds,
        "" if holds else reason,
    )


def _so_many(count: int) -> str:
    return f"{count} unit{'s' if count > 1 else ''}"


def _number(sequences: float) -> str:
    return "more than were given" if np.isinf(sequences) else f"{sequences:,}"


def _not_better(tables: Tables) -> Claim:
    rows = [row for row in tables["sequences"] if row["units"]]
    most = max(rows, key=lambda row: row["advantage"] / max(row["advantage_error"], 1e-12))
    return Claim(
        "No network outperforms the forward algorithm, however large (section 4.1); here: nowhere more accurate by "
        "over four standard errors of the paired difference.",
        f"largest advantage of {len(rows)} networks: {most['advantage']:+.3%} ± {most['advantage_error']:.3%}",
        all(row["advantage"] <= 4 * row["advantage_error"] for row in rows),
    )


def plot(tables: Tables) -> list[Chart]:
    """Agreement and divergence against the number of sequences."""
    return [
        Chart(
            "Agreement with the forward algorithm",
            "labelled sequences",
            "share of equal predictions",
            [*_lines(tables, "agreement"), Rule(ENOUGH, name=f"{ENOUGH:.0%}", colour="grey")],
            x_scale="log",
            note="Counted probabilities are run by the forward algorithm: they know the form of the model.",
        ),
        Chart(
            "Distance of the beliefs",
            "labelled sequences",
            "divergence (nats a step)",
            _lines(tables, "divergence"),
            x_scale="log",
            y_scale="log",
            note="How far the probabilities of hidden states are from the forward algorithm's.",
        ),
    ]


def _lines(tables: Tables, name: str) -> list[Layer]:
    layers: list[Layer] = []
    for place, units in enumerate([*_units(tables), 0]):
        rows = means_over_models(tables, units)
        layers.append(
            Line(
                [row["sequences"] for row in rows],
                [row[name] for row in rows],
                [row[f"{name}_error"] for row in rows],
                marks=True,
                dashed=not units,
                name=_so_many(units) if units else "counted probabilities",
                colour=place if units else "ink",
            )
        )
    return layers
