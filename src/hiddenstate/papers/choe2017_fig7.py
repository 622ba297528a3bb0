"""Networks of k units beside particle filters of k particles, on a hidden Markov model with 5 states and 10 symbols.

Choe, Shin and Spencer (2017, section 4.2, figure 7) compare both with the forward algorithm at equal sizes. Which sizes
is not said in words. The filter knows the true probabilities and predicts the state that most of its particles are in,
by weight; the network learned from labelled sequences. Weights are the proper ones (`particle_beliefs`).

Beside the state that most particles are in stand two others. `summed_` in the tables is the one that is most probable
given where the particles were a step before: the last move is summed out and not drawn. `ideal_` is the one that most
of k independent draws from the forward algorithm's own belief are in: particles that move independently of each other,
and are counted, can hardly be expected to agree more often than that.
"""

from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.papers.labelled_hmm import (
    LabelledHMM,
    beliefs_of,
    compare_predictions,
    draw_labelled,
    joined,
    learn_states,
    margin_of,
    summary_of,
)
from hiddenstate.papers.paper import Claim, Notebook, Tables
from hiddenstate.papers.particle_beliefs import filter_of, filtered_states, last_move_summed
from hiddenstate.report.charts import Chart, Line

TITLE = "Networks and particle filters of equal size beside the forward algorithm"
SOURCE = "Choe, Shin and Spencer 2017, section 4.2, figure 7"

ENOUGH = 0.995
"""The agreement with the forward algorithm that counts as performing identically."""

MANY = 10_000
"""From so many particles on a filter is asked to perform identically."""


@dataclass(frozen=True)
class Config:
    """`sizes` are numbers of units and of particles; filters alone also have the sizes `many`.

    Each filter runs over the test sequences `filter_seeds` times, those with many particles over `many_test` of them.
    """

    hmms: int
    states: int
    symbols: int
    sizes: tuple[int, ...]
    many: tuple[int, ...]
    seeds: int
    learning_rate: float
    weight_decay: float
    train: int
    validation: int
    test: int
    many_test: int
    filter_seeds: int
    updates: int
    batch_size: int


QUICK = Config(
    hmms=1,
    states=5,
    symbols=10,
    sizes=(1, 5, 50),
    many=(10_000, 100_000),
    seeds=2,
    learning_rate=0.01,
    weight_decay=0.1,
    train=5000,
    validation=500,
    test=1000,
    many_test=200,
    filter_seeds=2,
    updates=400,
    batch_size=200,
)
FULL = Config(
    hmms=3,
    states=5,
    symbols=10,
    sizes=(1, 2, 5, 10, 20, 50, 100),
    many=(1000, 10_000, 100_000),
    seeds=4,
    learning_rate=0.01,
    weight_decay=0.1,
    train=20_000,
    validation=2000,
    test=5000,
    many_test=500,
    filter_seeds=4,
    updates=2000,
    batch_size=200,
)


def model_keys(config: Any, key: PRNGKeyArray) -> list[tuple[PRNGKeyArray, PRNGKeyArray]]:
    """For each hidden Markov model a key to draw it with, and one for all else."""
    return [tuple(jr.split(one)) for one in jr.split(key, config.hmms)]


def draw(config: Any, key: PRNGKeyArray) -> LabelledHMM:
    """The hidden Markov model of the experiment with its sequences."""
    return draw_labelled(
        config.states, config.symbols, train=config.train, validation=config.validation, test=config.test, key=key
    )


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """For each size a part for the network and one for the filter."""
    notebook.expect(config.hmms * (2 * len(config.sizes) + len(config.many)))
    rows = []
    for hmm, (draw_key, other_key) in enumerate(model_keys(config, key), 1):
        for size in (*config.sizes, *config.many):
            size_key = jr.fold_in(other_key, size)
            for kind, work in (("network", _network), ("particles", _particles)):
                if kind == "network" and size in config.many:
                    continue

                def part(kind=kind, work=work, size=size, hmm=hmm, draw_key=draw_key, size_key=size_key) -> dict:
                    found = work(config, draw(config, draw_key), size, size_key)
                    return {"hmm": hmm, "kind": kind, "size": size, **found}

                rows.append(notebook.part(f"HMM {hmm}, {kind} {size}", part))
    return {"sizes": rows}


def _network(config: Config, drawn: LabelledHMM, units: int, key: PRNGKeyArray) -> dict[str, Any]:
    fits = learn_states(
        drawn,
        units,
        seeds=config.seeds,
        updates=config.updates,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        key=key,
    )
    predicted = beliefs_of(fits.best.model, drawn.test).argmax(axis=-1)
    return summary_of(compare_predictions(predicted, drawn.optimal().filtered, drawn.hidden))


def _particles(config: Config, drawn: LabelledHMM, particles: int, key: PRNGKeyArray) -> dict[str, Any]:
    """The means over all runs of the filter: the sequences are the same in each, the random numbers are not."""
    filter_key, run_key = jr.split(key)
    ideal_key = jr.fold_in(key, particles)
    chosen = slice(config.many_test if particles in config.many else None)
    symbols, forward, hidden = drawn.symbols[chosen], drawn.optimal().filtered[chosen], drawn.hidden[chosen]
    filtering = filter_of(drawn.task, particles, key=filter_key)
    counted, summed, ideal = [], [], []
    for run_number, one in enumerate(jr.split(run_key, config.filter_seeds)):
        beliefs = filtered_states(filtering, symbols, key=one)
        counted.append(compare_predictions(beliefs.argmax(axis=-1), forward, hidden))
        likely = last_move_summed(drawn.task, beliefs, symbols).argmax(axis=-1)
        summed.append(compare_predictions(likely, forward, hidden))
        drawn_states = most_drawn(forward, particles, key=jr.fold_in(ideal_key, run_number))
        ideal.append(compare_predictions(drawn_states, forward, hidden))
    found = summary_of(joined(counted, axis=1))
    for kind, comparisons in (("summed", summed), ("ideal", ideal)):
        found |= {f"{kind}_{name}": value for name, value in summary_of(joined(comparisons, axis=1)).items()}
    return found


def most_drawn(beliefs: np.ndarray, draws: int, *, key: PRNGKeyArray) -> np.ndarray:
    """The state that most of so many independent draws from each belief (..., state) are in."""
    return np.asarray(jr.multinomial(key, draws, jnp.asarray(beliefs, jnp.float32))).argmax(axis=-1)


def means_over_models(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """One row for each size of that kind: means over models, with standard errors from the test sequences."""
    means = []
    for size in sorted({row["size"] for row in rows if row["kind"] == kind}):
        these = [row for row in rows if row["kind"] == kind and row["size"] == size]
        mean: dict[str, Any] = {"kind": kind, "size": size, "models": len(these)}
        for name in these[0]:
            if name not in ("hmm", "kind", "size"):
                values = np.array([row[name] for row in these], float)
                spread = np.sqrt((values**2).sum()) / len(values)
                mean[name] = float(spread if name.endswith("_error") else values.mean())
        means.append(mean)
    return means


def claims(tables: Tables) -> list[Claim]:
    """The network agrees more and predicts better at every equal size, also than a filter with its last move summed
    out; filters of many particles are exact.
    """
    networks = {row["size"]: row for row in means_over_models(tables["sizes"], "network")}
    filters = {row["size"]: row for row in means_over_models(tables["sizes"], "particles")}
    equal = [size for size in networks if size in filters]
    agrees = "agrees more with the forward algorithm"
    found = [
        _ahead(networks, filters, equal, "agreement", agrees),
        _ahead(networks, filters, equal, "accuracy", "predicts hidden states more accurately"),
        _ahead(networks, filters, equal, "agreement", agrees, reading="summed_"),
    ]
    return found + [_identical(filters[size]) for size in filters if size >= MANY]


def _ahead(
    networks: dict[int, dict[str, Any]],
    filters: dict[int, dict[str, Any]],
    sizes: list[int],
    name: str,
    does: str,
    reading: Literal["", "summed_"] = "",
) -> Claim:
    gaps, errors = {}, {}
    for size in sizes:
        network, particles = networks[size], filters[size]
        gaps[size] = network[name] - particles[reading + name]
        errors[size] = float(np.hypot(network[f"{name}_error"], particles[f"{reading}{name}_error"]))
    behind = [size for size in sizes if gaps[size] <= 0]
    reasons = [
        f"with {size} the filter, which is given the true probabilities, lacks "
        f"{filters[size][f'{reading}lost_accuracy']:.2%} of the best accuracy, the network, which has to learn them, "
        f"{networks[size]['lost_accuracy']:.2%}"
        for size in behind
    ]
    read = "; here: even than one whose last move is summed out" if reading else ""
    return Claim(
        f"With k units a network {does} than a filter with k particles does, for every k "
        f"(section 4.2, figure 7){read}.",
        "; ".join(
            f"{size}: {networks[size][name]:.1%} against {filters[size][reading + name]:.1%} "
            f"({gaps[size]:+.2%} ± {errors[size]:.2%})"
            for size in sizes
        ),
        not behind,
        f"It is behind: {'; '.join(reasons)}." if behind else "",
    )


def _identical(row: dict[str, Any]) -> Claim:
    """Counted particles must agree often enough, or, where draws from the exact beliefs would not, with them summed."""
    within_reach = row["ideal_agreement"] >= ENOUGH
    reading = "where its particles are counted" if within_reach else "where the last move is summed out"
    notes = []
    if not within_reach:
        notes.append(
            f"Counting cannot reach it: of {row['size']:,} independent draws from the forward algorithm's own belief "
            f"most are in its most probable state in {row['ideal_agreement']:.2%} of the steps only."
        )
    if row["agreement"] < 1:
        notes.append(f"Where predictions by counted particles differ, {margin_of(row)}.")
    return Claim(
        "With enough particles a particle filter performs identically to the forward algorithm (section 4.2); here: "
        f"{row['size']:,} agree with it in at least {ENOUGH:.1%} of the steps, {reading}.",
        f"counted {row['agreement']:.2%} ± {row['agreement_error']:.2%}, last move summed out "
        f"{row['summed_agreement']:.2%} ± {row['summed_agreement_error']:.2%}, independent draws from the exact belief "
        f"{row['ideal_agreement']:.2%} ± {row['ideal_agreement_error']:.2%}; accuracy lost by counted ones "
        f"{row['lost_accuracy']:.4%}",
        row["agreement" if within_reach else "summed_agreement"] >= ENOUGH,
        " ".join(notes),
    )


def plot(tables: Tables) -> list[Chart]:
    """The two panels of the figure."""
    networks = means_over_models(tables["sizes"], "network")
    filters = means_over_models(tables["sizes"], "particles")

    def line(rows: list[dict[str, Any]], name: str, title: str, colour: Any, *, dashed: bool = False) -> Line:
        return Line(
            [row["size"] for row in rows],
            [row[name] for row in rows],
            [row[f"{name}_error"] for row in rows],
            marks=not dashed,
            dashed=dashed,
            name=title,
            colour=colour,
        )

    return [
        Chart(
            "Prediction of the hidden state",
            "units or particles",
            "accuracy",
            [
                line(filters, "forward_accuracy", "forward algorithm", "ink", dashed=True),
                line(networks, "accuracy", "network", 0),
                line(filters, "accuracy", "particle filter", 1),
            ],
            x_scale="log",
            note="A unit holds a number, a particle one of the states: at equal size the network knows more. Filters "
            "with the most particles run over fewer sequences, on which the forward algorithm's accuracy is another.",
        ),
        Chart(
            "Agreement with the forward algorithm",
            "units or particles",
            "share of equal predictions",
            [
                line(networks, "agreement", "network", 0),
                line(filters, "agreement", "particle filter", 1),
                line(filters, "summed_agreement", "particle filter, last move summed out", 2),
                line(filters, "ideal_agreement", "draws from the exact belief", "ink", dashed=True),
            ],
            x_scale="log",
            note="With many particles the filter predicts as the forward algorithm does. Summing out the last move, "
            "which is known given the particles before it, takes its noise away. The dashed line is as far as counting "
            "goes: so many independent draws from the belief of the forward algorithm itself.",
        ),
    ]
