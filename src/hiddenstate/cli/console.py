"""Where words go: results to standard output, notes about the work to standard error."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

notes = Console(highlight=False, markup=False, emoji=False, stderr=True)


def say(text: str) -> None:
    """A line of a result."""
    typer.echo(text)


def note(text: str) -> None:
    """A line about the work, out of the way of results that are piped on."""
    notes.print(text, soft_wrap=True, style="dim")


@contextmanager
def busy(work: str) -> Iterator[None]:
    """Show on a terminal what is being done, and for how long, where nothing else tells; it leaves no trace."""
    if not notes.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=notes, transient=True) as shown:
        shown.add_task(work)
        yield


def plural(count: int, word: str) -> str:
    """1 step, 2 steps, 3,000 steps."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
