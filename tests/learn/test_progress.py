"""The bar speaks where somebody is looking, and nowhere else."""

import io

import jax.numpy as jnp
import jax.random as jr
import pytest

import hiddenstate as hs
from hiddenstate.learn import progress
from learn.small_models import Unigram, symbols


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(**options):
    method = hs.SGD(epochs=5, batch_size=4)
    hs.fit(Unigram(jnp.zeros(3)), symbols(), method, key=jr.key(0), validation=symbols(seed=1), **options)


@pytest.fixture
def eager(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def test_on_a_terminal_it_shows_loss_validation_and_speed(eager, monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    run()
    for word in ("fit", "loss", "validation", "steps/s"):
        assert word in terminal.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("options", [{"progress": False}, {}])
def test_otherwise_it_is_quiet(options, eager, monkeypatch, capfd):
    terminal = Terminal() if options else io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    run(**options)
    assert terminal.getvalue() == ""
    assert capfd.readouterr() == ("", "")
