import re

import jax.random as jr
import matplotlib.image
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.graphs import _delayed, _loop, _unfolded, draw_graph
from marks import quick

EXAMPLES = ("rnn", "hmm", "particle-filter", "switching")


def driven():
    cell, head = hs.cells.GRU(3, 2, key=jr.key(0)), hs.heads.Categorical(3, 2, key=jr.key(1))
    return hs.RNN(cell, head, inputs=1)


def autoregressive():
    emission = hs.emissions.Autoregressive(
        intercepts=[0.0, 1.0], weights=[[0.5, 0.1], [0.2, 0.3]], variances=[1.0, 2.0]
    )
    return hs.HMM([0.5, 0.5], [[0.7, 0.3], [0.4, 0.6]], emission)


def graphs():
    yield from (hs.inspect.example_graph(name, 3) for name in EXAMPLES)
    yield from (hs.inspect.graph(model, 4) for model in (driven(), autoregressive()))


@pytest.mark.parametrize("form", ["unfolded", "loop"])
@pytest.mark.parametrize("name", quick(EXAMPLES))
def test_pictures_are_drawn_in_ink(name, form, tmp_path):
    png, svg = tmp_path / "graph.png", tmp_path / "graph.svg"
    draw_graph(name, png, form=form)
    draw_graph(name, svg, form=form)
    pixels = matplotlib.image.imread(png)[..., :3]
    assert 0.02 < (pixels.min(-1) < 0.5).mean() < 0.3
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert (edge > 0.99).all(), "something runs out of the picture"
    assert len(svg.read_text()) < 120_000


def test_the_same_graph_gives_the_same_file(tmp_path):
    texts = []
    for name in ("a.svg", "b.svg"):
        draw_graph("rnn", tmp_path / name)
        texts.append(re.sub(r"<dc:date>.*?</dc:date>", "", (tmp_path / name).read_text()))
    assert texts[0] == texts[1]


def test_no_circle_covers_another_and_no_straight_arrow_runs_through_one():
    for made in graphs():
        drawing = _unfolded(made)
        assert set(drawing.nodes) == set(made) and len(drawing.edges) == made.number_of_edges()
        places = {name: np.array(node.at) for name, node in drawing.nodes.items()}
        for name, at in places.items():
            assert all(np.hypot(*(at - other)) > 0.8 for key, other in places.items() if key != name)
        for edge in drawing.edges:
            if edge.bend:
                continue
            start, way = places[edge.source], places[edge.target] - places[edge.source]
            for name, at in places.items():
                if name in (edge.source, edge.target):
                    continue
                along = np.clip((at - start) @ way / (way @ way), 0, 1)
                assert np.hypot(*(start + along * way - at)) > 0.31, (edge, name)


def test_only_arrows_into_later_steps_wait_at_a_delay():
    for made in graphs():
        drawing = _loop(made.graph["pattern"])
        lags = {(edge.source, edge.target, edge.lag) for edge in drawing.edges}
        due = set()
        for a, b in made.edges:
            first, second = made.nodes[a], made.nodes[b]
            due.add((first["variable"], second["variable"], second["time"] - first["time"]))
        assert lags == due


def test_a_delayed_arrow_begins_and_ends_at_its_circles():
    for a, b in (((0, 0), (0, 0)), ((0, 0), (0, 1.5)), ((2.8, 1.5), (0, 1.5)), ((1.4, 0), (0, 1.5))):
        a, b = np.array(a, float), np.array(b, float)
        corners = _delayed(a, b, 1)
        assert 0.3 < np.hypot(*(corners[0] - a)) < 0.6
        assert 0.3 < np.hypot(*(corners[-1] - b)) < 0.6


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(hs.HiddenStateError, match="form is 'circle'; it must be one of unfolded, loop"):
        draw_graph("rnn", tmp_path / "a.svg", form="circle")
    with pytest.raises(hs.FileError, match="a plot is written as"):
        draw_graph("rnn", tmp_path / "a.txt")
    with pytest.raises(hs.HiddenStateError, match="name is 'tree'"):
        draw_graph("tree", tmp_path / "a.svg")
