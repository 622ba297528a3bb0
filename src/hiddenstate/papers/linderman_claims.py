"""What Linderman's lecture notes claim, checked on the tables of a run, and charts of these."""

from typing import Any

import numpy as np

from hiddenstate.papers.em_and_gradients import ADAM, PLAIN, WHOLE
from hiddenstate.papers.paper import Claim, Tables
from hiddenstate.papers.timing import exponent
from hiddenstate.papers.vanishing import RECALLERS
from hiddenstate.report.charts import Band, Bars, Chart, Layer, Line

ROUNDING = 1e-4
"""What counts as rounding in float32 over a hundred steps, relative to the largest number of a kind."""


def claims(tables: Tables) -> list[Claim]:
    """What the notes say, in the order of this run's parts."""
    return [
        *(_faster(tables["speeds"], method) for method in (WHOLE, PLAIN, ADAM)),
        *(_sooner(tables["speeds"], method) for method in (WHOLE, PLAIN, ADAM)),
        _counts_are_gradients(tables["counts"]),
        _softmax_takes_away(tables["counts"]),
        _network_is_exact(tables["predictions"]),
        _linear_system(tables["rates"]),
        _linear_decay(tables["rates"]),
        _lstm_keeps(tables["rates"]),
        _recalled(tables["recall"]),
        *_costs(tables["costs"]),
    ]


def _of(speeds: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [row for row in speeds if row["method"] == method]


def _faster(speeds: list[dict[str, Any]], method: str) -> Claim:
    rows = _of(speeds, method)
    ratios = np.array([max(row["passes"], 1) / max(row["em_passes"], 1) for row in rows])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    holds = bool(middle >= 2)
    return Claim(
        f"EM converges much faster than {method}: to the same loss, in at most half of the passes over the data "
        "(median of starts).",
        f"{method} at its best rate {rows[0]['rate']:g} needs {middle:.1f} times the passes of EM (quartiles "
        f"{low:.1f} to {high:.1f}, {len(rows)} starts); the last loss is lower by EM in {_lower(rows)} of {len(rows)}.",
        holds,
        "" if holds else _why_not_faster(rows, method),
    )


def _lower(rows: list[dict[str, Any]]) -> int:
    return sum(row["em_loss"] < row["loss"] for row in rows)


def _why_not_faster(rows: list[dict[str, Any]], method: str) -> str:
    fewer = sum(row["em_passes"] < row["passes"] for row in rows)
    if method == WHOLE:
        return f"EM needs fewer passes from {fewer} of {len(rows)} starts."
    return (
        f"EM needs fewer passes from {fewer} of {len(rows)} starts. The notes compare one maximisation with one "
        "gradient step; on minibatches there are several steps in a pass"
        + (", and Adam scales each of them." if method == ADAM else ".")
    )


def _sooner(speeds: list[dict[str, Any]], method: str) -> Claim:
    rows = _of(speeds, method)
    ratios = [max(row["passes"], 1) / max(row["em_passes"], 1) * _pass_ratio(row) for row in rows]
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    holds = bool(middle > 1)
    return Claim(
        f"In seconds, too, EM converges sooner than {method} (median of starts; a timing).",
        f"{method} needs {middle:.1f} times the seconds of EM (quartiles {low:.1f} to {high:.1f}).",
        holds,
        "" if holds else f"A pass of {method} takes {_pass_ratio(rows[0]):.2g} times as long as an iteration of EM.",
    )


def _pass_ratio(row: dict[str, Any]) -> float:
    """The seconds of a pass relative to those of an iteration of EM."""
    return row["seconds_per_pass"] / row["em_seconds_per_pass"]


def _counts_are_gradients(counts: list[dict[str, Any]]) -> Claim:
    worst = max(row["difference"] for row in counts if row["way"] == "log-normaliser")
    return Claim(
        "The derivatives of the log-normaliser with respect to log P and log C are the expected counts of the E step "
        f"(to rounding: {ROUNDING:g} of the largest count).",
        f"They differ by at most {worst:.1e} of the largest count.",
        worst < ROUNDING,
    )


def _softmax_takes_away(counts: list[dict[str, Any]]) -> Claim:
    chosen = [row for row in counts if row["way"] == "through the softmax"]
    worst, sums = max(row["difference"] for row in chosen), max(row["row_sum"] for row in chosen)
    return Claim(
        "The softmax does not see a constant that is added to a row, so that the gradient with respect to what goes "
        "through it sums to zero in every row.",
        f"Rows sum to at most {sums:.1e} of the largest count.",
        max(worst, sums) < ROUNDING,
        "So the gradient that SGD follows is not the expected count itself, as the notes may be read, but the count "
        f"less the row's sum times the probability (to {worst:.1e}): zero exactly where EM would go.",
    )


def _network_is_exact(predictions: list[dict[str, Any]]) -> Claim:
    worst = max(row["difference"] for row in predictions)
    return Claim(
        "HMMs are RNNs too: a network whose state is the normalised forward message predicts what the forward "
        "recursion predicts (to 1e-5).",
        f"Its {predictions[0]['predictions']} predictions differ from a loop in float64 by at most {worst:.1e}.",
        worst < 1e-5,
    )


def _linear_system(rates: list[dict[str, Any]]) -> Claim:
    worst = max(row["difference_from_autodiff"] for row in rates)
    return Claim(
        "Back-propagation through time is a linear dynamical system, s_t = A_t s_{t+1} + b_t.",
        f"Solved as one for {len(rates)} networks, it differs from automatic differentiation by at most {worst:.1e} "
        "of the largest entry.",
        worst < ROUNDING,
    )


def _linear_decay(rates: list[dict[str, Any]]) -> Claim:
    chosen = [row for row in rates if row["kind"] == "linear"]
    worst = max(abs(row["rate_per_step"] / row["spectral_radius"] - 1) for row in chosen)
    said = ", ".join(f"{row['rate_per_step']:.4f} for {row['spectral_radius']:g}" for row in chosen)
    return Claim(
        "In a linear network gradients decay exponentially, at the rate of the largest eigenvalue (to 1%).",
        f"The factor per step is {said}.",
        worst < 0.01,
        "" if worst < 0.01 else f"The largest deviation is {worst:.1%}.",
    )


def _lstm_keeps(rates: list[dict[str, Any]]) -> Claim:
    best = max((row for row in rates if row["kind"] == "LSTM"), key=lambda row: row["left_at_the_end"])
    others = [row for row in rates if row["kind"] == "vanilla"]
    holds = best["rate_per_step"] >= 0.99 > max(row["rate_per_step"] for row in others)
    shares = ", ".join(f"{row['left_at_the_end']:.1e} ({row['network']})" for row in [*others, best])
    return Claim(
        "Forget gates near one let gradients come back without vanishing, where those of a vanilla network with "
        "eigenvalues below one vanish (a factor per step of at least 0.99, and below that).",
        f"Of the gradient's norm there is left after {best['lags']} steps: {shares}.",
        holds,
        "Open forget gates do not keep gradients from growing." if best["rate_per_step"] > 1.01 else "",
    )


def _recalled(recall: list[dict[str, Any]]) -> Claim:
    delay = max(row["delay"] for row in recall)
    means = {
        name: np.array([row["accuracy"] for row in recall if (row["network"], row["delay"]) == (name, delay)])
        for name in RECALLERS
    }
    said = "; ".join(f"{name} {values.mean():.2f} ± {_error(values):.2f}" for name, values in means.items())
    holds = bool(means["LSTM"].mean() > means["vanilla"].mean() + 0.2)
    return Claim(
        f"Vanishing gradients hurt where an answer depends on what was seen long before: after {delay} blanks "
        "an LSTM gives a symbol back more often than a vanilla network (by at least 0.2; chance is 0.25).",
        f"Accuracy, mean and standard error over {len(means['LSTM'])} beginnings: {said}.",
        holds,
        ""
        if holds
        else f"{'Both learn' if means['vanilla'].mean() > 0.6 else 'Neither learns'} it with so many updates.",
    )


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


COSTS = (
    ("steps", "operations", "take time O(T)", 1.0, 0.1),
    ("units", "operations", "take O(K^2) operations a step", 2.0, 0.25),
    ("steps", "bytes", "take memory O(T) for the gradient", 1.0, 0.1),
    ("units", "bytes", "take memory O(K) for the gradient", 1.0, 0.25),
)
"""What is varied, what is counted, what the notes say, the power that this means, and how far it may be off."""


def _costs(rows: list[dict[str, Any]]) -> list[Claim]:
    return [_cost(rows, *said) for said in COSTS]


def _cost(rows: list[dict[str, Any]], varied: str, measure: str, statement: str, due: float, off: float) -> Claim:
    whats = ("gradient",) if measure == "bytes" else ("evaluation", "gradient")
    powers = {(m, what): _power(rows, m, what, varied, measure) for m in ("vanilla", "hmm") for what in whats}
    holds = all(abs(power - due) <= off for power in powers.values())
    said = ", ".join(f"{model} {what} {power:.2f}" for (model, what), power in powers.items())
    if measure == "operations":
        timed = [_power(rows, model, what, varied, "seconds") for model, what in powers]
        said += f" (seconds: {', '.join(f'{power:.2f}' for power in timed)})"
    return Claim(
        f"Networks and hidden Markov models alike {statement}: a power of {due:g} (within {off:g}, counted).",
        f"Powers: {said}.",
        holds,
        "" if holds else "What does not grow with this size is counted too, and counts where it is small.",
    )


def _power(rows: list[dict[str, Any]], model: str, what: str, varied: str, measure: str) -> float:
    own = [row for row in rows if (row["model"], row["what"], row["varied"]) == (model, what, varied)]
    if any(row[measure] is None for row in own):
        return float("nan")
    return exponent([row["size"] for row in own], [row[measure] for row in own])


# -- charts ----------------------------------------------------------------------------------------------------


def plot(tables: Tables) -> list[Chart]:
    """Convergence per pass and per second, gradients against lag, and recall."""
    return [
        _race(tables["convergence"], "passes", "passes over the data"),
        _race(tables["convergence"], "seconds", "seconds"),
        _lags(tables["norms"]),
        _recall_bars(tables["recall"]),
    ]


def _race(rows: list[dict[str, Any]], along: str, label: str) -> Chart:
    layers: list[Layer] = []
    for colour, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        own = [row for row in rows if row["method"] == method and row["passes"] > 0]
        x = [row[along] for row in own]
        shown = lambda name, own=own: [max(row[name], 1e-6) for row in own]  # noqa: E731
        layers.append(Band(x, shown("lower_quartile"), shown("upper_quartile"), colour=colour))
        layers.append(Line(x, shown("excess"), name=method, colour=colour))
    return Chart(
        f"EM and gradients, per {'pass' if along == 'passes' else 'second'}",
        label,
        "nats per step above the best",
        layers,
        x_scale="log",
        y_scale="log",
        note="The median of all starts, and the quartiles; each gradient method at its best learning rate.",
    )


def _lags(rows: list[dict[str, Any]]) -> Chart:
    names = list(dict.fromkeys(row["network"] for row in rows))
    layers = []
    for colour, name in enumerate(names):
        own = [row for row in rows if row["network"] == name and row["norm"] > 0]
        x, y = [row["lag"] for row in own], [row["norm"] for row in own]
        layers.append(Line(x, y, name=name, colour=colour, dashed=name.startswith("linear")))
    return Chart(
        "What a loss says to states before it",
        "steps before the loss",
        "norm of the gradient",
        layers,
        y_scale="log",
        note="A linear network's gradient falls by its largest eigenvalue at every step.",
    )


def _recall_bars(rows: list[dict[str, Any]]) -> Chart:
    delays = sorted({row["delay"] for row in rows})
    layers = []
    for colour, name in enumerate(RECALLERS):
        values = [
            [row["accuracy"] for row in rows if (row["network"], row["delay"]) == (name, delay)] for delay in delays
        ]
        errors = [_error(np.array(v)) for v in values]
        layers.append(
            Bars(
                [f"{delay} steps" for delay in delays],
                [float(np.mean(v)) for v in values],
                errors,
                name=name,
                colour=colour,
            )
        )
    return Chart("Giving a symbol back", "after a delay of", "accuracy", layers, note="Chance is 0.25.")
