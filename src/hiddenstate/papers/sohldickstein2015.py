"""Recurrent networks as variational Bayesian models: a bound that is reached, noise that vanishes, many particles."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.papers.noisy_states import bound_and_likelihood, learned_noise, noise_sweep
from hiddenstate.papers.paper import Claim, Notebook, Tables
from hiddenstate.papers.several_particles import ONCE, REDRAWN, contestant, distances, weightings
from hiddenstate.report.charts import Bars, Chart, Line

TITLE = "The likelihood of a recurrent network as a variational bound, and several particles"
SOURCE = "Sohl-Dickstein and Kingma 2015"


@dataclass(frozen=True)
class Config:
    """`cells` are those whose bound is set beside their likelihood, `noisy_cells` those whose noise is learned.

    Noise of each of `scales` is added to networks learned by `sweep_steps` updates; the bound is a mean of `samples`
    draws, the filter beside it has `filter_particles`. Noise that starts at 1 is learned in `stretches` of `updates`.
    Contests of particles have `sequences` to learn from, as many to stop by and as many held out, and `steps` updates
    from each of `contest_seeds`.
    """

    cells: tuple[str, ...]
    seeds: int
    scales: tuple[float, ...]
    sweep_sequences: int
    sweep_steps: int
    samples: int
    filter_particles: int
    noisy_cells: tuple[str, ...]
    stretches: int
    updates: int
    networks: int
    contest_seeds: int
    sequences: int
    steps: int
    distance_length: int


QUICK = Config(
    cells=("vanilla", "lstm"),
    seeds=3,
    scales=(0.01, 0.03, 0.1, 0.3),
    sweep_sequences=100,
    sweep_steps=200,
    samples=20,
    filter_particles=100,
    noisy_cells=("vanilla",),
    stretches=4,
    updates=100,
    networks=3,
    contest_seeds=6,
    sequences=400,
    steps=500,
    distance_length=20,
)
FULL = Config(
    cells=("vanilla", "leaky", "skip", "gru", "lstm", "mingru", "minlstm", "linear", "gated-leaky"),
    seeds=5,
    scales=(0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    sweep_sequences=500,
    sweep_steps=600,
    samples=100,
    filter_particles=500,
    noisy_cells=("vanilla", "gru"),
    stretches=4,
    updates=200,
    networks=20,
    contest_seeds=8,
    sequences=1000,
    steps=1200,
    distance_length=40,
)

DISTANCE_CELLS = ("mingru", "gru")


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """Bounds and noise first, then particles, each contestant a part of its own."""
    notebook.expect(4 + len(config.noisy_cells) + len(REDRAWN) + len(ONCE))
    bound_key, sweep_key, noise_key, weighting_key, contest_key, distance_key = jr.split(key, 6)
    sizes: dict[str, Any] = {"sequences": config.sequences, "steps": config.steps, "seeds": config.contest_seeds}

    def contest(once: bool) -> list[dict[str, Any]]:
        when = "drawn once" if once else "redrawn"
        return [
            row
            for name in (ONCE if once else REDRAWN)
            for row in notebook.part(
                f"modes {when}: {name}",
                lambda name=name: contestant(name, once=once, key=contest_key, **sizes),
            )
        ]

    return {
        "bounds": notebook.part(
            "bound and likelihood without noise", lambda: bound_and_likelihood(config.cells, 16, bound_key)
        ),
        "sweep": notebook.part(
            "the bound against the scale of noise",
            lambda: noise_sweep(
                config.scales,
                config.sweep_sequences,
                config.sweep_steps,
                config.seeds,
                config.samples,
                config.filter_particles,
                sweep_key,
            ),
        ),
        "noise": [
            row
            for cell in config.noisy_cells
            for row in notebook.part(
                f"noise that is learned: {cell}",
                lambda cell=cell: learned_noise(cell, config.stretches, config.updates, 64, config.seeds, noise_key),
            )
        ],
        "weightings": notebook.part("both weightings", lambda: weightings(config.networks, weighting_key)),
        "particles": contest(once=False) + contest(once=True),
        "distances": notebook.part(
            "particles of untrained networks",
            lambda: distances(DISTANCE_CELLS, config.distance_length, distance_key),
        ),
    }


# -- claims ----------------------------------------------------------------------------------------------------


def claims(tables: Tables) -> list[Claim]:
    """What the paper says, and what this run says of it."""
    return [
        _bound_is_likelihood(tables),
        _noise_leaves_a_bound(tables),
        _best_without_noise(tables),
        _noise_is_learned_away(tables),
        _one_particle(tables),
        _equations_17_and_26(tables),
        _particles_for_modes(tables),
        _starts_suffice(tables, "once"),
        _starts_suffice(tables, "redrawn"),
        _where_each_weighting(tables),
    ]


def _bound_is_likelihood(tables: Tables) -> Claim:
    relative = {
        bits: max(r["largest_difference"] / r["size"] for r in tables["bounds"] if r["bits"] == bits)
        for bits in (32, 64)
    }
    cells = len({r["cell"] for r in tables["bounds"]})
    return Claim(
        "Without noise and with q = p the variational bound is the log-likelihood (equation 15): to 1e-5 of it in "
        "single and 1e-12 in double precision.",
        f"{cells} cells: largest relative difference {relative[32]:.1e} and {relative[64]:.1e}",
        relative[32] < 1e-5 and relative[64] < 1e-12,
    )


def _noise_leaves_a_bound(tables: Tables) -> Claim:
    top = max(r["scale"] for r in tables["sweep"])
    rows = [r for r in tables["sweep"] if r["scale"] == top]
    sure = [r["filtered_above"] - 2 * r["filtered_above_error"] for r in rows]
    mean = np.mean([r["filtered_above"] for r in rows])
    return Claim(
        "With noise the bound still holds but is no longer the log-likelihood (section 3): another bound, of a "
        "particle filter, is above it by more than two standard errors for every network.",
        f"noise of scale {top:g}: the filter's bound is {mean:.3f} nats per step above, over {len(rows)} networks "
        f"at least {min(r['filtered_above'] for r in rows):.3f}",
        min(sure) > 0,
    )


def _best_without_noise(tables: Tables) -> Claim:
    scales = sorted({r["scale"] for r in tables["sweep"]})
    seeds = sorted({r["seed"] for r in tables["sweep"]})
    lost = np.array(
        [[r["lost"] for s in scales for r in tables["sweep"] if (r["seed"], r["scale"]) == (seed, s)] for seed in seeds]
    )
    error = max(r["lost_error"] for r in tables["sweep"] if r["scale"] == scales[0])
    mean = lost.mean(axis=0)
    return Claim(
        "Noise-free dynamics is best for the bound with q = p (section 2.3): the more noise is added to a trained "
        "network, the more the bound lacks, at every scale and from every seed; the least noise may gain nothing "
        "beyond two standard errors.",
        "nats per step lost: " + ", ".join(f"{m:.4f} at scale {s:g}" for s, m in zip(scales, mean, strict=True)),
        bool((np.diff(lost, axis=1) > 0).all() and (lost[:, 0] > -2 * error).all()),
    )


def _noise_is_learned_away(tables: Tables) -> Claim:
    last = max(r["update"] for r in tables["noise"])
    left = np.array([r["scale"] for r in tables["noise"] if r["update"] == last])
    return Claim(
        "A scale of noise that is learned goes to zero (section 2.3): of a start at 1 less than 0.1 is left, for "
        "every cell and seed.",
        f"after {last} updates: {left.min():.1e} to {left.max():.1e} left, {len(left)} networks",
        bool(left.max() < 0.1),
        "Zero itself is never reached: the scale is kept positive, and falls towards it.",
    )


def _one_particle(tables: Tables) -> Claim:
    worst = max(r["single"] for r in tables["weightings"])
    total = max(abs(r[f"total_{w}"] - 1) for r in tables["weightings"] for w in ("step", "trajectory"))
    return Claim(
        "With L = 1 equation 17 is the plain network (equation 15), and with any L both weightings are normalised: "
        "to 1e-10.",
        f"{len(tables['weightings'])} networks: log-probabilities differ by {worst:.1e} at most; over all 64 sequences "
        f"probabilities sum to one to {total:.1e}",
        worst < 1e-10 and total < 1e-10,
    )


def _equations_17_and_26(tables: Tables) -> Claim:
    above = min(r["above"] for r in tables["weightings"])
    below = min(r["below"] for r in tables["weightings"])
    return Claim(
        "Equation 17, an average at every step, is a bound on equation 26, a mixture of whole trajectories "
        "(appendix A): it is nowhere above.",
        f"log-probabilities of single sequences: the average at every step is up to {above:.2f} nats above the "
        f"mixture of trajectories, and up to {below:.2f} below, in every one of {len(tables['weightings'])} networks",
        max(r["above"] for r in tables["weightings"]) < 1e-10,
        "A mean of products is not the product of means, and with q a delta function there is no Jensen inequality "
        "left that would lead from one to the other. Both are normalised, so neither can be below the other "
        "everywhere: they are two models.",
    )


def _particles_for_modes(tables: Tables) -> Claim:
    few, many = _nats(tables, "particles", "redrawn"), _nats(tables, "one state of 48", "redrawn")
    gain, error = _apart(many, few)
    sizes = {r["network"]: r["parameters"] for r in tables["particles"]}
    return Claim(
        "Several particles let simpler, lower dimensional states capture several modes (section 3.1): four "
        "particles of 12 units predict held-out sequences better than one state of 48, by more than two standard "
        "errors.",
        f"{few.mean():.3f} against {many.mean():.3f} nats per step, {gain:.3f} ± {error:.3f} apart over {len(few)} "
        f"seeds; {sizes['particles']} against {sizes['one state of 48']} parameters; best possible "
        f"{tables['particles'][0]['optimal']:.3f}",
        gain > 2 * error,
        "These particles have biases and weights of their own, which the paper does not give them: see the next "
        "claims.",
    )


def _starts_suffice(tables: Tables, task: str) -> Claim:
    printed, single = _nats(tables, "particles as printed", task), _nats(tables, "one state", task)
    gain, error = _apart(single, printed)
    best = next(r["optimal"] for r in tables["particles"] if r["task"] == task)
    lacking = float(single.mean()) - best
    left = {name: _distance_left(tables, name, task) for name in ("particles as printed", "particles")}
    untrained = {bias: _untrained_left(tables, "mingru", bias) for bias in (False, True)}
    when = "once, at the start" if task == "once" else "again every other step"
    holds = gain > 2 * error and gain > 0.25 * lacking
    note = "Particles that differ only in their first vector come together where the dynamics forget."
    if task == "once" and not holds:
        note += (
            " In equation 17 no particle gains weight by having been right: after the first step every one of them has "
            "to tell what the past told, as a single state has."
        )
    if task == "redrawn" and not holds:
        note += (
            " The second draw of a mode finds them nearer together: a start is of use only as long as it is remembered."
        )
    return Claim(
        "Different learned starts allow particles to explore different modes despite the same dynamics (section "
        "3.1): as printed, without biases of their own, they take a quarter of what one state of that size lacks "
        f"to the best possible, and more than two standard errors, where a mode is drawn {when}.",
        f"{printed.mean():.3f} against {single.mean():.3f} nats per step, {gain:.3f} ± {error:.3f} apart of "
        f"{lacking:.3f}; of their first distance {left['particles as printed']:.1e} is left at the last step, with "
        f"biases of their own {left['particles']:.1e}; in an untrained minGRU {untrained[False]:.1e} and "
        f"{untrained[True]:.1e}",
        holds,
        note,
    )


def _where_each_weighting(tables: Tables) -> Claim:
    once, once_error = _apart(_nats(tables, "particles", "once"), _nats(tables, "particles by trajectory", "once"))
    again, again_error = _apart(
        _nats(tables, "particles by trajectory", "redrawn"), _nats(tables, "particles", "redrawn")
    )
    return Claim(
        "The two weightings suit different data (the paper treats them as one): a mixture of trajectories predicts "
        "better where a mode is drawn once, an average at every step where it is drawn again, each by more than "
        "two standard errors.",
        f"drawn once: trajectories are {once:.3f} ± {once_error:.3f} nats per step ahead; redrawn: the average is "
        f"{again:.3f} ± {again_error:.3f} ahead",
        once > 2 * once_error and again > 2 * again_error,
    )


def _nats(tables: Tables, network: str, task: str) -> np.ndarray:
    return np.array([r["nats_per_step"] for r in tables["particles"] if (r["network"], r["task"]) == (network, task)])


def _apart(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The mean difference, one less the other, and its standard error; their seeds have nothing in common."""
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    return float(one.mean() - other.mean()), float(error)


def _distance_left(tables: Tables, network: str, task: str) -> float:
    rows = [r for r in tables["particles"] if (r["network"], r["task"]) == (network, task)]
    return float(np.mean([r["last_distance"] / r["first_distance"] for r in rows]))


def _untrained_left(tables: Tables, cell: str, bias: bool) -> float:
    rows = [r["distance"] for r in tables["distances"] if (r["cell"], r["bias"]) == (cell, bias)]
    return rows[-1] / rows[0]


# -- charts ----------------------------------------------------------------------------------------------------


def plot(tables: Tables) -> list[Chart]:
    """Noise as it is learned and as it costs, the contest, and particles that come together."""
    return [_noise_chart(tables), _sweep_chart(tables), _contest_chart(tables), _distance_chart(tables)]


def _noise_chart(tables: Tables) -> Chart:
    cells = list(dict.fromkeys(r["cell"] for r in tables["noise"]))
    lines = []
    for colour, cell in enumerate(cells):
        for seed in sorted({r["seed"] for r in tables["noise"]}):
            rows = [r for r in tables["noise"] if (r["cell"], r["seed"]) == (cell, seed)]
            x, y = [r["update"] for r in rows], [r["scale"] for r in rows]
            lines.append(Line(x, y, marks=True, name="" if seed else cell, colour=colour))
    note = "A scale that starts at 1 and is learned by the bound with q = p; a line for each seed."
    return Chart("Noise is learned away", "updates", "scale of the noise", lines, y_scale="log", note=note)


def _sweep_chart(tables: Tables) -> Chart:
    lines = []
    for seed in sorted({r["seed"] for r in tables["sweep"]}):
        rows = [r for r in tables["sweep"] if r["seed"] == seed]
        x, y = [r["scale"] for r in rows], [r["lost"] for r in rows]
        lines.append(Line(x, y, [r["lost_error"] for r in rows], marks=True, name="" if seed else "each seed"))
    return Chart(
        "What noise costs the bound",
        "scale of the noise that is added",
        "nats per step below the bound without",
        lines,
        x_scale="log",
        note="Networks learned without noise; held out, with standard errors over sequences.",
    )


def _contest_chart(tables: Tables) -> Chart:
    best = next(r["optimal"] for r in tables["particles"] if r["task"] == "redrawn")
    names = {name: _nats(tables, name, "redrawn") - best for name in REDRAWN}
    bars = Bars(
        list(names),
        [values.mean() for values in names.values()],
        [values.std(ddof=1) / np.sqrt(len(values)) for values in names.values()],
    )
    return Chart(
        "Four levels, drawn anew every other step",
        "",
        "nats per step above the best possible",
        [bars],
        note="Held out; means over seeds with standard errors. Fewer nats are better.",
    )


def _distance_chart(tables: Tables) -> Chart:
    lines = []
    for number, cell in enumerate(dict.fromkeys(r["cell"] for r in tables["distances"])):
        for bias in (False, True):
            rows = [r for r in tables["distances"] if (r["cell"], r["bias"]) == (cell, bias)]
            name = f"{cell}, {'biases of their own' if bias else 'as printed'}"
            x, y = [r["step"] for r in rows], [r["distance"] for r in rows]
            lines.append(Line(x, y, name=name, colour=number, dashed=bias))
    return Chart(
        "How far particles are apart, untrained",
        "step",
        "mean distance between two",
        lines,
        y_scale="log",
        note="Solid: particles that differ in their first vector only. Dashed: with biases of their own.",
    )
