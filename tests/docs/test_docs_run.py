"""Every Python block of README.md and of the pages in docs/ runs, and prints what the page says.

The blocks of a page run in order in one namespace, in an empty folder, in the precision that a user has by
default. A block marked `output` holds what the block before it prints. Words and whole numbers are the same;
others may differ by 5%, because learning is the same bit for bit on one machine only.
"""

import contextlib
import io
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from docs.pages import PAGES, Block, blocks

NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")


LONG = (
    "beliefs.md",
    "cost.md",
    "dynamics.md",
    "hamilton.md",
    "multi-particle.md",
    "scoring.md",
    "strategies.md",
    "particles.md",
    "training.md",
    "hidden-markov.md",
    "answers.md",
    "variational.md",
    "linear-gaussian.md",
    "switching.md",
    "encoder-decoder.md",
)
"""Pages that take long: they run with the slow tests."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in LONG), id=page.name) for page in PAGES],
)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": f"docs_{page.stem}"}
    printed = None
    with jax.enable_x64(False), np.printoptions():  # what a page sets for itself is not for the next
        for block in blocks(page):
            if block.runs:
                printed = run(block, page, namespace)
            elif block.info == "output":
                assert printed is not None, f"{page.name}:{block.line}: an output without code before it"
                assert_alike(printed, block.body, f"{page.name}:{block.line}")


def run(block: Block, page: Path, namespace: dict) -> str:
    """What a block prints; its errors name the line of the page."""
    code = compile("\n" * (block.line - 1) + block.body, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def assert_alike(printed: str, said: str, where: str) -> None:
    """The same words and whole numbers, and other numbers within 5% (or 0.02, near zero) of each other."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (printed, said)]
    assert words[0] == words[1], f"{where}: the page says\n{said}\nbut the code prints\n{printed}"
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in (printed, said)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05, abs=0.02), f"{where}: the code prints\n{printed}"


def test_every_page_is_tried():
    assert {"tutorial.md", "index.md"} <= {page.name for page in PAGES}


def test_a_wrong_output_is_noticed():
    assert_alike("loss 1.001 after 10 steps", "loss  1.0 after 10 steps\n", "here")
    for wrong in ("loss 1.2 after 10 steps", "loss 1.0 in 10 steps", "loss 1.0 after 11 steps"):
        with pytest.raises(AssertionError):
            assert_alike("loss 1.0 after 10 steps", wrong, "here")
