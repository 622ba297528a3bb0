"""What the lecture slides claim, checked on the tables of a run, and their charts."""

from typing import Any

import numpy as np

from hiddenstate.papers.paper import Claim, Tables
from hiddenstate.report.charts import Bars, Chart, Line, Rule

CHANCE = 0.25


def claims(tables: Tables) -> list[Claim]:
    """What the slides say, and what this run says of it."""
    return [
        _time_constants(tables),
        _skips(tables),
        _gates(tables),
        _gains_compound(tables),
        _steps_at_cliffs(tables),
        _descents(tables),
        _less_powerful(tables),
        _at_once(tables),
        _shift(tables),
        _mitigated(tables),
    ]


def _time_constants(tables: Tables) -> Claim:
    return _remembers_longer(
        tables,
        "short time constants",
        "a wide range of them",
        'A wide range of time constants retains long-term context ("several ways to retain long-term context")',
    )


def _skips(tables: Tables) -> Claim:
    return _remembers_longer(
        tables,
        "no skips",
        "skips in time",
        "Skip connections in time improve longer-term retention (the same slide)",
        "Both begin with Glorot weights.",
    )


def _remembers_longer(tables: Tables, without: str, having: str, statement: str, note: str = "") -> Claim:
    delay = max(r["delay"] for r in tables["waiting"])
    before, after = (_right(tables["waiting"], name, delay) for name in (without, having))
    gain, error = _apart(after, before)
    return Claim(
        f"{statement}: of symbols asked for after the longest wait, more than two standard errors more are right than "
        f"with {without}, and at least a tenth more.",
        f"after {delay} steps: {after.mean():.2f} right with {having}, {before.mean():.2f} with {without}, chance "
        f"{CHANCE:g}; {gain:.2f} ± {error:.2f} apart over {len(after)} seeds",
        gain > 2 * error and gain > 0.1,
        note,
    )


def _gates(tables: Tables) -> Claim:
    constant, gated, lstm = (_right(tables["keeping"], n) for n in ("constant decay", "gated decay", "lstm"))
    gain, error = _apart(gated, constant)
    return Claim(
        'A large time constant keeps what is no longer needed, a gate can drop it ("gating can adapt time constants as '
        'needed"): where the last symbol shown is asked for, the same units with gated decay answer more than two '
        "standard errors more right than with constant decay.",
        f"right: constant {constant.mean():.2f}, gated {gated.mean():.2f}, LSTM {lstm.mean():.2f}, chance "
        f"{CHANCE:g}; gated and constant are {gain:.2f} ± {error:.2f} apart over {len(gated)} seeds",
        gain > 2 * error,
    )


def _gains_compound(tables: Tables) -> Claim:
    wrong, bounded = [], []
    for gain in sorted({r["gain"] for r in tables["norms"]}):
        linear, squashed = (_course(tables, name, gain) for name in ("identity", "tanh"))
        rate = np.exp(np.log(linear[-1] / linear[0]) / (len(linear) - 1))
        wrong.append(abs(rate / gain - 1))
        if gain > 1:
            bounded.append((squashed.max(), linear[-1]))
    largest, grown = max(bounded)
    return Claim(
        'Large gains compound with repeated application ("repeated application of large gains"): a linear state grows '
        "or fades by the gain at every step, to 1%; with tanh growth does not go on indefinitely.",
        f"growth per step is off by {max(wrong):.1e} at most; with tanh no norm exceeds {largest:.2f}, where the "
        f"linear one reaches {grown:.1f}",
        max(wrong) < 0.01 and all(top < end for top, end in bounded),
    )


def _steps_at_cliffs(tables: Tables) -> Claim:
    worse = {kind: _raised(tables, kind) for kind in ("relu", "tanh")}
    rows = [r for r in tables["cliffs"] if r["nonlinearity"] == "relu"]
    far, near = (np.median([r[f"{way}_distance"] for r in rows]) for way in ("plain", "clipped"))
    plain, clipped = worse["relu"]
    return Claim(
        "Gradient clipping mitigates gradient cliffs: in networks of rectified units, from the steepest place of a "
        "line, a plain step raises the loss more often than a clipped one does.",
        f"the plain step raises it in {plain} of {len(rows)} networks, the clipped one in {clipped}; median distances "
        f"{far:.2g} and {near:.2g}",
        plain > clipped,
        f"With tanh the plain step raises it in {worse['tanh'][0]} networks and the clipped one in {worse['tanh'][1]}: "
        "units that saturate bound what a step that is thrown far can lose.",
    )


def _raised(tables: Tables, nonlinearity: str) -> tuple[int, int]:
    """In how many networks a plain and a clipped step raise the loss, or lose it."""
    rows = [r for r in tables["cliffs"] if r["nonlinearity"] == nonlinearity]
    plain, clipped = (
        sum(r[f"{way}_loss"] is None or r[f"{way}_loss"] > r["loss"] for r in rows) for way in ("plain", "clipped")
    )
    return plain, clipped


def _descents(tables: Tables) -> Claim:
    plain, clipped = (_ends(tables, "relu", way) for way in ("plain", "clipped"))
    better, count = _lower(clipped, plain), len(plain)
    lost = [int((~np.isfinite(values)).sum()) for values in (plain, clipped)]
    saturating = _lower(_ends(tables, "tanh", "clipped"), _ends(tables, "tanh", "plain"))
    return Claim(
        "So training survives where it would be thrown off: at one learning rate, descent with clipping ends lower "
        "than without in more than two thirds of the networks of rectified units, and always with a finite loss.",
        f"clipped descent ends lower in {better} of {count} networks; median losses {_median(plain)} plain and "
        f"{_median(clipped)} clipped; {lost[0]} and {lost[1]} are not finite",
        better > 2 * count / 3 and lost[1] == 0,
        f"With tanh clipped descent ends lower in {saturating} of {count}: there it mostly makes steps smaller.",
    )


def _ends(tables: Tables, nonlinearity: str, way: str) -> np.ndarray:
    last = max(r["update"] for r in tables["descents"])
    return np.array(
        [
            np.inf if r["loss"] is None else r["loss"]
            for r in tables["descents"]
            if (r["nonlinearity"], r["way"], r["update"]) == (nonlinearity, way, last)
        ]
    )


def _lower(one: np.ndarray, other: np.ndarray) -> int:
    """In how many networks the first ends lower, or the second nowhere."""
    return int((~(other <= one)).sum())


def _less_powerful(tables: Tables) -> Claim:
    output, state = (
        [r for r in tables["feedback"] if r["network"] == name] for name in ("through the output", "through the state")
    )
    nats, best = (np.array([r["nats_per_step"] for r in rows]) for rows in (output, state))
    floor = output[0]["floor"]
    return Claim(
        'Feedback through the output alone is less powerful, as it may not contain all that is needed ("feedback only '
        'through the output"): on a cycle in which one symbol is followed by two others by turns it stays above the '
        "best of order one, and every network with state goes below.",
        f"output: {nats.min():.4f} nats per step at best, floor {floor:.4f}; state: {best.max():.4f} at worst, floor "
        f"{state[0]['floor']:.4f}; {len(nats)} seeds each",
        bool(nats.min() > floor - 1e-4 and best.max() < floor),
    )


def _at_once(tables: Tables) -> Claim:
    (row,) = tables["at_once"]
    return Claim(
        'With teacher forcing such a network runs all steps in parallel ("the exception to this rule"): its program '
        "has no loop over time, and the states are the same to 1e-6.",
        f"{row['loops_at_once']} loops, against {row['loops_with_state']} with state; states differ by "
        f"{row['difference']:.1e}",
        row["loops_at_once"] == 0 and row["loops_with_state"] > 0 and row["difference"] < 1e-6,
    )


def _shift(tables: Tables) -> Claim:
    forced, free = (_errors(tables, "teacher forcing", name) for name in ("forced", "on_means"))
    gap = free - forced
    growth, error = _mean(gap[:, -1] - gap[:, 0])
    return Claim(
        'Teacher forcing introduces a shift between training and inference ("teacher forcing"): fed its own means the '
        "error grows with the steps ahead beyond that when fed the truth, by more than two standard errors.",
        f"error of runs on their own means {free[:, 0].mean():.3f} at the first step and {free[:, -1].mean():.3f} "
        f"at step {free.shape[1]}, fed the truth {forced[:, 0].mean():.3f} and {forced[:, -1].mean():.3f}; the gap "
        f"grows by {growth:.3f} ± {error:.3f}, {len(free)} seeds",
        growth > 2 * error,
        "Part of any free run's error is what no training could remove: the past was seen with noise.",
    )


def _mitigated(tables: Tables) -> Claim:
    gain, error = _mean(_whole(tables, "teacher forcing", "free") - _whole(tables, "scheduled sampling", "free"))
    on_means, means_error = _mean(
        _whole(tables, "teacher forcing", "on_means") - _whole(tables, "scheduled sampling", "on_means")
    )
    taught, practised = (_whole(tables, way, "free").mean() for way in ("teacher forcing", "scheduled sampling"))
    return Claim(
        "The shift is mitigated by giving the network its own output more and more often (the same slide): runs on "
        "its own draws, which it practised on, end up nearer to the truth, by more than two standard errors.",
        f"error of runs on draws {taught:.3f} and {practised:.3f}, {gain:.3f} ± {error:.3f} apart, seed by seed; of "
        f"runs on means {on_means:.3f} ± {means_error:.3f} apart",
        gain > 2 * error,
        "On means, which neither practised on, the gain may be none: what is learned is to live with one's own noise.",
    )


def _whole(tables: Tables, way: str, name: str) -> np.ndarray:
    """The error over all steps ahead, from each seed."""
    return np.sqrt((_errors(tables, way, name) ** 2).mean(axis=1))


# -- figures ---------------------------------------------------------------------------------------------------


def _right(rows: list[dict[str, Any]], network: str, delay: int | None = None) -> np.ndarray:
    return np.array([r["right"] for r in rows if r["network"] == network and r.get("delay") == delay])


def _apart(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The mean difference, one less the other, and its standard error."""
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    return float(one.mean() - other.mean()), float(error)


def _mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _median(values: np.ndarray) -> str:
    return f"{np.median(np.where(np.isfinite(values), values, np.inf)):.3f}"


def _course(tables: Tables, nonlinearity: str, gain: float) -> np.ndarray:
    return np.array([r["norm"] for r in tables["norms"] if (r["nonlinearity"], r["gain"]) == (nonlinearity, gain)])


def _errors(tables: Tables, way: str, name: str) -> np.ndarray:
    """(seed, ahead)."""
    rows = [r for r in tables["own_past"] if r["way"] == way]
    seeds = len({r["seed"] for r in rows})
    return np.array([r[name] for r in rows]).reshape(seeds, -1)


# -- charts ----------------------------------------------------------------------------------------------------


def plot(tables: Tables) -> list[Chart]:
    """Recall, norms, a cliff, and free runs."""
    return [_recall_chart(tables), _norm_chart(tables), _cliff_chart(tables), _free_chart(tables)]


def _recall_chart(tables: Tables) -> Chart:
    longest = max(r["delay"] for r in tables["waiting"])
    found = {r["network"]: _right(tables["waiting"], r["network"], longest) for r in tables["waiting"]}
    found |= {r["network"]: _right(tables["keeping"], r["network"]) for r in tables["keeping"]}
    errors = [values.std(ddof=1) / np.sqrt(len(values)) for values in found.values()]
    bars = Bars(list(found), [values.mean() for values in found.values()], errors)
    return Chart(
        f"A symbol after {longest} steps; the last one shown",
        "",
        "share of right answers",
        [bars, Rule(CHANCE, colour="grey")],
        note="The first four recall one symbol after a wait, the last three the last that was shown. Means over seeds "
        "with standard errors; chance is dashed.",
    )


def _norm_chart(tables: Tables) -> Chart:
    lines = []
    for colour, gain in enumerate(sorted({r["gain"] for r in tables["norms"]})):
        for name in ("identity", "tanh"):
            norms = _course(tables, name, gain)
            steps = np.arange(len(norms))
            label = f"gain {gain:g}" if name == "identity" else ""
            lines.append(Line(steps, norms, name=label, colour=colour, dashed=name == "tanh"))
    note = "The norm of a state that nothing drives; dashed with tanh."
    return Chart("Gains compound", "step", "norm of the state", lines, y_scale="log", note=note)


def _cliff_chart(tables: Tables) -> Chart:
    lines = []
    for colour, kind in enumerate(dict.fromkeys(r["nonlinearity"] for r in tables["landscape"])):
        rows = [r for r in tables["landscape"] if r["nonlinearity"] == kind]
        losses = [np.nan if r["loss"] is None else r["loss"] for r in rows]
        lines.append(Line([r["distance"] for r in rows], losses, name=kind, colour=colour))
        lines.append(Rule(rows[0]["cliff"], "x", colour=colour))
    return Chart(
        "The loss along a line through the parameters",
        "distance along the gradient",
        "nats per step",
        lines,
        y_scale="log",
        note="Two networks with large recurrent weights; dashed is where each is steepest.",
    )


def _free_chart(tables: Tables) -> Chart:
    lines = []
    for colour, way in enumerate(dict.fromkeys(r["way"] for r in tables["own_past"])):
        for name, words in {"free": "own draws", "on_means": "own means"}.items():
            errors = _errors(tables, way, name)
            steps = np.arange(1, errors.shape[1] + 1)
            label = f"{way}, {words}"
            lines.append(Line(steps, errors.mean(axis=0), name=label, colour=colour, dashed=name == "on_means"))
    return Chart(
        "Pendulums that swing on",
        "steps since the truth was last seen",
        "error, radians",
        lines,
        note="Networks that are fed what they say, single draws or means; means over seeds.",
    )
