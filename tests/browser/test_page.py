"""A page with every layer, tried in a real browser."""

import pytest

from browser import example
from hiddenstate.report.page import write_page

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(example.page(), path)
    return path


@pytest.fixture(scope="module")
def page(opened, path):
    with opened(path) as page:
        yield page


@pytest.fixture(autouse=True)
def whole(request):
    """Charts are shown whole again, and the pointer is nowhere."""
    yield
    if "page" in request.fixturenames:
        page = request.getfixturevalue("page")
        page.mouse.move(0, 0)
        for button in page.locator(".reset:visible").all():
            button.click()


def chart(page, title):
    return page.locator("figure.chart", has=page.locator("figcaption", has_text=title)).first


def ends(figure, axis="x"):
    """The ends of an axis, as the chart says them."""
    return [float(word) for word in figure.locator("svg.plot").get_attribute(f"data-{axis}").split()]


def pixel(figure, share_x, share_y):
    """A point inside the marks of a chart, as shares of its width and height from the left and from the top."""
    figure.scroll_into_view_if_needed()
    axis = figure.locator(".axis").bounding_box()
    plot = figure.locator("svg.plot").bounding_box()
    top = plot["y"] + 24 * plot["width"] / float(figure.locator("svg.plot").get_attribute("viewBox").split()[2])
    return axis["x"] + share_x * axis["width"], top + share_y * (axis["y"] - top)


def hover(page, figure, share_x, share_y=0.5):
    page.mouse.move(*pixel(figure, share_x, share_y))
    return figure.locator(".tooltip")


def test_every_chart_has_marks(page):
    figures = page.locator("figure.chart")
    assert figures.count() == 10
    for figure in figures.all():
        assert figure.locator(".marks > *").count() > 0, figure.inner_text()
        assert figure.locator(".axes text").count() > 3
    assert page.locator("table").first.is_visible()


def test_names_cannot_break_the_page(page):
    assert page.locator("h1").inner_text().startswith("Everything </script><b>\"x\" & 'y'</b> <!-- ü ☃")
    assert page.locator("b").count() == 0
    assert "</script>" in page.locator("tbody").first.inner_text()
    assert "NaN" not in page.locator("main").inner_html()


def test_hover_tells_the_values_of_all_layers_at_an_x(page):
    figure = chart(page, "Lines")
    low, high = ends(figure)
    tooltip = hover(page, figure, (20 - low) / (high - low))
    said = tooltip.inner_text()
    assert "step: 20" in said and "metres" in said
    values = dict(
        zip(tooltip.locator(".name").all_inner_texts(), tooltip.locator(".value").all_inner_texts(), strict=True)
    )
    assert values["with gaps"] == "100"
    assert tooltip.locator(".value").all_inner_texts() == ["180 to 220", "200", "100"]
    assert figure.locator(".cross").count() == 1
    page.mouse.move(0, 0)
    assert tooltip.is_hidden()


def test_hover_leaves_out_what_is_missing(page):
    figure = chart(page, "Lines")
    low, high = ends(figure)
    tooltip = hover(page, figure, (23 - low) / (high - low))
    assert "step: 23" in tooltip.inner_text() and "with gaps" not in tooltip.inner_text()


def test_hover_tells_the_nearest_point_with_its_label(page):
    figure = chart(page, "Points")
    (x0, x1), (y0, y1) = ends(figure), ends(figure, "y")
    tooltip = hover(page, figure, (2 - x0) / (x1 - x0) + 0.01, (y1 - 2) / (y1 - y0) + 0.02)
    assert "third" in tooltip.inner_text()
    assert tooltip.locator(".value").all_inner_texts() == ["2", "2", "1"]


def test_hover_tells_the_error_of_a_named_row(page):
    figure = chart(page, "Ranking")
    (x0, x1) = ends(figure)
    tooltip = hover(page, figure, (1.2 - x0) / (x1 - x0), 0.5)
    assert tooltip.locator(".value").all_inner_texts() == ["1.2 ± 0.1", "a model with a long name"]


def test_hover_tells_a_cell(page):
    said = hover(page, chart(page, "Beliefs"), 0.5 / 40, 0.25).inner_text()
    assert "step: 0" in said and "dry" in said and "0.5" in said


def test_hover_tells_bars_side_by_side(page):
    tooltip = hover(page, chart(page, "Bars"), 0.5)
    assert "model: gru" in tooltip.inner_text()
    assert tooltip.locator(".value").all_inner_texts() == ["0.75 ± 0.05", "0.6"]


def test_drag_zooms_and_double_click_shows_all(page):
    figure = chart(page, "Lines")
    before, tall = ends(figure), ends(figure, "y")
    page.mouse.move(*pixel(figure, 0.25, 0.5))
    page.mouse.down()
    page.mouse.move(*pixel(figure, 0.4, 0.6), steps=3)
    page.mouse.move(*pixel(figure, 0.5, 0.6), steps=3)
    page.mouse.up()
    low, high = ends(figure)
    span = before[1] - before[0]
    assert low == pytest.approx(before[0] + 0.25 * span, abs=0.02 * span)
    assert high == pytest.approx(before[0] + 0.5 * span, abs=0.02 * span)
    assert ends(figure, "y")[1] < tall[1]
    page.mouse.dblclick(*pixel(figure, 0.5, 0.5))
    assert ends(figure) == before and ends(figure, "y") == tall


def test_a_circle_is_round(page):
    line = chart(page, "Flow").locator(".marks path[style*='stroke-width:1.8']").first.bounding_box()
    assert line["width"] == pytest.approx(line["height"], rel=0.02)


def test_steps_have_whole_ticks(page):
    """Zoomed in as far as a few steps, there is no step and a half."""
    figure = chart(page, "Lines")
    page.mouse.move(*pixel(figure, 0.50, 0.5))
    page.mouse.down()
    page.mouse.move(*pixel(figure, 0.55, 0.5), steps=3)
    page.mouse.up()
    low, high = ends(figure)
    assert high - low < 3
    words = figure.locator("text.tick").all_text_contents()
    numbers = [float(word) for word in words if word.replace(".", "").isdigit() and low <= float(word) <= high]
    assert numbers and all(number == int(number) for number in numbers)


def test_points_zoom_both_ways_and_the_button_shows_all(page):
    figure = chart(page, "Flow")
    before, tall = ends(figure), ends(figure, "y")
    page.mouse.move(*pixel(figure, 0.3, 0.3))
    page.mouse.down()
    page.mouse.move(*pixel(figure, 0.7, 0.7), steps=4)
    page.mouse.up()
    assert ends(figure)[0] > before[0] and ends(figure, "y")[0] > tall[0] and ends(figure, "y")[1] < tall[1]
    figure.locator(".reset").click()
    assert ends(figure) == before and ends(figure, "y") == tall


def test_keys_walk_and_zoom(page):
    figure = chart(page, "Lines")
    plot = figure.locator("svg.plot")
    page.mouse.move(1, 1)  # a pointer that an earlier test left here would say where it is
    plot.focus()
    page.keyboard.press("Escape")  # keys go on from where a pointer was, until all is shown again
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "step: 1" in figure.locator(".tooltip").inner_text()
    page.keyboard.press("+")
    assert ends(figure)[1] < 39
    page.keyboard.press("Escape")
    assert ends(figure)[1] > 39
    assert "metres against step" in plot.get_attribute("aria-label")


def test_the_legend_hides_layers_and_their_bands(page):
    figure = chart(page, "Lines")
    count = figure.locator(".marks > *").count()
    button = figure.locator(".legend button", has_text="tens")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert figure.locator(".marks > *").count() == count - 2
    assert ends(figure, "y")[1] < 250
    button.click()
    assert figure.locator(".marks > *").count() == count


def test_the_slider_changes_the_picture(page):
    slides = page.locator(".slides")
    before = slides.locator(".marks").first.inner_html()
    slides.locator("input").focus()
    page.keyboard.press("ArrowRight")
    assert slides.locator("output").inner_text().startswith("</script>")
    assert slides.locator("figcaption").nth(1).inner_text() == "Beliefs 1"
    assert slides.locator(".marks").first.inner_html() != before
    page.keyboard.press("ArrowLeft")
    assert slides.locator(".marks").first.inner_html() == before


def test_tables_are_sorted_by_a_click(page):
    table = page.locator("table").first
    heading = table.locator("th button", has_text="nats")
    heading.click()
    assert table.locator("tbody tr td:first-child").first.inner_text() == "hmm"
    heading.click()
    assert "</script>" in table.locator("tbody tr td:first-child").first.inner_text()
    assert table.locator("tbody tr").nth(1).locator("td").nth(1).inner_text() == "1.250 ± 0.031"


def test_long_words_wrap_so_that_a_table_fits(page):
    table = page.locator(".scroll", has=page.locator("th", has_text="why it stopped"))
    assert table.evaluate("region => region.scrollWidth <= region.clientWidth")
    assert table.locator("td").first.bounding_box()["height"] > table.locator("th").first.bounding_box()["height"]


def test_the_button_changes_the_theme(page):
    def background():
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    light = background()
    page.locator(".theme").click()
    assert background() != light
    page.locator(".theme").click()
    assert background() == light == "rgb(255, 255, 255)"


def test_the_system_chooses_the_theme_and_print_is_light(opened, path):
    with opened(path, theme="dark") as page:
        look = "getComputedStyle(document.documentElement).backgroundColor"
        assert page.evaluate(look) != "rgb(255, 255, 255)"
        page.emulate_media(media="print")
        assert page.evaluate(look) == "rgb(255, 255, 255)"
        assert page.locator(".theme").is_hidden() and page.locator(".slider input").is_hidden()
        assert page.locator(".marks").first.is_visible()


def test_a_narrow_page_does_not_overflow_and_answers_to_touch(opened, path):
    with opened(path, width=420, has_touch=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        figure = chart(page, "Lines")
        page.touchscreen.tap(*pixel(figure, 0.5, 0.5))
        assert "step: " in figure.locator(".tooltip").inner_text()
        width = float(figure.locator("svg.plot").get_attribute("viewBox").split()[2])
        page.set_viewport_size({"width": 900, "height": 900})
        page.wait_for_function(
            "width => Number(document.querySelector('svg.plot').getAttribute('viewBox').split(' ')[2]) !== width",
            arg=width,
        )


def test_long_series_are_drawn_thin_but_whole(page):
    figure = chart(page, "Many")
    path = figure.locator(".marks path").get_attribute("d")
    places = path.count("L")
    assert 500 < places < 8000
    low, high = ends(figure, "y")
    assert low < -1.15 and high > 1.15


def test_words_and_tables_need_no_script(browser, path):
    page = browser.new_page(java_script_enabled=False)
    page.goto(path.as_uri())
    assert page.locator("table").first.is_visible() and "JavaScript" in page.locator("noscript").inner_text()
    page.close()
