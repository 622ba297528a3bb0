"""The pages of comparisons of all kinds: what is on them, and what is left out."""

from dataclasses import replace

import jax.random as jr
import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.learn.compare import Comparison, Row
from hiddenstate.learn.scores import step_nats
from hiddenstate.report.charts import Band, Heat, Line, Points
from hiddenstate.report.comparison_charts import gain_charts, learning_charts, ranking_charts, timing_charts
from hiddenstate.report.comparison_page import comparison_page
from hiddenstate.report.drawing import colour_of
from hiddenstate.report.page import to_html
from hiddenstate.report.prediction_charts import forecast_slides, prediction_charts
from hiddenstate.report.state_charts import state_slides
from marks import quick

HISTORY = pl.DataFrame({"step": [1, 2, 3], "validation": [3.0, None, 2.0]})


def row(model, nats, difference, **others):
    return Row(model, nats, 0.05, difference, 0.05, 9, 1.5, True, "why.", model == "unigram", **others)


def comparison(train, test, names, **others):
    """What a comparison of models that were built but not fitted would be; the first is the best."""
    models = {name: hs.build(name, train, key=jr.key(0), **({"hidden": 4} if name == "gru" else {})) for name in names}
    rows = tuple(row(name, 1.0 + 0.5 * i, 0.5 * i, **others) for i, name in enumerate(names))
    nats = {name: step_nats(model, test) for name, model in models.items()}
    return Comparison(rows, models, dict.fromkeys(names, HISTORY), train, test, nats, "cut in time.")


def reals():
    data = hs.Sequences.of([np.sin(np.arange(20.0)), np.cos(np.arange(14.0))])
    return comparison(*data.split_time(0.6, context=True), ["gru", "unigram"])


def symbols():
    data = hs.Sequences.of([np.arange(20) % 3, np.arange(14) % 2])
    return comparison(*data.split_time(0.6, context=True), ["hmm", "gru", "unigram"])


def columns():
    values = np.stack([np.arange(20) % 2, np.arange(20) // 3 % 2], axis=1)
    return comparison(*hs.Sequences.of([values]).split_time(0.6, context=True), ["gru", "unigram"])


def gaps():
    values = np.where(np.arange(30) % 7 == 3, np.nan, np.sin(np.arange(30.0)))
    data = hs.Sequences.of([values])
    return comparison(*data.split_time(0.6, context=True), ["linear-gaussian", "hmm"])


def inputs():
    data = hs.Sequences.of([np.sin(np.arange(20.0))], inputs=[np.cos(np.arange(20.0))[:, None]])
    return comparison(*data.split_time(0.6, context=True), ["gru"])


def single_steps():
    data = hs.Sequences.of([np.array([k % 3]) for k in range(12)])
    return comparison(data[:8], data[8:], ["hmm", "unigram"])


def answers():
    pairs = hs.Pairs.of([np.arange(5) % (2 + k % 2) for k in range(12)], [k % 2 for k in range(12)])
    return comparison(pairs[:8], pairs[8:], ["gru", "majority"], quality=0.5, measure="accuracy", solved=False)


def page_of(made):
    return comparison_page(made, "In words.", about={"data": "x.csv", "seed": 7}, key=jr.key(0), command="do it")


@pytest.mark.parametrize("make", quick([symbols, answers, reals, columns, gaps, inputs, single_steps], 2))
def test_every_kind_of_comparison_has_a_page(make):
    page = page_of(make())
    text = to_html(page)
    titles = [section.title for section in page.sections]
    assert titles[0] == "Ranking" and titles[-2:] == ["Learning", "How this was made"]
    assert ("Forecasts" in titles) is (make is not answers)
    said = {section.title: section.text for section in page.sections if section.text.startswith("Left out")}
    assert set(said) == ({"Forecasts"} if make is single_steps else set()), said
    assert page.commands == ["do it"] and "<span>do</span> <span>it</span>" in text


def test_where_no_score_is_finite_only_the_table_is_there():
    made = reals()
    failed = replace(made, rows=(replace(made.rows[0], nats_per_step=np.nan),))
    assert [section.title for section in page_of(failed).sections] == ["Ranking", "How this was made"]


def test_the_table_has_errors_in_its_cells_and_baselines_grey():
    table = page_of(reals()).sections[0].tables[0]
    assert table.errors["nats_per_step"] == "standard_error"
    assert table.faint == [1]
    assert table.rows[0]["difference"] is None and table.rows[1]["difference"] == 0.5


def test_models_far_behind_are_named_and_not_shown():
    made = reals()
    far = replace(made.rows[0], model="far", nats_per_step=90.0, difference=89.0)
    charts = ranking_charts(replace(made, rows=(*made.rows, far)))
    assert all(chart.y_names == ["gru", "unigram"] and "far" in chart.note for chart in charts)


def test_gains_are_the_sums_of_differences():
    made = reals()
    chart = gain_charts(made)[0]
    line = next(layer for layer in chart.layers if isinstance(layer, Line))
    lost = made.step_nats["unigram"] - made.step_nats["gru"]
    assert line.y[-1] == pytest.approx(lost.sum())
    assert len(line.y) == made.test.scored_steps + 1


def test_bands_of_predictions_have_the_quantiles_of_a_gaussian():
    mean = np.zeros(1)
    model = hs.LinearGaussian(
        transition=[[0.0]], transition_noise=[[1.0]], emission=[[1.0]], emission_noise=[[3.0]],
        initial_mean=mean, initial_covariance=[[1.0]],
    )  # fmt: skip
    data = hs.Sequences.of([np.full((40, 1), 9.0)])
    chart = prediction_charts(model, data, key=jr.key(0), name="white")[0]
    band = next(layer for layer in chart.layers if isinstance(layer, Band))
    deviation = 2.0  # of a sum of variances 1 + 3, whatever was seen
    np.testing.assert_allclose(band.high, 1.645 * deviation, atol=0.6)
    np.testing.assert_allclose(np.mean(band.high), 1.645 * deviation, atol=0.1)
    outside = chart.layers[-1]
    assert outside.name == "observed, outside the 90%" and not np.isnan(np.asarray(outside.y)).any()


def test_probabilities_of_symbols_are_those_of_the_model():
    emission = hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]])
    model = hs.HMM([0.5, 0.5], [[0.7, 0.3], [0.4, 0.6]], emission)
    data = hs.Sequences.of([np.array([0, 1, 1])])
    chart = prediction_charts(model, data, key=jr.key(0))[0]
    heat, came = chart.layers
    assert isinstance(heat, Heat) and isinstance(came, Points)
    belief, expected = np.array([0.5, 0.5]), []
    emit, move = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.4, 0.6]])
    for symbol in (0, 1, 1):
        expected.append(belief @ emit)
        belief = (belief * emit[:, symbol] / (belief @ emit[:, symbol])) @ move
    np.testing.assert_allclose(heat.values, np.array(expected).T, atol=1e-5)
    assert list(came.y) == [0, 1, 1]


def test_forecasts_begin_behind_the_line_and_show_what_followed():
    made = reals()
    slides = forecast_slides({"gru": made.models["gru"]}, made.test, key=jr.key(0))
    assert list(slides.labels) == ["0, after 12 steps", "0, after 14 steps", "1, after 8 steps"]
    chart = slides.charts[0][0]
    band, line = chart.layers[0], next(layer for layer in chart.layers if layer.name == "observed")
    assert isinstance(band, Band) and isinstance(line, Line)
    assert band.x[0] == 13 and list(line.y) == pytest.approx(np.sin(np.asarray(line.x) - 1))  # counted from one
    assert line.x[-1] == band.x[-1]


def test_beliefs_are_filtered_and_the_slider_goes_through_sequences():
    made = symbols()
    slides = state_slides({"hmm": made.models["hmm"], "gru": made.models["gru"]}, made.test)
    assert list(slides.labels) == ["0", "1"]
    heat = slides.charts[1][1].layers[0]
    assert isinstance(heat, Heat)
    steps = np.asarray(heat.x) - 1
    belief = np.asarray(hs.filter(made.models["hmm"], made.test))[1, steps]
    np.testing.assert_allclose(heat.values, belief.T, atol=1e-6)
    assert steps[0] == made.test.context[1] and steps[-1] == made.test.lengths[1] - 1


def test_models_drawn_together_look_different():
    """More models than there are colours, and several baselines."""
    made = reals()
    names = [f"model-{i:02}" for i in range(14)] + ["ar1", "last", "unigram"]
    rows = tuple(replace(made.rows[0], model=name, baseline=not name.startswith("model")) for name in names)
    some = dict.fromkeys(names, made.step_nats["gru"])
    many = replace(made, rows=rows, histories=dict.fromkeys(names, HISTORY), step_nats=some)
    for chart in (*learning_charts(many), *timing_charts(many), *gain_charts(many)):
        named = [layer for layer in chart.layers if layer.name]
        assert len(named) >= 14
        assert len({(layer.colour, layer.mark) for layer in named}) == len(named)
        assert len({(colour_of(layer), layer.mark) for layer in named}) == len(named)


def test_observations_of_other_kinds_are_drawn_by_themselves():
    schema = hs.Schema(
        (hs.Column("sky", "symbol", 2, ("dry", "wet")), hs.Column("temp", "real"), hs.Column("wind", "real"),
         hs.Column("visits", "count")), scalar=False,
    )  # fmt: skip
    values = np.stack([np.arange(12) % 2, 20 + np.arange(12) / 3, np.arange(12.0), 300 + np.arange(12)], axis=1)
    data = hs.Sequences.of([values, values[:5]], schema=schema)
    slides = state_slides({"gru": hs.build("gru", data, hidden=2, key=jr.key(0))}, data)
    for charts in slides.charts:
        assert [chart.title for chart in charts[:3]] == [
            "Observations, sky", "Observations, real numbers", "Observations, visits",
        ]  # fmt: skip
        assert charts[0].y_names == ["dry", "wet"] and isinstance(charts[0].layers[0], Points)
        assert [layer.name for layer in charts[1].layers] == ["temp", "wind"]
        assert charts[2].y == "visits"
