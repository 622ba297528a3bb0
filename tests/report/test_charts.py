"""Charts as plain data, and drawn."""

import json
import re

import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.charts import Arrows, Band, Bars, Chart, Heat, Line, Points, Rule
from hiddenstate.report.drawing import colour_of, draw_chart, draw_charts

X = np.arange(3.0)
LAYERS = [
    Line(X, [1.0, np.nan, 2.0], name="a", errors=[0.1, 0.1, 0.1], marks=True, colour=2),
    Band(X, X, X + 1),
    Points(X, X, values=X, labels=["p", "q", "r"]),
    Bars(["a", "b"], [1, 2], errors=[0.1, 0.2]),
    Rule(0.5, name="chance", colour="grey"),
    Heat(X, X[:2], np.ones((2, 3)), label="p"),
    Arrows(X, X, X, X, colour="ink"),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_every_layer_is_drawn_and_plain(tmp_path, layer):
    chart = Chart("title", "x", "y", [layer], note="what to see")
    draw_charts([chart], tmp_path / "plot.svg")
    assert "title" in (tmp_path / "plot.svg").read_text()
    plain = json.loads(json.dumps(chart.plain(), allow_nan=False))
    assert plain["layers"][0]["kind"] == type(layer).__name__.lower()


def test_what_is_not_finite_is_none():
    assert Chart("t", "x", "y", [LAYERS[0]]).plain()["layers"][0]["y"] == [1.0, None, 2.0]


@pytest.mark.parametrize(
    "layer", [Line(X, X[:2]), Band(X, X[:2], X), Points(X, X, values=X[:1]), Heat(X, X, np.ones((2, 3)))]
)
def test_layers_of_unequal_numbers_are_refused(layer):
    with pytest.raises(hs.HiddenStateError, match="title: "):
        Chart("title", "x", "y", [layer])


@pytest.mark.parametrize(
    "ends, marks", [((40, 640), ["50", "100", "200", "500"]), ((1, 1e6), ["1", "100", "10000", "1000000"])]
)
def test_numbers_along_a_logarithmic_axis_are_few_and_plain_where_they_can_be(ends, marks):
    from matplotlib.figure import Figure

    axes = Figure(figsize=(4.9, 3.7)).add_subplot()
    draw_chart(axes, Chart("title", "x", "y", [Line(ends, [0.5, 1])], x_scale="log"))
    low, high = axes.get_xlim()
    shown = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert [f"{tick:g}" for tick in shown if f"{tick:.0f}" in marks] == [f"{float(mark):g}" for mark in marks]
    assert not any(label.get_text() for label in axes.get_xticklabels(minor=True))


def test_axes_of_equal_scale_are_drawn_without_complaint(tmp_path, caplog):
    chart = Chart("title", "x", "y", [Points(X, 9 * X), Rule(1.0)], equal=True)
    draw_charts([chart], tmp_path / "plot.svg")
    assert not [record for record in caplog.records if record.name.startswith("matplotlib")]


def test_layers_that_are_drawn_together_differ_in_colour_or_mark():
    models = [Line(X, X, colour=place) for place in range(50)]
    greys = [Line(X, X, colour="grey", variant=i) for i in range(3)]
    looks = {(one.colour if isinstance(one.colour, str) else colour_of(one), one.mark) for one in (*models, *greys)}
    assert len(looks) == 53
    assert {one.mark for one in models[:8]} == {0}


@pytest.mark.parametrize("kind", [Line, Points, Bars, Rule])
def test_marks_are_drawn(tmp_path, kind):
    """Two layers of one colour do not look the same in a file."""
    drawn = []
    for variant in (0, 1, 2):
        made = (
            kind(0.5, variant=variant)
            if kind is Rule
            else kind(["a", "b", "c"] if kind is Bars else X, X, variant=variant)
        )
        draw_charts([Chart("t", "x", "y", [made])], tmp_path / f"{variant}.svg")
        drawn.append(re.sub(r"<dc:date>.*", "", (tmp_path / f"{variant}.svg").read_text()))
    assert len(set(drawn)) == 3


def test_bands_have_their_colours_in_the_legend():
    from matplotlib.figure import Figure

    axes = Figure(figsize=(4.9, 3.7)).add_subplot()
    bands = [Band(X, X - 3, X + 3, name="90%"), Band(X, X - 1, X + 1, name="50%", within=1)]
    draw_chart(axes, Chart("t", "x", "y", [*bands, Line(X, X, name="median")]))
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["90%", "50%", "median"]
    outer, inner = (patch.get_alpha() for patch in legend.get_patches())
    assert outer == pytest.approx(0.2) and inner == pytest.approx(0.36)
