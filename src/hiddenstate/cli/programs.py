"""Compiled programs that outlive a command: the second one of its kind on a machine need not compile again.

JAX can keep what XLA compiled in a folder. It keeps only what took over a second unless told otherwise, and a command
is made of many small programs: most of the time of a short one goes into compiling them.
"""

import hashlib
import os
import platform
import sys
import time
import warnings
from pathlib import Path

FOLDER = "HIDDENSTATE_CACHE"
"""The variable that names another folder, or with 0 none."""

MOST_BYTES = 2**29
"""What the folder may hold: beyond, the programs that were written first are removed."""

LOOK_AGAIN = 24 * 3600
"""Seconds after which the size of the folder is looked at again."""


def keep_programs() -> None:
    """Let JAX, which is not imported yet, keep compiled programs in a folder of the user's, and keep that small.

    Variables of JAX's own that are set already stay as they are. Where the folder cannot be made, nothing is kept.
    """
    given = os.environ.get(FOLDER, "")
    if given != "0" and not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        folder = (Path(given).expanduser() if given else _caches() / "hiddenstate") / f"programs-{_machine()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            keep_small(folder, MOST_BYTES)
        except OSError:
            return
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    # A program that was cut off when its command was killed is compiled again: nothing that a person could put right.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")


def keep_small(folder: Path, most: int, every: float = LOOK_AGAIN) -> None:
    """Remove the oldest files of a folder until it holds at most half of so many bytes, if it holds more than these.

    It looks once in so many seconds.
    """
    looked = folder / ".looked"
    if looked.exists() and time.time() - looked.stat().st_mtime < every:
        return
    looked.touch()
    found = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder))
    held = sum(size for _, size, _ in found)
    if held <= most:
        return
    for _, size, path in found:
        if held <= most // 2:
            return
        Path(path).unlink(missing_ok=True)
        held -= size


def _caches() -> Path:
    """Where programs of this user keep what they can make again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _machine() -> str:
    """A name for the processor's instructions: programs of another one, in a home that machines share, may not run."""
    known = f"{platform.system()} {platform.machine()} {platform.processor()}"
    processors = Path("/proc/cpuinfo")
    if processors.exists():
        lines = processors.read_text(errors="replace").splitlines()
        known += next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return hashlib.sha256(known.encode()).hexdigest()[:12]
