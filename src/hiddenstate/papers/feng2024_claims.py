"""What Feng et al. (2024) claim, checked on the tables of a run, and charts of these."""

from typing import Any

import numpy as np

from hiddenstate.papers.paper import Claim, Tables
from hiddenstate.papers.timing import exponent
from hiddenstate.report.charts import Chart, Line

PRINTED_SHARES = {"mingru": (0.33, 0.22, 0.17, 0.13), "minlstm": (0.38, 0.25, 0.19, 0.15)}
"""Of the parameters of GRU and LSTM, with a hidden state 1, 2, 3 and 4 times as wide as the input."""


def claims(tables: Tables) -> list[Claim]:
    """What the paper says, and where a small task goes the other way."""
    return [
        *_same_in_parallel(tables["differences"]),
        *_fewer_parameters(tables["parameters"]),
        _old_cells_grow(tables["times"]),
        *(_nearly_flat(tables["times"], cell) for cell, _ in _pairs(tables["times"])),
        *(_faster(tables["times"], cell, old) for cell, old in _pairs(tables["times"])),
        _more_memory(tables["times"]),
        _text_as_good(tables["text"]),
        _layers_copy(tables["copying"]),
        _parity_goes_the_other_way(tables["parity"]),
    ]


def _same_in_parallel(rows: list[dict[str, Any]]) -> list[Claim]:
    worst = max(max(row["loss_difference"], row["gradient_difference"]) for row in rows)
    return [
        Claim(
            "The minimal cells can be trained in parallel: the scan gives the same loss and the same gradient as the "
            "loop over time (section 3; to rounding, 1e-4).",
            f"They differ by at most {worst:.1e}, relative to the largest entry, at length {rows[0]['length']}.",
            worst < 1e-4,
        )
    ]


def _fewer_parameters(rows: list[dict[str, Any]]) -> list[Claim]:
    found = []
    for cell, printed in PRINTED_SHARES.items():
        own = [row for row in rows if row["cell"] == cell]
        shares = [row["share"] for row in own]
        found.append(
            Claim(
                f"{cell} has {', '.join(f'{share:.0%}' for share in printed)} of the parameters of {own[0]['of']} "
                "where the hidden state is 1, 2, 3, 4 times as wide as the input (sections 3.1.3 and 3.2.4).",
                f"Counted on the weights: {', '.join(f'{share:.1%}' for share in shares)}.",
                all(abs(a - b) <= 0.006 for a, b in zip(shares, printed, strict=True)),
            )
        )
    return found


def _old_cells_grow(rows: list[dict[str, Any]]) -> Claim:
    powers = {cell: exponent(*_seconds(rows, cell, "in sequence")) for _, cell in _pairs(rows)}
    return Claim(
        "The time of a training step of GRU and LSTM grows linearly with the length (figure 1; a timing, the power "
        "between 0.7 and 1.3).",
        ", ".join(f"{cell} as length to the {power:.2f}" for cell, power in powers.items()) + ".",
        all(0.7 < power < 1.3 for power in powers.values()),
        "At short lengths what a call costs at all keeps the power below one." if min(powers.values()) < 0.9 else "",
    )


def _nearly_flat(rows: list[dict[str, Any]], cell: str) -> Claim:
    lengths, seconds = _seconds(rows, cell, "in parallel")
    power = exponent(lengths, seconds)
    loop = exponent(*_seconds(rows, cell, "in sequence"))
    ratio = _seconds(rows, cell, "in sequence")[1][-1] / seconds[-1]
    holds = power < 0.3
    return Claim(
        f"Trained in parallel, the time of a step of {cell} hardly depends on the length (figure 1, on a GPU; a "
        "timing, the power below 0.3).",
        f"It grows as length to the {power:.2f} from {lengths[0]} to {lengths[-1]} (in sequence: {loop:.2f}); at "
        f"{lengths[-1]} the scan is {ratio:.2f} times as fast as the loop.",
        holds,
        ""
        if holds
        else f"The scan has {2 * np.log2(lengths[-1]) - 1:.0f} dependent steps in place of {lengths[-1]}, but twice "
        "the work and more. Time stays flat while there are idle processors to do it; a machine with a few cores is "
        "busy from the shortest length on.",
    )


def _faster(rows: list[dict[str, Any]], cell: str, old: str) -> Claim:
    times = {way: _seconds(rows, cell, way)[1][-1] for way in ("in sequence", "in parallel")}
    lengths, seconds = _seconds(rows, old, "in sequence")
    way = min(times, key=times.__getitem__)
    ratio = seconds[-1] / times[way]
    holds = bool(ratio > 1)
    return Claim(
        f"A training step of {cell} is faster than one of {old} (figure 1: over a hundred times at length 512, on a "
        "GPU; here: faster at all, at the longest length; a timing).",
        f"At length {lengths[-1]} {old} takes {1e3 * seconds[-1]:.1f} ms and {cell} {1e3 * times[way]:.1f} ms ({way}): "
        f"{ratio:.1f} times as fast ({', '.join(f'{1e3 * t:.1f} ms {w}' for w, t in times.items())}).",
        holds,
        ""
        if holds
        else "Where nothing else kept the machine busy, a loop over so few numbers costs as much as the small products "
        "that it saves.",
    )


def _more_memory(rows: list[dict[str, Any]]) -> Claim:
    longest = max(row["length"] for row in rows)
    sizes = {(row["cell"], row["way"]): row["bytes"] for row in rows if row["length"] == longest}
    if any(size is None for size in sizes.values()):
        return Claim(_MEMORY, "The compiler does not say how much memory it plans.", False, "It cannot be judged here.")
    ratios = {cell: sizes[cell, "in parallel"] / sizes[old, "in sequence"] for cell, old in _pairs(rows)}
    holds = all(ratio > 1 for ratio in ratios.values())
    return Claim(
        _MEMORY,
        f"At length {longest}: "
        + ", ".join(f"{cell} {ratio:.2f} times" for cell, ratio in ratios.items())
        + " the bytes.",
        holds,
        ""
        if holds
        else "The compiled loop of the old cells keeps the gates of every step for the backward pass, which is "
        "more than the scan keeps.",
    )


_MEMORY = (
    "Running in parallel takes more memory than the old cells in sequence (figure 1: minGRU some 88% more than GRU at "
    "length 512; here: more, as planned by the compiler)."
)


def _text_as_good(rows: list[dict[str, Any]]) -> Claim:
    means = _means(rows, "nats_per_character")
    old, new = (
        min(value for name, (value, _) in means.items() if name.startswith(kind)) for kind in (("gru", "lstm"), "min")
    )
    holds = bool(new <= 1.05 * old)
    return Claim(
        "On text by characters the minimal networks are as good as others (section 4.4, Shakespeare: minGRU 1.548, "
        "minLSTM 1.555, a Transformer 1.547 nats); here, against GRU and LSTM of as many units and layers, all with "
        "and without feed-forward parts behind the layers: the best minimal network within 5% of the best other.",
        "Nats per character of new text: "
        + ", ".join(f"{name} {value:.3f} ± {error:.3f}" for name, (value, error) in means.items())
        + f" ({_count(rows)} beginnings each).",
        holds,
        ""
        if holds
        else f"The best minimal network is {new / old - 1:.1%} above. Those of the paper have convolutions before the "
        "recurrent layers too.",
    )


def _layers_copy(rows: list[dict[str, Any]]) -> Claim:
    means = _means(rows, "accuracy")
    one, three = means["mingru"], means["mingru (3 layers)"]
    holds = bool(three[0] > 0.95 and three[0] > one[0] + 3 * np.hypot(one[1], three[1]))
    return Claim(
        "Selective copying is solved by three layers, not by one, whose gates do not know what was kept before (tables "
        "1 and 2; here: minGRU of three layers above 0.95, and above one layer by three standard errors).",
        "Share of symbols given back: "
        + ", ".join(f"{name} {value:.3f} ± {error:.3f}" for name, (value, error) in means.items())
        + f" ({_count(rows)} beginnings each).",
        holds,
        "" if holds else _why_not_copied(one[0], three[0]),
    )


def _why_not_copied(one: float, three: float) -> str:
    if three <= 0.95:
        return f"Three layers have not learned all of it in so many updates; they are {three - one:+.2f} from one."
    return "On so small a task one layer is enough."


def _parity_goes_the_other_way(rows: list[dict[str, Any]]) -> Claim:
    lengths = sorted({row["length"] for row in rows})
    means = {length: _means([row for row in rows if row["length"] == length], "accuracy") for length in lengths}
    longest = means[lengths[-1]]
    new = max(value for name, (value, _) in longest.items() if name in ("mingru", "minlstm"))
    old = max(value for name, (value, _) in longest.items() if name in ("gru", "lstm"))
    said = "; ".join(
        f"{name} " + ", ".join(f"{means[length][name][0]:.2f} ± {means[length][name][1]:.2f}" for length in lengths)
        for name in longest
    )
    return Claim(
        "A small task that is not in the paper goes the other way: after learning at length "
        f"{lengths[0]} whether the ones so far are odd, GRU or LSTM still say so at length {lengths[-1]} (above 0.9), "
        "and one layer of minGRU or minLSTM does not (less by 0.1 and more).",
        f"Share of right answers at lengths {', '.join(map(str, lengths))}: {said} ({_count(rows)} beginnings each).",
        bool(old > 0.9 and new < old - 0.1),
        "Parity turns the state over at every one. A gate between 0 and 1 that sees the input alone can keep the "
        "state, move it towards a value or forget it, but not turn it over (Grazzi et al. 2024).",
    )


def _pairs(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The minimal cells that were timed, and those that they come from."""
    timed = {row["cell"] for row in rows}
    return [(cell, old) for cell, old in (("mingru", "gru"), ("minlstm", "lstm")) if cell in timed]


def _seconds(rows: list[dict[str, Any]], cell: str, way: str) -> tuple[list[int], list[float]]:
    own = sorted((row["length"], row["seconds"]) for row in rows if (row["cell"], row["way"]) == (cell, way))
    return [length for length, _ in own], [seconds for _, seconds in own]


def _means(rows: list[dict[str, Any]], column: str) -> dict[str, tuple[float, float]]:
    """The mean of each network's beginnings, and its standard error."""
    found = {}
    for name in dict.fromkeys(row["network"] for row in rows):
        values = np.array([row[column] for row in rows if row["network"] == name])
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        found[name] = float(values.mean()), float(error)
    return found


def _count(rows: list[dict[str, Any]]) -> int:
    return 1 + max(row["seed"] for row in rows)


# -- charts ----------------------------------------------------------------------------------------------------


def plot(tables: Tables) -> list[Chart]:
    """Time against length first, as in figure 1; then the three tasks."""
    return [
        _times_chart(tables["times"]),
        _curves_chart(_least_so_far(tables["text_curves"]), "Text by characters, at best so far", "nats per character"),
        _curves_chart(tables["copying_curves"], "Selective copying", "nats per symbol"),
        _parity_chart(tables["parity"]),
    ]


def _times_chart(rows: list[dict[str, Any]]) -> Chart:
    colours = {cell: colour for colour, cell in enumerate(dict.fromkeys(row["cell"] for row in rows))}
    layers = []
    for cell, way in dict.fromkeys((row["cell"], row["way"]) for row in rows):
        lengths, seconds = _seconds(rows, cell, way)
        dashed = way == "in sequence" and cell.startswith("min")
        layers.append(
            Line(
                lengths,
                [1e3 * s for s in seconds],
                name=f"{cell} {way}",
                colour=colours[cell],
                marks=True,
                dashed=dashed,
            )
        )
    return Chart(
        "Time of a training step",
        "length of the sequences",
        "milliseconds",
        layers,
        x_scale="log",
        y_scale="log",
        note="The least of several times; the contenders took turns.",
    )


def _least_so_far(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same curves, each row as the best of its network up to there: networks are kept as they were then."""
    best: dict[str, dict[str, Any]] = {}
    found = []
    for row in rows:
        least = best.get(row["network"], row)
        best[row["network"]] = least = row if row["loss"] <= least["loss"] else least
        found.append({**least, "updates": row["updates"]})
    return found


def _curves_chart(rows: list[dict[str, Any]], title: str, y: str) -> Chart:
    layers = []
    for colour, name in enumerate(dict.fromkeys(row["network"] for row in rows)):
        own = [row for row in rows if row["network"] == name]
        x, values, errors = ([row[column] for row in own] for column in ("updates", "loss", "standard_error"))
        layers.append(Line(x, values, errors, name=name, colour=colour))
    return Chart(title, "updates", y, layers, note="The loss on new data, mean and standard error over beginnings.")


def _parity_chart(rows: list[dict[str, Any]]) -> Chart:
    lengths = sorted({row["length"] for row in rows})
    layers = []
    for colour, name in enumerate(dict.fromkeys(row["network"] for row in rows)):
        found = [_means([r for r in rows if r["length"] == length], "accuracy")[name] for length in lengths]
        values, errors = zip(*found, strict=True)
        layers.append(Line(lengths, values, errors, name=name, colour=colour, marks=True))
    return Chart(
        "Parity beyond what was learned",
        "length of the sequences",
        "share of right answers",
        layers,
        x_scale="log",
        note=f"Learned at length {lengths[0]}; chance is one half.",
    )
