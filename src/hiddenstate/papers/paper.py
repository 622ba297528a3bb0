"""What a figure or claim of a paper is here: sizes, a run, claims that are checked on it, and a plot.

Every module of this folder that stands in `hiddenstate.papers.PAPERS` has

- ``TITLE`` and ``SOURCE``: what is shown, and where it was said (authors, year, figure or equation);
- ``Config``, a frozen dataclass of plain numbers and words, and two of them: ``QUICK``, a minute or so on two cores,
  and ``FULL``, the sizes of the paper;
- ``run(config, notebook, *, key)``: the work, in parts that the notebook keeps, so that a run that was killed goes on
  with the part that was not ready. It gives `Tables`: rows of plain values under the names of the files they go to;
- ``claims(tables)``: what was claimed, the figures of this run, and whether they bear it out;
- ``plot(tables)``: charts of these tables.

Claims and plots know the tables alone: what they say was computed in that run.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import FileError
from hiddenstate.core.storage import VERSION, write_bytes
from hiddenstate.report.charts import Chart

Tables = dict[str, list[dict[str, Any]]]
"""Rows of plain values, under the name of each table."""


@dataclass(frozen=True)
class Claim:
    """What was claimed, the figures of a run, and whether they bear it out.

    `note` says why, where they do not, or what the paper leaves open.
    """

    statement: str
    measured: str
    holds: bool
    note: str = ""


class Paper(Protocol):
    """What a module of this folder has."""

    TITLE: str
    SOURCE: str
    QUICK: Any
    FULL: Any

    def run(self, config: Any, notebook: "Notebook", *, key: PRNGKeyArray) -> Tables:
        """The work, in parts."""
        ...

    def claims(self, tables: Tables) -> list[Claim]:
        """What was claimed, checked on the tables."""
        ...

    def plot(self, tables: Tables) -> list[Chart]:
        """Charts of the tables."""
        ...


class Notebook:
    """Keeps the parts of a run on disk as they become ready; without a folder it keeps nothing.

    A part is plain data (dicts, lists, numbers, words), kept with what it was computed from: the paper's name, its
    sizes, the seed and the version of the library. Parts of another run are computed anew.
    """

    def __init__(
        self, folder: str | Path | None, identity: dict[str, Any], announce: Callable[[str], None] | None = None
    ):
        self._folder = None if folder is None else Path(folder) / "parts"
        self._identity = json.loads(json.dumps({**identity, "hiddenstate": VERSION}))
        self._announce = announce or (lambda _: None)
        self._expected: int | None = None
        self._begun = 0
        self.seconds: dict[str, float] = {}
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(f"cannot make the folder {self._folder}: {error.strerror}.") from None

    def expect(self, parts: int) -> None:
        """Say how many parts there will be, for those who wait."""
        self._expected = parts

    def part(self, name: str, work: Callable[[], Any]) -> Any:
        """What `work` gives, or what it gave before a run was interrupted."""
        self._begun += 1
        counted = f" ({self._begun} of {self._expected})" if self._expected else ""
        kept = self._kept(name)
        if kept is not None:
            self._announce(f"{name}{counted}: done before")
            self.seconds[name] = kept["seconds"]
            return kept["found"]
        self._announce(f"{name}{counted}")
        began = time.perf_counter()
        found = json.loads(json.dumps(work()))  # the same plain data, whether it is computed or read
        self.seconds[name] = time.perf_counter() - began
        if self._folder is not None:
            content = {"identity": self._identity, "part": name, "seconds": self.seconds[name], "found": found}
            write_bytes(self._path(name), json.dumps(content).encode())
        return found

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{_file_name(name)}.json"

    def _kept(self, name: str) -> dict[str, Any] | None:
        if self._folder is None or not self._path(name).exists():
            return None
        try:
            kept = json.loads(self._path(name).read_text())
            return kept if kept["identity"] == self._identity and kept["part"] == name else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def identity_of(name: str, config: Any, seed: int) -> dict[str, Any]:
    """What a part is computed from."""
    return {"paper": name, "config": asdict(config), "seed": seed}


def _file_name(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
