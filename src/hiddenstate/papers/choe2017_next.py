r"""How far next-symbol predictions are from the best possible: networks, and particle filters of the same size.

Choe, Shin and Spencer (2017, end of section 4.1.1) say that predicting the hidden state is only half of estimating
:math:`p(X_{t+1} \mid X_1, \dots, X_t)`, and leave this probability for later. Here it is compared, on the hidden Markov
models of figure 7, by the Kullback-Leibler divergence from the optimum. The network models the symbols alone and never
sees a hidden state; the filters know the true probabilities. By the convention of this library the state at t has seen
:math:`x_1, \dots, x_{t-1}`, so the symbol at t is predicted from it, the first one too.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Column, Pairs, Schema, Sequences
from hiddenstate.inference import predictive
from hiddenstate.learn import fit_seeds
from hiddenstate.papers.choe2017_fig7 import draw, means_over_models, model_keys
from hiddenstate.papers.labelled_hmm import LENGTH, LabelledHMM, divergence, falling, mean_and_error
from hiddenstate.papers.paper import Claim, Notebook, Tables
from hiddenstate.papers.particle_beliefs import filter_of, predicted_symbols
from hiddenstate.papers.timing import exponent
from hiddenstate.report.charts import Chart, Layer, Line, Rule

TITLE = "Next-symbol predictions of networks and particle filters beside the optimum"
SOURCE = "Choe, Shin and Spencer 2017, section 4.1.1 (left there for later)"

KINDS = {
    "network": "network",
    "bootstrap": "particle filter",
    "guided": "particle filter, guided",
}
"""What predicts, and its name in charts."""


@dataclass(frozen=True)
class Config:
    """`sizes` are numbers of units and of particles; each filter runs `filter_seeds` times over the test sequences."""

    hmms: int
    states: int
    symbols: int
    sizes: tuple[int, ...]
    seeds: int
    learning_rate: float
    train: int
    validation: int
    test: int
    filter_seeds: int
    updates: int
    batch_size: int


QUICK = Config(
    hmms=1,
    states=5,
    symbols=10,
    sizes=(1, 10, 100),
    seeds=2,
    learning_rate=0.01,
    train=5000,
    validation=500,
    test=1000,
    filter_seeds=2,
    updates=400,
    batch_size=200,
)
FULL = Config(
    hmms=3,
    states=5,
    symbols=10,
    sizes=(1, 2, 5, 10, 20, 50, 100),
    seeds=4,
    learning_rate=0.01,
    train=20_000,
    validation=2000,
    test=5000,
    filter_seeds=4,
    updates=2000,
    batch_size=200,
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """For each size one part for the network and one for each filter."""
    notebook.expect(config.hmms * len(config.sizes) * len(KINDS))
    tables: Tables = {"sizes": [], "steps": []}
    for hmm, (draw_key, other_key) in enumerate(model_keys(config, key), 1):
        for size in config.sizes:
            for kind in KINDS:

                def part(hmm=hmm, size=size, kind=kind, draw_key=draw_key, other_key=other_key) -> Tables:
                    found = _part(config, draw(config, draw_key), kind, size, jr.fold_in(other_key, size))
                    return {
                        name: [{"hmm": hmm, "kind": kind, "size": size, **row} for row in found[name]] for name in found
                    }

                found = notebook.part(f"HMM {hmm}, {kind} {size}", part)
                for name in tables:
                    tables[name] += found[name]
    return tables


def _part(config: Config, drawn: LabelledHMM, kind: str, size: int, key: PRNGKeyArray) -> Tables:
    optimal = drawn.optimal().predictive
    if kind == "network":
        runs = [_by_network(config, drawn, size, key)]
    else:
        runs = _by_particles(config, drawn, kind, size, key)
    nats = np.mean([divergence(optimal, said) for said in runs], axis=0)
    mean, error = mean_and_error(nats)
    blind, _ = mean_and_error(divergence(optimal, without_memory(drawn)))
    steps = []
    for t in range(LENGTH):
        at_step, at_step_error = mean_and_error(nats[:, t])
        steps.append({"step": t + 1, "divergence": at_step, "divergence_error": at_step_error})
    return {"sizes": [{"divergence": mean, "divergence_error": error, "without_memory": blind}], "steps": steps}


def without_memory(drawn: LabelledHMM) -> np.ndarray:
    """p(x_t) with the true probabilities, for one who has seen nothing: (time, symbol)."""
    task = drawn.task
    belief, rows = task.initial, []
    for _ in range(LENGTH):
        rows.append(belief @ task.emission)
        belief = belief @ task.transition
    return np.array(rows)


def _symbols_of(pairs: Pairs, symbols: int) -> Sequences:
    """What was read, without the start symbol: a network of sequences learns its first state anyway."""
    return Sequences.padded(pairs.sources.values[:, 1:], schema=Schema((Column("x", "symbol", symbols),), scalar=True))


def _by_network(config: Config, drawn: LabelledHMM, units: int, key: PRNGKeyArray) -> np.ndarray:
    train, validation, test = (
        _symbols_of(pairs, config.symbols) for pairs in (drawn.train, drawn.validation, drawn.test)
    )
    fits = fit_seeds(
        partial(_network, train, units),
        train,
        falling(config.updates, config.batch_size, config.learning_rate),
        key=key,
        seeds=config.seeds,
        validation=validation,
        progress=False,
    )
    predictions: Any = predictive(fits.best.model, test)
    return np.asarray(predictions.probs, np.float64)


def _network(data: Sequences, units: int, key: PRNGKeyArray) -> Any:
    return build("vanilla", data, hidden=units, key=key)


def _by_particles(config: Config, drawn: LabelledHMM, kind: str, size: int, key: PRNGKeyArray) -> list[np.ndarray]:
    filter_key, run_key = jr.split(key)
    filtering = filter_of(drawn.task, size, kind, key=filter_key)
    keys = jr.split(run_key, config.filter_seeds)
    return [predicted_symbols(filtering, drawn.symbols, key=one) for one in keys]


def claims(tables: Tables) -> list[Claim]:
    """The network is nearer at every equal size; divergences of filters fall like one over the particles."""
    means = {kind: means_over_models(tables["sizes"], kind) for kind in KINDS}
    return [_nearer(means, "bootstrap"), _nearer(means, "guided"), *_slopes(means)]


def _nearer(means: dict[str, list[dict[str, Any]]], kind: str) -> Claim:
    pairs = list(zip(means["network"], means[kind], strict=True))
    holds = all(network["divergence"] < other["divergence"] for network, other in pairs)
    moved = {
        "bootstrap": "whose particles move as the model does",
        "guided": "whose particles know where they would be seen (guided, mixed over p(x_t | H_{t-1}))",
    }[kind]
    reason = (
        "A guided filter averages over all next states of each particle with the true probabilities, which the network "
        "has to learn from its sequences."
    )
    divergences = [network["divergence"] for network, _ in pairs]
    least = int(np.argmin(divergences))
    if divergences[-1] > 1.1 * divergences[least]:
        reason += (
            f" Networks of more than {pairs[least][0]['size']} units end farther away, as they would if they "
            "learned their sequences by heart: no weights decay here."
        )
    return Claim(
        "What figure 7 shows of hidden states holds of next symbols too: with k units a network is nearer to the "
        f"optimal prediction than a filter with k particles, {moved}, for every k (the paper leaves this open).",
        "nats a step: "
        + "; ".join(
            f"{network['size']}: {network['divergence']:.4f} ± {network['divergence_error']:.4f} against "
            f"{other['divergence']:.4f} ± {other['divergence_error']:.4f}"
            for network, other in pairs
        ),
        holds,
        "" if holds else reason if kind == "guided" else "Where particles are many the filter is the nearer one.",
    )


def _slopes(means: dict[str, list[dict[str, Any]]]) -> list[Claim]:
    """With many particles the divergence is half the relative variance of the prediction, which falls like 1 / k."""
    rows = [row for row in means["bootstrap"] if row["size"] >= 10]
    if len(rows) < 2:
        return []
    slope = exponent([row["size"] for row in rows], [row["divergence"] for row in rows])
    return [
        Claim(
            "The filter's prediction tends to the optimum, by a divergence that falls like one over the particles "
            "(half the relative variance of an average); here: the power of k, from 10 on, is within 0.2 of -1.",
            f"power {slope:.2f} between {rows[0]['size']} and {rows[-1]['size']} particles",
            abs(slope + 1) <= 0.2,
        )
    ]


def plot(tables: Tables) -> list[Chart]:
    """Divergence against size, and at each step for the largest size."""
    sizes: list[Layer] = []
    for colour, (kind, name) in enumerate(KINDS.items()):
        rows = means_over_models(tables["sizes"], kind)
        sizes.append(_line([row["size"] for row in rows], rows, name, colour))
    blind = means_over_models(tables["sizes"], "network")[0]["without_memory"]
    largest = max(row["size"] for row in tables["steps"])
    steps: list[Layer] = []
    for colour, (kind, name) in enumerate(KINDS.items()):
        rows = [row for row in tables["steps"] if (row["hmm"], row["kind"], row["size"]) == (1, kind, largest)]
        steps.append(_line([row["step"] for row in rows], rows, name, colour))
    return [
        Chart(
            "Next symbols: distance to the optimum",
            "units or particles",
            "divergence (nats a step)",
            [*sizes, Rule(blind, name="without memory", colour="grey")],
            x_scale="log",
            y_scale="log",
            note="Filters come as near as one likes with more particles; a network as near as its data teach.",
        ),
        Chart(
            f"At each step, size {largest}",
            "step",
            "divergence (nats)",
            steps,
            y_scale="log",
            note="The first hidden Markov model.",
        ),
    ]


def _line(x: list[Any], rows: list[dict[str, Any]], name: str, colour: int) -> Line:
    return Line(
        x,
        [row["divergence"] for row in rows],
        [row["divergence_error"] for row in rows],
        marks=True,
        name=name,
        colour=colour,
    )
