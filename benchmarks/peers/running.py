"""A run of the benchmark: every chosen case, one after the other, with what it found told on the way."""

import argparse
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from peers.case import Case, is_peer, library
from peers.environment import missing
from peers.measuring import measure, measure_memory, worth_memory
from peers.pool import Pool
from peers.records import Records, suspicious
from peers.table import line, print_memory, print_table, summary
from peers.workloads import all_cases, workload_of

COMPILED = ("hiddenstate", "dynamax")
BUSY = 0.7
"""Processes that others run, on average: with more the plan comes with a warning."""

WIDTH = 170
"""Letters in a line where a file or a pipe reads, which the table needs."""


def run(options: argparse.Namespace) -> int:
    """Measure, and write the table, results.json, plots and, asked for, the page; 1 where our results look wrong."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    began = time.perf_counter()
    records = Records(options.out / "results.json", options.scale, resume=options.resume)
    cases = [case for case in all_cases(options.scale) if workload_of(case) in options.only]
    peers = _present(options.peers, cases, console)
    waiting = [case for case in cases if case not in records]
    _tell_plan(records, waiting, len(cases), console)
    pool = Pool(options.scale, options.out / "workers.log")
    try:
        _measure_peak(records, pool)
        _measure_cases(records, pool, waiting, peers, console, quick=options.quick)
        if "memory" in options.only:
            _measure_memory(records, pool, console)
        _measure_peak(records, pool)
    except KeyboardInterrupt:
        console.print(f"interrupted; --resume goes on with {records.path}")
        return 130
    finally:
        pool.close()
    _finish(records, options, console)
    console.print(f"{(time.perf_counter() - began) / 60:.1f} minutes", highlight=False)
    return 1 if any(map(suspicious, records.told["cases"].values())) else 0


def _present(chosen: Sequence[str], cases: Sequence[Case], console: Console) -> list[str]:
    """The chosen peers that can be imported; of the others it is said why not."""
    needed = {library(name) for case in cases for name in case.makers}
    asked = [name for name in chosen if name in needed]
    absent = missing(asked)
    for name, reason in absent.items():
        console.print(f"{name} is left out: {reason}", highlight=False, markup=False)
    return [name for name in asked if name not in absent]


def _tell_plan(records: Records, waiting: Sequence[Case], count: int, console: Console) -> None:
    machine = records.told["machine"]
    vectors = f", {machine['vectors']}" if machine["vectors"] else ""
    done = f", {count - len(waiting)} of them done before" if len(waiting) < count else ""
    console.print(
        f"{machine['processor']}, {machine['cores']} cores{vectors}; {machine['threads']} threads for everybody; "
        f"{records.told['kernels']}.",
        highlight=False,
        markup=False,
    )
    if machine["load"] > BUSY:
        console.print(
            f"the machine is busy (load {machine['load']:.1f}): times will be wrong, most of all for those whose "
            "threads wait for each other, such as torch's",
            style="yellow",
            highlight=False,
        )
    minutes = sum(map(estimate, waiting)) / 60
    console.print(f"{count} cases{done}: about {minutes:.0f} minutes on a quiet machine.", highlight=False)


def estimate(case: Case) -> float:
    """Seconds that a case is likely to take: compilation, rounds of all, and calls that take long by themselves."""
    compiling = sum(library(name) in COMPILED for name in case.makers)
    slow = case.size.get("states", 0) >= 256 or case.workload in ("jobs", "shell")
    return 3.0 * compiling + (0.5 if case.scaling else 1.6) * len(case.makers) + (60.0 if slow else 0.0)


def _measure_peak(records: Records, pool: Pool) -> None:
    """Before and after everything else: the higher counts."""
    for precision in ("float32", "float64"):
        found = pool.of("hiddenstate", precision).ask(300, do="peak")
        before = records.told["peak"].get(precision, found)
        records.told["peak"][precision] = {name: max(rate, before[name]) for name, rate in found.items()}
    records.write()


def _tell_peak(records: Records, console: Console) -> None:
    for precision, found in records.told["peak"].items():
        console.print(
            f"peak in {precision}: {found['multiply_adds'] / 1e9:.0f} billion multiply-adds and "
            f"{found['bytes'] / 1e9:.1f} GB a second",
            highlight=False,
        )


def _measure_cases(
    records: Records, pool: Pool, waiting: Sequence[Case], peers: Sequence[str], console: Console, *, quick: bool
) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(waiting))
        for case in waiting:
            progress.update(bar, description=f"{workload_of(case)}: {case.title}")
            contenders = [name for name in case.makers if not is_peer(name) or library(name) in peers]
            row = records.keep(case, measure(case, pool, contenders, quick=quick or bool(case.scaling)))
            console.print(f"{case.title}, {case.sizes}, {case.precision}: {line(row)}", highlight=False, markup=False)
            for name, reason in {**row["left_out"], **row["differ"]}.items():
                console.print(f"  without {name}: {reason}", highlight=False, markup=False, style="dim")
            progress.advance(bar)


def _measure_memory(records: Records, pool: Pool, console: Console) -> None:
    for case in all_cases(records.told["scale"]):
        row = records.told["cases"].get(case.key)
        contenders = worth_memory(case, row["seconds"]) if row else []
        if not contenders or case.key in records.told["memory"]:
            continue
        console.print(f"memory of {case.title}, {case.sizes}", highlight=False)
        records.keep_memory(case, measure_memory(case, pool, contenders))


def _finish(records: Records, options: argparse.Namespace, console: Console) -> None:
    """Table, plots, page."""
    from peers.charts import draw_ratios, draw_scaling
    from peers.page import write_page

    _tell_peak(records, console)
    print_table(records.told, console)
    print_memory(records.told, console)
    for words in summary(records.told):
        console.print(words, highlight=False, markup=False)
    plots = [path for path in (draw_ratios(records.told, options.out), draw_scaling(records.told, options.out)) if path]
    told = ", ".join([records.path.name, *(path.name for path in plots)])
    console.print(f"{told} are in {options.out}", highlight=False, markup=False)
    if options.write_docs:
        console.print(f"written: {write_page(records.told, plots)}", highlight=False, markup=False)
