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
