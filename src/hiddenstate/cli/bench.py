"""`hiddenstate bench`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import hiddenstate
from hiddenstate.cli.errors import fail


def bench(
    only: Annotated[str, typer.Option(metavar="A,B", help="Workloads to run (see --list); without it all.")] = "",
    peers: Annotated[
        str, typer.Option(metavar="A,B", help="Libraries to compare with; without it all that can be installed.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and few rounds: a few minutes.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder for results.json and plots (build/bench).")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the results in --out.")] = False,
    write_docs: Annotated[
        bool, typer.Option("--write-docs", help="Write docs/benchmarks.md from the results.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the workloads and leave.")] = False,
) -> None:
    """Measure speed against other libraries that do the same work, on this machine.

    It needs a checkout of the project. The first time it makes an environment
    of its own (.venv-bench) with hmmlearn, dynamax, pomegranate, pykalman,
    statsmodels, particles, torch and minGRU-pytorch. Results are compared
    before anything is timed; contenders take turns. A table says how many
    times as long the fastest peer takes, with the goal, and the share of
    what the machine can at most. All of it takes about three quarters of
    an hour.

    [bold]Example:[/bold] hiddenstate bench --list

    [bold]Example:[/bold] hiddenstate bench --only lstm,gru --quick
    """
    folder = checkout()
    words = ["--list"] * list_ + ["--quick"] * quick + ["--resume"] * resume + ["--write-docs"] * write_docs
    words += ["--only", only] if only else []
    words += ["--peers", peers] if peers else []
    words += ["--out", str(out.resolve())] if out is not None else []
    env = {**os.environ, "PYTHONPATH": str(folder)}
    raise typer.Exit(subprocess.run([sys.executable, "-m", "peers", *words], env=env, check=False).returncode)


def checkout() -> Path:
    """The folder benchmarks of the checkout that this package is run from, or that one is in."""
    folders = [root / "benchmarks" for root in (Path(hiddenstate.__file__).parents[2], Path.cwd())]
    folder = next((folder for folder in folders if (folder / "peers" / "__main__.py").exists()), None)
    if folder is None:
        fail(
            "the benchmark does not come with the installed package; clone the project's repository and run "
            "`make bench` there."
        )
    return folder
