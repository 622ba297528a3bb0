"""Pages as text: what is escaped, what is kept, and what is refused."""

import json
import re

import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.charts import Chart, Line
from hiddenstate.report.page import Page, Section, Slides, Table, Verdict, to_html, write_page

EVIL = """</script><b>"x" & 'y'</b> <!-- ü \u2028"""


def chart(title="title", x=(0, 1), y=(1.0, 2.0)):
    return Chart(title, "x", "y", [Line(list(x), list(y))])


def embedded(html):
    """The data of the charts, found as a browser finds them: up to the first end of a script."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_names_come_back_as_they_were():
    html = to_html(Page(EVIL, EVIL, [Section(EVIL, charts=[chart(EVIL)])]))
    assert embedded(html)[0]["title"] == EVIL
    assert "<b>" not in html and "<!-- " not in html
    assert html.count("<script") == html.count("</script>") == 2


def test_numbers_keep_seven_digits_and_gaps_are_null():
    html = to_html(Page("t", "", [Section("s", charts=[chart(y=(np.pi, np.nan))])]))
    assert embedded(html)[0]["layers"][0]["y"] == [3.141593, None]


def test_a_page_names_no_other_place():
    html = to_html(Page("t", "", [Section("s", charts=[chart()])]))
    outside = set(re.findall(r"(?:https?:)?//[a-z][\w.]*", html)) - {"http://www.w3.org"}
    assert outside == set()
    assert "default-src 'none'" in html


def test_errors_stand_in_the_cell_of_their_value():
    rows = [{"a": 1.23456, "e": 0.0213}, {"a": -1.5, "e": None}, {"a": float("nan"), "e": 1.0}, {"a": None, "e": None}]
    html = to_html(Page("t", "", [Section("s", tables=[Table(rows, errors={"a": "e"})])]))
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?</td>", html)]
    assert cells == ["1.235 ± 0.021", "−1.5", "– ± 1.0", ""]
    assert html.count("<th ") == 1


def test_columns_that_some_rows_lack_are_there():
    rows = [{"a": "x"}, {"a": "y", "b": 12345}]
    html = to_html(Page("t", "", [Section("s", tables=[Table(rows, headings={"b": "number"})])]))
    assert "number" in html and "12,345" in html


def test_a_long_table_is_folded_and_says_how_long():
    html = to_html(Page("t", "", [Section("s", tables=[Table([{"a": 1}] * 3, "all", folded=True)])]))
    assert "<details><summary>all (3 rows)</summary>" in html


def test_verdicts_are_told_in_words():
    verdicts = [Verdict("one", "1", True), Verdict("two", "2", False, "why")]
    html = to_html(Page("t", "", [Section("s", verdicts=verdicts)]))
    assert "✓ holds</span> one" in html and "✗ does not hold</span> two" in html and "why" in html


def test_slides_without_charts_for_every_label_are_refused():
    with pytest.raises(hs.HiddenStateError, match="2 labels"):
        Slides("s", ["a", "b"], [[chart()]])
    with pytest.raises(hs.HiddenStateError, match="equally many"):
        Slides("s", ["a", "b"], [[chart()], []])


def test_a_page_is_written_whole(tmp_path):
    write_page(Page("t", "", [Section("s")]), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert len(text) < 100_000
