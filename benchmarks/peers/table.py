"""The table and the summary that a run prints."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from peers.case import OURS
from peers.records import all_ratios, best_peer, met, met_seldom, share, unjudged

SEQUENTIAL = "hiddenstate Sequential"


def seconds(value: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            return f"{value / size:.3g} {unit}" if value / size < 1000 else f"{value / size:,.0f} {unit}"
    raise AssertionError


def times(value: float) -> str:
    """A ratio: 12.3x."""
    return f"{value:.0f}x" if value >= 100 else f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def line(row: dict[str, Any]) -> str:
    """What came of a case, in a line."""
    if not row["seconds"].get(OURS):
        return f"hiddenstate was not timed: {row['left_out'].get(OURS, 'no reason known')}"
    took = seconds(min(row["seconds"][OURS]))
    found = best_peer(row)
    if found is None:
        return f"{took}, no peer"
    goal = "" if row["goal"] is None else f", goal {times(row['goal'])}: {'met' if met(row) else 'not met'}"
    return f"{took}, {found.peer} takes {times(found.best)} as long ({times(found.low)} to {times(found.high)}){goal}"


COLUMNS = ("work", "size", "ours", "best peer", "ratio", "quartiles", "goal", "", "to Sequential", "share of peak")


def cells(row: dict[str, Any], peak: dict[str, Any]) -> list[str]:
    """One row of the table, as words."""
    found, ours = best_peer(row), row["seconds"].get(OURS)
    title = row["title"] + (" (float64)" if row["precision"] == "float64" else "")
    if row["workload"] == "hmm":
        title = f"HMM {title}"
    if row["workload"] == "kalman":
        title = f"Kalman {title}"
    ratio = quartiles = peer = ""
    if found is not None:
        ratio, quartiles, peer = times(found.best), f"{times(found.low)} to {times(found.high)}", found.peer
    scan, part = all_ratios(row).get(SEQUENTIAL), share(row, peak)
    reached = met(row)
    return [
        title,
        row["sizes"],
        seconds(min(ours)) if ours else "",
        peer,
        ratio,
        quartiles,
        "" if row["goal"] is None else times(row["goal"]),
        "" if reached is None else "met" if reached else "not met",
        "" if scan is None else times(scan.best),
        "" if part is None else f"{part[0]:.0%} {part[1]}" if part[0] >= 0.005 else f"<1% {part[1]}",
    ]


def print_table(told: dict[str, Any], console: Console) -> None:
    """All cases with ratios, those of plots left out."""
    table = Table(title="How many times as long the fastest peer takes", title_justify="left", box=box.SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("work", "size", "best peer", "") else "right")
    last = None
    for row in told["cases"].values():
        if row["scaling"]:
            continue
        if last not in (None, row["workload"]):
            table.add_section()
        last = row["workload"]
        said = cells(row, told["peak"])
        colour = {"met": "[green]met", "not met": "[red]not met"}
        table.add_row(*said[:7], colour.get(said[7], ""), *said[8:])
    if table.row_count:
        console.print(table)


def print_memory(told: dict[str, Any], console: Console) -> None:
    """Peak memory, by contenders."""
    if not told["memory"]:
        return
    title = "Peak memory of a process that does only this, and how much of it came with the work"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("work", "size", "contender", "peak", "by the work"):
        table.add_column(name, justify="right" if name in ("peak", "by the work") else "left")
    for key, found in told["memory"].items():
        row = told["cases"].get(key)
        for number, (name, one) in enumerate(found.items()):
            first = [row["title"], row["sizes"]] if row and not number else ["", ""]
            table.add_row(*first, name, f"{one['peak']:,.0f} MB", f"{one['peak'] - one['before']:,.0f} MB")
    console.print(table)


def summary(told: dict[str, Any]) -> list[str]:
    """What a person wants to know in the end."""
    rows = _rows(told)
    judged = [(row, met(row)) for row in rows if met(row) is not None]
    reached = sum(bool(good) for _, good in judged)
    lines = [f"{reached} of {len(judged)} goals are met; {told['kernels']}."] if judged else []
    lines += [words for words in (without_ratio(told), seldom(told)) if words]
    found = missed(told)
    if found:
        lines += ["Goals that are not met, the farthest first:", *(f"  {words}" for words in found)]
    differ = [(row, name, why) for row in rows for name, why in row["differ"].items()]
    lines += [
        f"Not the same result, and not timed: {row['title']}, {row['sizes']}, {name}: {why}"
        for row, name, why in differ
    ]
    left = {name for row in rows for name in row["left_out"]}
    if left:
        lines.append(f"Somewhere left out, results.json says why: {', '.join(sorted(left))}.")
    return lines


def without_ratio(told: dict[str, Any]) -> str:
    """How many goals there is nobody to compare with for, and which; nothing where there are none."""
    names = [name_of(row) for row in _rows(told) if unjudged(row)]
    return f"{len(names)} more without a peer's time to judge by: {'; '.join(names)}." if names else ""


def seldom(told: dict[str, Any]) -> str:
    """The goals that the best times meet and a quarter of the rounds or more do not; nothing where there are none."""
    rows = [(row, best_peer(row)) for row in _rows(told) if met_seldom(row)]
    names = [
        f"{name_of(row)} ({times(found.best)} of {times(row['goal'])}, lower quartile {times(found.low)})"
        for row, found in rows
        if found is not None
    ]
    return f"Met by the best times, not in every round: {'; '.join(names)}." if names else ""


def name_of(row: dict[str, Any]) -> str:
    """What a case is called in sentences."""
    return f"{row['title']}, {row['sizes']}, {row['precision']}"


def _rows(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in told["cases"].values() if not row["scaling"]]


def missed(told: dict[str, Any]) -> list[str]:
    """The goals that are not met, the farthest first: what they ask for beside what the machine can at most."""
    rows = [row for row in _rows(told) if met(row) is False]
    return [_missed(row, told["peak"]) for row in sorted(rows, key=_part)]


def _missed(row: dict[str, Any], peak: dict[str, Any]) -> str:
    found, ours, part = best_peer(row), min(row["seconds"][OURS]), share(row, peak)
    assert found is not None
    goal = ours * found.best / row["goal"]
    words = (
        f"{name_of(row)}: {times(found.best)} of {times(row['goal'])}. It takes {seconds(ours)}, and the goal asks for "
        f"{seconds(goal)}"
    )
    if part is None:
        return f"{words}."
    least = f"{words}; {part[1]} alone takes {seconds(ours * part[0])} at the machine's peak"
    return f"{least}, so that it is out of reach." if ours * part[0] > goal else f"{least}."


def _part(row: dict[str, Any]) -> float:
    """How much of the goal is reached."""
    found = best_peer(row)
    return 0.0 if found is None else found.best / row["goal"]
