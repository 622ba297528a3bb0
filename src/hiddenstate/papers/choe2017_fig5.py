"""Networks with 1, 20 and 100 units learn to predict the hidden states of a small hidden Markov model.

Choe, Shin and Spencer (2017, figure 5 and section 4.1) draw one model with 2 states and 3 symbols, and find that the
predictions of all three networks on 100 test sequences are exactly the forward algorithm's. The model that they drew is
not given. So here the same is done for several; the charts of accuracy show the first. A network is chosen among
several beginnings by its validation sequences, never by the test sequences.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.papers.labelled_hmm import (
    LENGTH,
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
from hiddenstate.report.charts import Chart, Layer, Line, Points, Rule

TITLE = "Hidden-state predictions of small networks and of the forward algorithm"
SOURCE = "Choe, Shin and Spencer 2017, section 4.1, figure 5"

ENOUGH = 0.99
"""The agreement that counts as recovering the forward algorithm's predictions."""


@dataclass(frozen=True)
class Config:
    """`hmms` hidden Markov models; for each of `units` a network from so many `seeds` with its own learning rate.

    `paper_test` of the `test` sequences are the test set of the paper's size.
    """

    hmms: int
    states: int
    symbols: int
    units: tuple[int, ...]
    seeds: tuple[int, ...]
    learning_rates: tuple[float, ...]
    train: int
    validation: int
    test: int
    paper_test: int
    updates: int
    batch_size: int


QUICK = Config(
    hmms=2,
    states=2,
    symbols=3,
    units=(1, 20, 100),
    seeds=(8, 1, 1),
    learning_rates=(0.03, 0.01, 0.003),
    train=4000,
    validation=1000,
    test=5000,
    paper_test=100,
    updates=600,
    batch_size=200,
)
FULL = Config(
    hmms=5,
    states=2,
    symbols=3,
    units=(1, 20, 100),
    seeds=(32, 4, 4),
    learning_rates=(0.03, 0.01, 0.003),
    train=20_000,
    validation=4000,
    test=20_000,
    paper_test=100,
    updates=3000,
    batch_size=200,
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """For each hidden Markov model and each number of units: learn, choose by validation, compare on the test."""
    notebook.expect(config.hmms * len(config.units))
    tables: Tables = {"steps": [], "networks": []}
    for hmm, hmm_key in enumerate(jr.split(key, config.hmms), 1):
        draw_key, learn_key = jr.split(hmm_key)
        for place, units in enumerate(config.units):

            def part(hmm=hmm, place=place, draw_key=draw_key, learn_key=learn_key) -> Tables:
                return _part(config, hmm, place, draw_key, jr.fold_in(learn_key, place))

            found = notebook.part(f"HMM {hmm}, units {units}", part)
            for name in tables:
                tables[name] += found[name]
    return tables


def _part(config: Config, hmm: int, place: int, draw_key: PRNGKeyArray, learn_key: PRNGKeyArray) -> Tables:
    drawn = draw_labelled(
        config.states,
        config.symbols,
        train=config.train,
        validation=config.validation,
        test=config.test,
        key=draw_key,
    )
    fits = learn_states(
        drawn,
        config.units[place],
        seeds=config.seeds[place],
        updates=config.updates,
        batch_size=config.batch_size,
        learning_rate=config.learning_rates[place],
        key=learn_key,
    )
    chosen = int(np.nanargmin(fits.scores))
    who = {"hmm": hmm, "units": config.units[place]}
    networks, steps = [], []
    for seed, (model, score) in enumerate(zip(fits.models, fits.scores, strict=True)):
        said = beliefs_of(model, drawn.test)
        network, at_steps = _compared(drawn, said, config)
        networks.append({**who, "seed": seed, "chosen": seed == chosen, "validation_nats": float(score), **network})
        steps += [{**who, **row} for row in at_steps if seed == chosen]
    return {"networks": networks, "steps": steps}


def _compared(drawn: LabelledHMM, said: np.ndarray, config: Config) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a network reached on all test sequences, and at each step on those and on the paper's number."""
    forward = drawn.optimal().filtered
    compared = compare_predictions(said.argmax(axis=-1), forward, drawn.hidden)
    nats, nats_error = mean_and_error(divergence(forward, said))
    network = summary_of(compared) | {
        "divergence": nats,
        "divergence_error": nats_error,
        "few_agreement": float(compared.agree[: config.paper_test].mean()),
    }
    steps = []
    for sequences in (config.paper_test, config.test):
        for t in range(LENGTH):
            row: dict[str, Any] = {"test_sequences": sequences, "step": t + 1}
            for name, values in (
                ("accuracy", compared.right),
                ("forward_accuracy", compared.forward_right),
                ("agreement", compared.agree),
            ):
                row[name], row[f"{name}_error"] = mean_and_error(values[:sequences, t])
            steps.append(row)
    return network, steps


def claims(tables: Tables) -> list[Claim]:
    """Recovered by large networks, by a single unit, never outperformed; and on every model that was drawn."""
    chosen = [row for row in tables["networks"] if row["chosen"]]
    large = [row for row in chosen if row["units"] > 1]
    single = [row for row in chosen if row["units"] == 1]
    counts = _listed(sorted({row["units"] for row in large}))
    found = []
    if large:
        found.append(_recovers(large, f"Networks with {counts} units, taught the hidden states, predict"))
    if single:
        found.append(_single(single, [row for row in tables["networks"] if row["units"] == 1]))
    found.append(_not_better(chosen))
    if len({row["hmm"] for row in chosen}) > 1:
        found.append(_every_model(chosen))
    return found


def _recovers(rows: list[dict[str, Any]], who: str) -> Claim:
    measured, holds = [], True
    for units in sorted({row["units"] for row in rows}):
        these = [row for row in rows if row["units"] == units]
        mean, error = _over_models(these, "agreement")
        few, _ = _over_models(these, "few_agreement")
        holds = holds and mean >= ENOUGH
        measured.append(
            f"{_units(units)} {mean:.2%} ± {error:.2%} over {len(these)} models ({few:.2%} on the paper's number of "
            "test sequences)"
        )
    below = [row for row in rows if row["agreement"] < ENOUGH]
    note = "; ".join(
        f"on model {row['hmm']} with {_units(row['units'])} {row['agreement']:.2%} agree; where not, {margin_of(row)}"
        for row in below
    )
    return Claim(
        f"{who} as the forward algorithm does (section 4.1, figure 5: exactly the same on 100 test sequences); here: "
        f"mean agreement of at least {ENOUGH:.0%} over the models drawn.",
        f"agreement: {'; '.join(measured)}",
        holds,
        _sentence(note),
    )


def _over_models(rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """The mean over models, and its standard error from how far they are apart (or from the test, for one model)."""
    values = np.array([row[name] for row in rows])
    if len(values) == 1:
        return float(values[0]), rows[0].get(f"{name}_error", 0.0)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _single(rows: list[dict[str, Any]], tried: list[dict[str, Any]]) -> Claim:
    reached = sum(row["agreement"] >= ENOUGH for row in tried)
    claim = _recovers(rows, "Even networks with a single unit, the best of several beginnings on validation, predict")
    return replace(claim, measured=f"{claim.measured}; {reached} of {len(tried)} beginnings reach {ENOUGH:.0%}")


def _not_better(rows: list[dict[str, Any]]) -> Claim:
    most = max(rows, key=lambda row: row["advantage"] / max(row["advantage_error"], 1e-12))
    holds = all(row["advantage"] <= 3 * row["advantage_error"] for row in rows)
    return Claim(
        "No network outperforms the forward algorithm, whose accuracy is the best possible (section 4.1); here: "
        "nowhere more accurate by over three standard errors of the paired difference.",
        f"largest advantage of {len(rows)} networks: {most['advantage']:+.3%} ± {most['advantage_error']:.3%} "
        f"(model {most['hmm']}, {_units(most['units'])})",
        holds,
    )


def _every_model(rows: list[dict[str, Any]]) -> Claim:
    """Whether it hangs on the model that was drawn."""
    measured, reasons, holds = [], [], True
    for units in sorted({row["units"] for row in rows}):
        these = [row for row in rows if row["units"] == units]
        reached = sum(row["agreement"] >= ENOUGH for row in these)
        least = min(these, key=lambda row: row["agreement"])
        measured.append(
            f"{_units(units)} on {reached} of {len(these)} (least {least['agreement']:.2%}, where "
            f"{least['lost_accuracy']:.3%} of accuracy is lost)"
        )
        if reached < len(these):
            holds = False
            reasons.append(_why(units, least))
    return Claim(
        "The same holds whatever model is drawn (the paper shows one); here: agreement of at least "
        f"{ENOUGH:.0%} on every model drawn.",
        "; ".join(measured),
        holds,
        _sentence("; ".join(reasons)),
    )


def _why(units: int, row: dict[str, Any]) -> str:
    if units == 1:
        return (
            "one tanh unit bends log-odds in one way, which the transition probabilities of some models do not fit "
            f"(divergence {row['divergence']:.4f} nats a step)"
        )
    return (
        f"with {units} units beliefs are right to {row['divergence']:.5f} nats a step, and where predictions differ "
        f"{margin_of(row)}"
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _units(count: int) -> str:
    return f"{count} unit{'s' if count > 1 else ''}"


def _listed(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))


def plot(tables: Tables) -> list[Chart]:
    """Accuracy at each step on the paper's number of test sequences and on many; agreement of all networks."""
    steps = [row for row in tables["steps"] if row["hmm"] == 1]
    few, many = sorted({row["test_sequences"] for row in steps})
    return [
        _accuracy_chart([row for row in steps if row["test_sequences"] == few], few),
        _accuracy_chart([row for row in steps if row["test_sequences"] == many], many),
        _agreement_chart(tables["networks"]),
        _lost_chart(tables["networks"]),
    ]


def _accuracy_chart(rows: list[dict[str, Any]], sequences: int) -> Chart:
    units = sorted({row["units"] for row in rows})
    one = [row for row in rows if row["units"] == units[0]]
    layers: list[Layer] = [
        Line(
            [row["step"] for row in one],
            [row["forward_accuracy"] for row in one],
            [row["forward_accuracy_error"] for row in one],
            name="forward algorithm",
            colour="ink",
        )
    ]
    for place, count in enumerate(units):
        these = [row for row in rows if row["units"] == count]
        layers.append(
            Line(
                [row["step"] for row in these],
                [row["accuracy"] for row in these],
                marks=True,
                dashed=True,
                name=_units(count),
                colour=place,
            )
        )
    return Chart(
        f"{sequences:,} test sequences",
        "step",
        "accuracy of the hidden state",
        layers,
        note="Bars are standard errors. Networks that predict as the forward algorithm does lie on its line.",
    )


def _agreement_chart(rows: list[dict[str, Any]]) -> Chart:
    return Chart(
        "Agreement with the forward algorithm",
        "hidden Markov model",
        "share of equal predictions",
        [*_by_units(rows, "agreement"), Rule(ENOUGH, name=f"{ENOUGH:.0%}", colour="grey")],
        x_names=_models(rows),
        note="One point for each network: those of one column differ in their beginning only.",
    )


def _lost_chart(rows: list[dict[str, Any]]) -> Chart:
    return Chart(
        "What disagreement costs",
        "hidden Markov model",
        "expected accuracy lost",
        _by_units(rows, "lost_accuracy"),
        x_names=_models(rows),
        note="One point for each network. Predictions that differ only at near ties cost next to nothing.",
    )


def _models(rows: list[dict[str, Any]]) -> list[str]:
    return [str(hmm) for hmm in sorted({row["hmm"] for row in rows})]


def _by_units(rows: list[dict[str, Any]], name: str) -> list[Layer]:
    units = sorted({row["units"] for row in rows})
    layers: list[Layer] = []
    for place, count in enumerate(units):
        these = [row for row in rows if row["units"] == count]
        layers.append(
            Points(
                [row["hmm"] - 1 + 0.2 * (place - (len(units) - 1) / 2) for row in these],
                [row[name] for row in these],
                labels=[f"HMM {row['hmm']}, seed {row['seed']}{', chosen' if row['chosen'] else ''}" for row in these],
                name=_units(count),
                colour=place,
            )
        )
    return layers
