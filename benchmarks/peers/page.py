"""docs/benchmarks.md, written from a run."""

import shutil
from pathlib import Path
from typing import Any

from peers.case import FUNCTION, OURS
from peers.environment import ROOT
from peers.measuring import HOPELESS, LONGEST
from peers.records import best_peer, met
from peers.table import COLUMNS, cells, missed, name_of, seconds, seldom, times, without_ratio
from peers.timing import BUDGET, FEWEST, ROUNDS, SHORTEST, TURN
from peers.workloads import WORKLOADS


def write_page(told: dict[str, Any], plots: list[Path], docs: Path = ROOT / "docs") -> Path:
    """The page, and its plots beside the other pictures of the documentation."""
    for plot in plots:
        shutil.copy(plot, docs / "images" / f"bench-{plot.name}")
    path = docs / "benchmarks.md"
    found = [*_run(told), *_pictures(plots), *_tables(told)] if told["cases"] else ["No run was written here yet.", ""]
    path.write_text("\n".join([*HEAD.strip().splitlines(), "", *found, *_how(told)]) + "\n")
    return path


HEAD = """
# Speed

`hiddenstate bench` in a checkout (or `make bench`) measures this library beside others that do the same work, on your
machine, in an environment of its own, in about three quarters of an hour. With `--write-docs` it writes this page.
Times need a quiet machine: where others are at work too, libraries whose threads wait for each other lose most, which
says nothing of them.
"""


def _run(told: dict[str, Any]) -> list[str]:
    """When and where, with which versions, and what came of it."""
    machine, peak = told["machine"], told["peak"]
    judged = [one for one in map(met, (row for row in told["cases"].values() if not row["scaling"])) if one is not None]
    rates = ", ".join(
        f"{found['multiply_adds'] / 1e9:.0f} billion multiply-adds a second in {precision}"
        for precision, found in peak.items()
    )
    vectors = f" ({machine['vectors']})" if machine["vectors"] else ""
    small = " The sizes of this run are the small ones of `--quick`." if told["scale"] == "quick" else ""
    alone, not_always = without_ratio(told), seldom(told)
    reached = f"{sum(judged)} of {len(judged)} goals are met"
    reached = f"**{reached}**, and {alone}" if alone else f"**{reached}.**"
    wide = max((found["bytes"] for found in peak.values()), default=0)
    return [
        f"**The run.** {told['date']}, {machine['processor']}, {machine['cores']} cores{vectors}, {machine['system']},"
        f" with a load of {machine['load']} before it; {machine['threads']} threads for everybody; {told['kernels']}."
        f"{small}",
        f"The machine's measured peak: {rates}; {wide / 1e9:.1f} GB a second to and from memory.",
        "",
        f"**Versions.** {', '.join(f'{name} {number}' for name, number in told['versions'].items())}.",
        "",
        f"{reached} A ratio says how many times as long the fastest peer takes: above 1, this library is faster.",
        "",
        *([not_always, ""] if not_always else []),
        *_missed(told),
    ]


def _missed(told: dict[str, Any]) -> list[str]:
    found = missed(told)
    return ["Those that are not, the farthest first:", "", *(f"- {words}" for words in found), ""] if found else []


def _pictures(plots: list[Path]) -> list[str]:
    words = {
        "ratios": "How many times as long the fastest peer takes, with goals and quartiles",
        "scaling": "Time against states, steps, units and sequences",
    }
    return [line for plot in plots for line in (f"![{words[plot.stem]}](images/bench-{plot.name}){{ width=100% }}", "")]


def _tables(told: dict[str, Any]) -> list[str]:
    lines = ["## Ratios", ""]
    for workload, words in WORKLOADS.items():
        rows = [row for row in told["cases"].values() if row["workload"] == workload and not row["scaling"]]
        if rows:
            lines += [f"### {words[0].upper()}{words[1:]}", "", *_ratio_table(rows, told["peak"]), *_notes(rows)]
            lines += ['??? note "Times of all"', "", *_indented(_time_table(rows)), ""]
    return lines + _memory(told)


def _ratio_table(rows: list[dict[str, Any]], peak: dict[str, Any]) -> list[str]:
    names = [name or "reached" for name in COLUMNS]
    return [*_markdown(names, [cells(row, peak) for row in rows]), ""]


def _time_table(rows: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in [*row["seconds"], *row["left_out"], *row["differ"]]))
    lines = []
    for row in rows:
        timed = {name: seconds(min(taken)) for name, taken in row["seconds"].items() if taken}
        left = dict.fromkeys(row["left_out"], "left out") | dict.fromkeys(row["differ"], "differs")
        first = row["first"].get(OURS)
        said = [(timed | left).get(name, "") for name in names]
        lines.append([row["title"], row["sizes"], row["precision"], *said, "" if first is None else seconds(first)])
    return _markdown(["work", "size", "precision", *names, "our first call"], lines)


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    found = list(dict.fromkeys(row["note"] for row in rows if row["note"]))
    for row in rows:
        for name, why in {**row["left_out"], **row["differ"]}.items():
            found.append(f"{name_of(row)}: without {name}, {why}.")
    return [*(f"- {one}" for one in found), *([""] if found else [])]


def _memory(told: dict[str, Any]) -> list[str]:
    lines = []
    for key, found in told["memory"].items():
        row = told["cases"].get(key)
        for name, one in found.items() if row else ():
            grown = one["peak"] - one["before"]
            lines.append([row["title"], row["sizes"], name, f"{one['peak']:,.0f} MB", f"{grown:,.0f} MB"])
    if not lines:
        return []
    head = [
        "## Memory",
        "",
        "The peak of a process that does only this, and how much of it came with the work (and its compilation).",
    ]
    return [*head, "", *_markdown(["work", "size", "contender", "peak", "by the work"], lines), ""]


def _how(told: dict[str, Any]) -> list[str]:
    found = [(row, best_peer(row)) for row in told["cases"].values() if not row["scaling"]]
    behind = [
        f"{name_of(row)} ({one.peer}: {times(one.best)})" for row, one in found if one is not None and one.best < 1
    ]
    said = [f"A peer is faster here: {'; '.join(behind)}.", ""] if behind else []
    values = {
        "rounds": ROUNDS,
        "fewest": FEWEST,
        "turn": f"{1e3 * TURN:.0f}",
        "shortest": f"{1e3 * SHORTEST:g}",
        "budget": BUDGET,
        "longest": f"{LONGEST:.0f}",
        "hopeless": f"{HOPELESS:.0f}",
        "function": FUNCTION,
    }
    return [*said, *HOW.format(**values).strip().splitlines()]


HOW = """
## How it is measured

- Every library runs in a process of its own, with the same arrays and the same two threads. Processes take turns: a
  round times all contenders, after a call that does not count, since caches went cold in the meantime, for at least
  {turn} ms each, of which the best time counts; calls shorter than {shortest} ms are timed several at once. There are
  at most {rounds} rounds or {budget} seconds for each, and at least {fewest} rounds of calls below half a second. The
  ratio is that of the best times; the quartiles are those of the ratios inside rounds.
- Before anything is timed, results are compared: log-likelihoods, probabilities of paths, expected counts, gradients,
  outputs of layers with the same weights. Who does not agree is not timed.
- Compilation is outside of the times; *our first call* has it in. Only the times from the shell have everything in.
- Peers are used as their documentation says, at their best setting: batched where they can, compiled, without gradients
  where none are asked for, both implementations of hmmlearn. Those that know only double precision compute in it.
- Who would need more than {longest} seconds for one call is left out, and who would need {hopeless} times as long as
  another peer, and more than a second: the tables show the fastest.
- *ours* is the public function with `hs.Auto()`, on data as `hs.Sequences`, with all its checks; *to Sequential* is how
  many times as long `hs.Sequential()` takes, the scan that XLA compiles.
- *share of peak* is the time that the arithmetic or the memory traffic nobody can do without would need at the measured
  peak, whichever is longer, over the time taken. A tanh, sigmoid, exponential or logarithm counts as {function}
  multiply-adds.
"""


def _markdown(names: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
