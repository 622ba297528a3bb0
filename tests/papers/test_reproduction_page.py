"""What was reproduced, as one page."""

from dataclasses import replace

from hiddenstate.papers import Claim, Reproduction
from hiddenstate.papers.page import reproduction_page
from hiddenstate.report.charts import Chart, Line
from hiddenstate.report.page import to_html

FOUND = Reproduction(
    "trial",
    "a trial",
    "Nobody 2017, figure 5",
    "quick",
    7,
    {"units": (1, 20)},
    (Claim("One is one.", "1 = 1", True), Claim("Two is three.", "2 < 3", False, "They differ.")),
    {"short": [{"a": 1}], "long": [{"a": k} for k in range(40)]},
    (Chart("curve", "x", "y", [Line([0, 1], [0, 1])]),),
    {"first part": 1.25},
)


def test_claims_are_marked_and_counted():
    page = reproduction_page([FOUND], "hiddenstate reproduce trial")
    assert page.summary.startswith("1 of 2 claims hold in this run.")
    assert [verdict.holds for verdict in page.sections[0].verdicts] == [True, False]
    text = to_html(page)
    for said in ("✓ holds", "✗ does not hold", "They differ.", "2 &lt; 3", "Seed 7", "first part", "(1, 20)"):
        assert said in text
    assert page.sections[0].commands == ["hiddenstate reproduce trial --quick --seed 7"]


def test_long_tables_are_folded():
    tables = {table.title: table.folded for table in reproduction_page([FOUND]).sections[0].tables}
    assert tables == {"short": False, "long": True, "what it was run with": True, "seconds of every part": True}


def test_several_runs_have_an_overview():
    page = reproduction_page([FOUND, replace(FOUND, name="other", claims=FOUND.claims[:1])])
    rows = page.sections[0].tables[0].rows
    assert [(row["name"], row["claims"], row["hold"]) for row in rows] == [("trial", 2, 1), ("other", 1, 1)]
    assert len(page.sections) == 3 and page.summary.startswith("2 of 3")
