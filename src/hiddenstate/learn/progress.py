"""The bar that shows how a run is getting on."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_PATIENCE = 1.0
"""Seconds before the bar appears: what is done sooner needs none."""


class Bar:
    """A progress bar on the error stream, if that is a terminal; otherwise nothing."""

    def __init__(self, show: bool):
        self._show = show and sys.stderr.isatty()
        self._began = time.monotonic()
        self._first: int | None = None
        self._bar: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, fraction: float, step: int, loss: float, validation: float | None) -> None:
        """The run is at this fraction of its budget, after update number `step`."""
        if not self._show:
            return
        first = self._first = step if self._first is None else self._first
        elapsed = time.monotonic() - self._began
        if elapsed < _PATIENCE:
            return
        bar = self._bar or self._start()
        said = "" if validation is None else f"  validation {validation:.4f}"
        speed = (step - first) / elapsed
        bar.update(self._task, completed=fraction, said=f"loss {loss:.4f}{said}  {speed:.1f} steps/s")

    def _start(self) -> Progress:
        columns = TextColumn("fit"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn()
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("fit", total=1.0, said="")
        self._bar.start()
        return self._bar
