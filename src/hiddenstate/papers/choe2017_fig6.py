"""A network of fixed size beside the forward algorithm, for hidden Markov models with more and more states.

Choe, Shin and Spencer (2017, section 4.1.1, figure 6) take 2, 4, ..., 512 hidden states. How many units the network has
and how many symbols there are is not said; here it is 100 units, and 3 symbols as in the experiment that it follows up.
"""

from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Sequences, parameter_count
from hiddenstate.papers.labelled_hmm import (
    Comparison,
    LabelledHMM,
    beliefs_of,
    compare_predictions,
    draw_labelled,
    hmm_parameters,
    joined,
    learn_states,
    summary_of,
)
from hiddenstate.papers.paper import Claim, Notebook, Tables
from hiddenstate.report.charts import Chart, Line

TITLE = "A network of fixed size as the number of hidden states grows"
SOURCE = "Choe, Shin and Spencer 2017, section 4.1.1, figure 6"

NEAR = 0.01
"""Accuracies that are no further apart than this lie on each other in the paper's figure."""

SEQUENCES_AT_ONCE = 1000


@dataclass(frozen=True)
class Config:
    """For each number of `states`, `hmms` hidden Markov models and for each a network of so many `units`."""

    states: tuple[int, ...]
    symbols: int
    hmms: int
    units: int
    seeds: int
    learning_rate: float
    train: int
    validation: int
    test: int
    updates: int
    batch_size: int


QUICK = Config(
    states=(2, 8, 32, 128, 512),
    symbols=3,
    hmms=1,
    units=100,
    seeds=1,
    learning_rate=0.003,
    train=4000,
    validation=500,
    test=2000,
    updates=300,
    batch_size=200,
)
FULL = Config(
    states=(2, 4, 8, 16, 32, 64, 128, 256, 512),
    symbols=3,
    hmms=3,
    units=100,
    seeds=1,
    learning_rate=0.003,
    train=20_000,
    validation=2000,
    test=10_000,
    updates=2000,
    batch_size=200,
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """One part for each number of states and each model."""
    notebook.expect(len(config.states) * config.hmms)
    rows = []
    for place, states in enumerate(config.states):
        for hmm in range(1, config.hmms + 1):
            part_key = jr.fold_in(jr.fold_in(key, place), hmm)

            def part(states=states, hmm=hmm, part_key=part_key) -> dict[str, Any]:
                return {"hmm": hmm, **_part(config, states, part_key)}

            rows.append(notebook.part(f"states {states}, HMM {hmm}", part))
    return {"states": rows}


def _part(config: Config, states: int, key: PRNGKeyArray) -> dict[str, Any]:
    draw_key, learn_key = jr.split(key)
    drawn = draw_labelled(
        states, config.symbols, train=config.train, validation=config.validation, test=config.test, key=draw_key
    )
    network = learn_states(
        drawn,
        config.units,
        seeds=config.seeds,
        updates=config.updates,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        key=learn_key,
    ).best.model
    return {
        "states": states,
        "chance": 1 / states,
        "network_parameters": parameter_count(network),
        "hmm_parameters": hmm_parameters(states, config.symbols),
        **summary_of(_in_groups(drawn, network)),
    }


def _in_groups(drawn: LabelledHMM, network: Any) -> Comparison:
    """The comparison on all test sequences, some at a time: beliefs over many states fill the memory."""
    found = []
    for begin in range(0, len(drawn.test), SEQUENCES_AT_ONCE):
        group = slice(begin, begin + SEQUENCES_AT_ONCE)
        forward = drawn.task.optimal(Sequences.padded(drawn.symbols[group])).filtered
        predicted = beliefs_of(network, drawn.test[group]).argmax(axis=-1)
        found.append(compare_predictions(predicted, forward, drawn.hidden[group]))
    return joined(found, axis=0)


def means_over_models(tables: Tables) -> list[dict[str, Any]]:
    """One row for each number of states: means over models, with standard errors from the test sequences."""
    rows = []
    for states in sorted({row["states"] for row in tables["states"]}):
        these = [row for row in tables["states"] if row["states"] == states]
        mean: dict[str, Any] = {}
        for name in these[0]:
            values = np.array([row[name] for row in these], float)
            whole = np.sqrt((values**2).sum()) / len(values) if name.endswith("_error") else values.mean()
            mean[name] = float(whole)
        rows.append(mean | {"states": states, "models": len(these)})
    return rows


def claims(tables: Tables) -> list[Claim]:
    """The task grows hard, accuracies stay together, predictions drift apart, most beyond the network's size."""
    rows = means_over_models(tables)
    found = [_harder(rows), _matches(rows), _agreement_falls(rows)]
    crossing = [row["hmm_parameters"] > row["network_parameters"] for row in rows]
    if any(crossing[1:]) and not crossing[0]:
        found.append(_falls_most_beyond(rows, crossing.index(True)))
    return found


def _harder(rows: list[dict[str, Any]]) -> Claim:
    first, last = rows[0], rows[-1]
    falls = bool((np.diff([row["forward_accuracy"] for row in rows]) < 0).all())
    return Claim(
        "Even the forward algorithm, which is optimal, performs very poorly as states become many (figure 6, top); "
        "here: its accuracy falls from each number of states to the next.",
        f"accuracy {first['forward_accuracy']:.1%} with {first['states']} states, {last['forward_accuracy']:.2%} "
        f"± {last['forward_accuracy_error']:.2%} with {last['states']} (chance {last['chance']:.2%})",
        falls,
    )


def _matches(rows: list[dict[str, Any]]) -> Claim:
    worst = min(rows, key=lambda row: row["advantage"])
    shares = [
        f"{(row['accuracy'] - row['chance']) / (row['forward_accuracy'] - row['chance']):.0%} of {row['states']}"
        for row in rows
    ]
    holds = all(abs(row["advantage"]) <= NEAR + 2 * row["advantage_error"] for row in rows)
    return Claim(
        "The network's accuracy still matches the forward algorithm's (section 4.1.1); here: within "
        f"{NEAR:.0%} of all predictions, about what the figure shows, at every number of states.",
        f"furthest behind with {worst['states']} states: {worst['advantage']:+.2%} ± {worst['advantage_error']:.2%}",
        holds,
        f"Of what the forward algorithm has over chance the network has {', '.join(shares)} states. Where accuracies "
        "are all small, a difference that the figure cannot show may be a large part of them.",
    )


def _agreement_falls(rows: list[dict[str, Any]]) -> Claim:
    first, last = rows[0], rows[-1]
    error = float(np.hypot(first["agreement_error"], last["agreement_error"]))
    return Claim(
        "The agreement of both predictions falls as states become many (figure 6, top); here: by more than three "
        "standard errors from the fewest to the most.",
        "; ".join(f"{row['states']} states {row['agreement']:.1%}" for row in rows),
        first["agreement"] - last["agreement"] > 3 * error,
    )


def _falls_most_beyond(rows: list[dict[str, Any]], crossing: int) -> Claim:
    """Falls for each doubling of the states, up to the last number before the crossing and from there on."""

    def fall(begin: int, end: int) -> float:
        doublings = float(np.log2(rows[end]["states"] / rows[begin]["states"]))
        return (rows[begin]["agreement"] - rows[end]["agreement"]) / doublings

    before = fall(0, crossing - 1) if crossing > 1 else 0.0
    beyond = fall(crossing - 1, len(rows) - 1)
    holds = beyond > before
    steepest = max(range(len(rows) - 1), key=lambda place: fall(place, place + 1))
    reason = (
        f"It falls fastest between {rows[steepest]['states']} and {rows[steepest + 1]['states']} states, by "
        f"{fall(steepest, steepest + 1):.1%} for each doubling; the counts of parameters cross between "
        f"{rows[crossing - 1]['states']} and {rows[crossing]['states']}."
    )
    return Claim(
        "Agreement drops significantly where the hidden Markov model has more parameters than the network (section "
        "4.1.1); here: it falls faster beyond that point than before it.",
        f"crossing at {rows[crossing]['states']} states ({rows[crossing]['hmm_parameters']:,.0f} parameters against "
        f"{rows[crossing]['network_parameters']:,.0f}); fall for each doubling: {before:.1%} before, "
        f"{beyond:.1%} beyond",
        holds,
        "" if holds else reason,
    )


def plot(tables: Tables) -> list[Chart]:
    """The two panels of the figure, and what disagreement costs."""
    rows = means_over_models(tables)
    states = [row["states"] for row in rows]

    def line(name: str, title: str, colour: Any, *, dashed: bool = False) -> Line:
        errors = [row[f"{name}_error"] for row in rows] if f"{name}_error" in rows[0] else None
        return Line(states, [row[name] for row in rows], errors, marks=True, dashed=dashed, name=title, colour=colour)

    return [
        Chart(
            "Prediction of the hidden state",
            "hidden states",
            "share of predictions",
            [
                line("forward_accuracy", "accuracy, forward algorithm", "ink"),
                line("accuracy", "accuracy, network", 0, dashed=True),
                line("agreement", "agreement", 1),
                line("chance", "chance", "grey", dashed=True),
            ],
            x_scale="log",
            note="The share of steps at which predictions are right, and at which the two agree.",
        ),
        Chart(
            "Parameters",
            "hidden states",
            "free parameters",
            [line("network_parameters", "network", 0), line("hmm_parameters", "hidden Markov model", "ink")],
            x_scale="log",
            y_scale="log",
        ),
        Chart(
            "The same accuracies by ratio",
            "hidden states",
            "accuracy",
            [
                line("forward_accuracy", "forward algorithm", "ink"),
                line("accuracy", "network", 0, dashed=True),
                line("chance", "chance", "grey", dashed=True),
            ],
            x_scale="log",
            y_scale="log",
            note="On a logarithmic scale differences show that the first chart hides.",
        ),
    ]
