"""`python -m peers`, from the folder benchmarks: what `hiddenstate bench` runs."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from peers import environment
from peers.workloads import WORKLOADS, all_cases, workload_of


def main() -> int:
    """List, or make the environment and run inside it."""
    options = parsed()
    if options.list:
        list_workloads(options.scale)
        return 0
    if not options.inside:
        environment.ensure(lambda words: print(words, file=sys.stderr, flush=True))
        return inside(sys.argv[1:])
    from peers.running import run

    return run(options)


def parsed() -> argparse.Namespace:
    """The options; a wrong name is an error in one sentence."""
    parser = argparse.ArgumentParser(prog="hiddenstate bench", description="Measure speed against other libraries.")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    parser.add_argument("--only", default="", help="workloads, separated by commas")
    parser.add_argument("--peers", default="", help="peers, separated by commas")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    parser.add_argument("--out", type=Path, default=environment.ROOT / "build" / "bench", help="folder for results")
    parser.add_argument("--resume", action="store_true", help="go on with the results in --out")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md from the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.scale = "quick" if options.quick else "full"
    options.out = options.out.resolve()
    options.only = chosen("--only", options.only, list(WORKLOADS))
    options.peers = chosen("--peers", options.peers, list(environment.PEERS))
    return options


def chosen(option: str, words: str, known: list[str]) -> list[str]:
    """The names in `words`, all that are known without any."""
    names = [word.strip() for word in words.split(",") if word.strip()]
    for name in names:
        if name not in known:
            print(f"error: {option} names {name!r}; it takes {', '.join(known)}.", file=sys.stderr)
            raise SystemExit(2)
    return [name for name in known if name in names] if names else known


def list_workloads(scale: str) -> None:
    """Names, what they are, and how many cases each has."""
    counts = [workload_of(case) for case in all_cases(scale)]
    counts += ["memory" for case in all_cases(scale) if case.memory]
    for name, words in WORKLOADS.items():
        print(f"{name:<11}{counts.count(name):>3} cases  {words}")


def inside(words: list[str]) -> int:
    """Run in the benchmark's environment."""
    path = {"PYTHONPATH": str(environment.ROOT / "benchmarks")}
    cache = {"JAX_COMPILATION_CACHE_DIR": str(environment.ROOT / ".cache" / "jax")}
    command = [str(environment.python()), "-m", "peers", "--inside", *words]
    try:
        return subprocess.run(command, env={**cache, **os.environ, **path}, check=False).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
