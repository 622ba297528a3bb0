"""The report of a real comparison, made as `hiddenstate compare` makes it, opened in a browser."""

import pytest
from typer.testing import CliRunner

from browser.test_page import chart, ends, hover
from hiddenstate.cli import app

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison")
    words = ["compare", "--models", "gru,hmm,unigram,ar1", "--hidden", "4", "--states", "2", "--epochs", "1"]
    result = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"open {out / 'report.html'} in a browser" in result.stdout
    return out / "report.html"


@pytest.fixture(scope="module")
def page(opened, path):
    with opened(path) as page:
        yield page


def test_sections_tables_and_charts_are_there(page):
    titles = [
        "Ranking",
        "Predictions",
        "Forecasts",
        "Calibration",
        "States and beliefs",
        "Learning",
        "How this was made",
    ]
    assert page.locator("h2").all_inner_texts() == titles
    assert page.locator("table").first.locator("tbody tr").count() == 4
    assert "±" in page.locator("table").first.locator("tbody tr").first.inner_text()
    for figure in page.locator("figure.chart").all():
        assert figure.locator(".marks > *").count() > 0, figure.inner_text()
    assert "NaN" not in page.locator("main").inner_html()
    assert "--seed 0" in page.locator("header .commands").inner_text()


def test_hover_tells_what_was_predicted_and_what_came(page):
    figure = chart(page, "each step predicted from those before it")
    low, high = ends(figure)
    said = hover(page, figure, (291 - low) / (high - low)).inner_text()
    assert "step of sunspots: 291" in said
    assert "142.6" in said  # the sunspots of 1990, step 1 being 1700
    assert "predicted mean" in said and "90% of the prediction" in said


def test_the_slider_goes_through_forecasts(page):
    slides = page.locator(".slides").first
    before = slides.locator(".marks").first.inner_html()
    slides.locator("input").focus()
    page.keyboard.press("ArrowRight")
    assert slides.locator(".marks").first.inner_html() != before


def test_bands_of_a_forecast_differ_in_the_legend(page):
    signs = page.locator(".slides").first.locator("figure.chart").first.locator(".legend rect")
    assert len({sign.get_attribute("style") for sign in signs.all()}) == signs.count() == 2


def test_a_narrow_dark_page_does_not_overflow(opened, path):
    with opened(path, width=420, theme="dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
