"""Every example runs, on very little data, and leaves its plot and what it found."""

import importlib.util
import json
from pathlib import Path

import pytest

from marks import quick

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")


@pytest.mark.parametrize("name", quick(NAMES))
def test_it_runs_and_leaves_its_plot_and_summary(name, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--quick", "--out", str(tmp_path)])
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads((tmp_path / "summary.json").read_text())
    printed = capsys.readouterr().out
    assert rows and all(next(iter(row.values())) in printed for row in rows)
