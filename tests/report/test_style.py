import json
import re
from importlib.resources import files

import matplotlib
import pytest

import hiddenstate as hs
from hiddenstate.report import style


def test_the_look_is_left_behind_nowhere(tmp_path):
    before = dict(matplotlib.rcParams)
    with style.canvas(tmp_path / "plot.png", 2, 2) as figure:
        figure.subplots().plot([0, 1])
    assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_a_plot_needs_a_known_ending_and_a_folder(tmp_path):
    with pytest.raises(hs.FileError, match=r"a plot is written as \.png, \.pdf, \.svg"):
        style.canvas(tmp_path / "plot.txt", 2, 2).__enter__()
    with pytest.raises(hs.FileError, match="cannot write"), style.canvas(tmp_path / "no" / "p.png", 2, 2):
        pass


def test_colours_are_stable_and_baselines_grey():
    few = style.colours(["gru", "unigram"], ["unigram"])
    assert few["gru"] == style.COLOURS[0]
    assert few["unigram"] in style.GREYS


def test_labels_too_close_are_moved_apart_around_their_mean():
    assert style._apart([0.0, 0.1, 5.0], 1.0) == pytest.approx([-0.45, 0.55, 5.0])
    placed = style._apart([0.0, 0.5, 1.0, 1.2], 1.0)
    assert placed == pytest.approx([-0.825, 0.175, 1.175, 2.175])


def test_a_page_knows_the_colours_and_marks_of_plots():
    assets = files("hiddenstate.report").joinpath("assets")
    light = re.findall(r"--c(\d+): light-dark\((#\w+), (#\w+)\)", assets.joinpath("page.css").read_text())
    assert [(int(place), colour) for place, colour, _ in light] == list(enumerate(map(str.lower, style.COLOURS)))
    assert len({dark for *_, dark in light}) == len(style.COLOURS)
    layers = assets.joinpath("layers.js").read_text()
    assert f"COLOURS = {len(style.COLOURS)};" in layers and f"BAND = {style.BAND};" in layers
    for name in ("DASHES", "SHAPES", "HATCHES"):
        drawn = json.loads(re.findall(rf"const {name} = (\[.*\]);", layers)[0])
        assert len(drawn) == len(getattr(style, name.replace("SHAPES", "MARKERS")))
