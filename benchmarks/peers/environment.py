"""The benchmark's own environment: the peers as they are pinned, and this checkout. Needs nothing but Python itself."""

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-bench"
LOG = ROOT / ".cache" / "bench" / "install.log"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"
ALONE = ("torch",)
"""Installed first and by itself, so that nothing else decides which build is taken."""

WITHOUT_DEPENDENCIES = ("particles",)
"""It asks for a NumPy older than ours and runs with the newer one."""

PEERS = {
    "torch": "torch",
    "hmmlearn": "hmmlearn.hmm",
    "dynamax": "dynamax.hidden_markov_model",
    "pomegranate": "pomegranate.hmm",
    "pykalman": "pykalman",
    "statsmodels": "statsmodels.tsa.statespace.kalman_smoother",
    "particles": "particles",
    "minGRU-pytorch": "minGRU_pytorch",
}
"""The peers, and what is imported of them."""

Announce = Callable[[str], None]


def python() -> Path:
    """The interpreter of the environment."""
    return HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ensure(announce: Announce) -> None:
    """Make the environment, or make it anew where what it should hold has changed."""
    stamp, wanted = HOME / ".installed", _wanted()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.write_text("")
    if not python().exists():
        announce(f"making {HOME.name}, the environment of the benchmark")
        _run([sys.executable, "-m", "venv", str(HOME)])
    needed = requirements()
    for name in ALONE:
        announce(f"installing {needed[name]}")
        _install(name, [needed.pop(name)], announce)
    announce("installing hiddenstate from this checkout")
    if not _pip(["--editable", str(ROOT), *_same_jax()]):
        raise SystemExit(f"error: hiddenstate could not be installed into {HOME.name}; {LOG} says why.")
    announce(f"installing {', '.join(needed.values())}")
    bare = [needed.pop(name) for name in WITHOUT_DEPENDENCIES if name in needed]
    if not _pip([*needed.values(), *_same_jax()]):
        for name, line in needed.items():
            _install(name, [line, *_same_jax()], announce)
    for line in bare:
        _install(line, ["--no-deps", line], announce)
    stamp.write_text(wanted)


def requirements() -> dict[str, str]:
    """Names, and the lines that pin them."""
    lines = (line.strip() for line in REQUIREMENTS.read_text().splitlines())
    return {line.split("==")[0]: line for line in lines if line and not line.startswith("#")}


def _same_jax() -> list[str]:
    """The kernels of this checkout were compiled against the JAX beside the interpreter that runs this."""
    try:
        return [f"jax=={version('jax')}"]
    except PackageNotFoundError:
        return []


def _wanted() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = [REQUIREMENTS.read_text(), *project["dependencies"], sys.version, *_same_jax()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _install(name: str, words: list[str], announce: Announce) -> None:
    if not _pip(words):
        announce(f"{name} could not be installed and is left out; {LOG} says why")


def _pip(words: list[str]) -> bool:
    return _run([str(python()), "-m", "pip", "install", "--disable-pip-version-check", *words])


def _run(words: list[str]) -> bool:
    with LOG.open("a") as log:
        log.write(" ".join(words) + "\n")
        log.flush()
        return subprocess.run(words, stdout=log, stderr=log, check=False).returncode == 0


def missing(names: list[str]) -> dict[str, str]:
    """Which of these cannot be imported here, and why, in a line each."""
    found = {}
    for name in names:
        words = [sys.executable, "-W", "ignore", "-c", f"import {PEERS[name]}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            found[name] = (done.stderr.strip().splitlines() or ["it cannot be imported"])[-1]
    return found
