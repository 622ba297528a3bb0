"""What is said while a command works."""

import io

import pytest
from rich.console import Console

from hiddenstate.cli import console


@pytest.mark.parametrize("terminal", [True, False])
def test_work_is_shown_on_a_terminal_only(monkeypatch, terminal):
    shown = io.StringIO()
    monkeypatch.setattr(console, "notes", Console(file=shown, force_terminal=terminal))
    with console.busy("drawing"):
        pass
    assert ("drawing" in shown.getvalue()) == terminal


def test_errors_pass_through(monkeypatch):
    monkeypatch.setattr(console, "notes", Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(ValueError, match="a sentence"), console.busy("drawing"):
        raise ValueError("a sentence")
