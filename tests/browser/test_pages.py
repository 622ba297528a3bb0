"""The pages of `inspect` and of `reproduce`, opened in a browser as they are written."""

import jax.random as jr
import numpy as np
import pytest
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app
from hiddenstate.papers.page import reproduction_page
from hiddenstate.report.page import write_page
from papers.test_andreas2016 import TINY

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]


def inspected(folder, name, **options):
    """The page of a model on some waves."""
    rows = [np.sin(np.arange(30 + n) / 3)[:, None].round(4) for n in range(12)]
    np.savez(folder / "waves.npz", *rows)
    hs.save(hs.build(name, hs.read(folder / "waves.npz"), key=jr.key(0), **options), folder / "model.safetensors")
    words = ["inspect", str(folder / "model.safetensors"), str(folder / "waves.npz"), "--out", str(folder / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder / "out" / "report.html"


def reproduced(folder):
    """The page of a tiny run of a paper."""
    found = hs.papers.reproduce("andreas2016", folder=folder, config=TINY)
    write_page(reproduction_page([found]), folder / "report.html")
    return folder / "report.html"


MAKE = {
    "leaky": lambda folder: inspected(folder, "leaky", hidden=2, signs=0.5),
    "hmm": lambda folder: inspected(folder, "hmm", states=3),
    "multi-particle": lambda folder: inspected(folder, "multi-particle", hidden=3, particles=2),
    "paper": reproduced,
}


@pytest.mark.parametrize("name", MAKE)
def test_every_chart_of_the_page_is_drawn_and_nothing_overflows(opened, tmp_path, name):
    path = MAKE[name](tmp_path)
    with opened(path) as page:
        figures = page.locator("figure.chart").all()
        assert len(figures) >= 2
        for figure in figures:
            assert figure.locator(".marks > *").count() > 0, figure.inner_text()
        assert "NaN" not in page.locator("main").inner_html()
        if name != "paper":
            assert "Left out" not in page.locator("section", has_text="Where the state goes").inner_text()
    with opened(path, width=420, theme="dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
