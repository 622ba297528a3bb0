"""A page that a browser shows: sections of words, tables and charts in one file that needs nothing else.

Words and tables are plain HTML; charts are embedded as data, and the scripts of `assets` draw them so that a person can
hover, zoom and go through sequences. The page asks nothing of the network, and its policy forbids it to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.core.storage import VERSION
from hiddenstate.report.charts import Chart
from hiddenstate.report.tables import write_text

SCRIPTS = ("scales.js", "layers.js", "hover.js", "view.js", "page.js")
"""The files of `assets` that are put together to the script of a page, in this order."""

DIGITS = 7
"""So many digits of each number are kept in the data of charts; of a heat map, whose cells are many, half as many."""

LONG = 40
"""A cell of more letters wraps."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of plain values, the same columns in each; a click on a heading sorts them.

    `errors` names, for a column, the one that holds its standard error: both are shown in one cell, with ± between.
    `headings` are titles of columns that differ from their names. In `faint` are the numbers of rows that are there for
    comparison only. A `folded` table shows its title until it is opened.
    """

    rows: Sequence[Mapping[str, Any]]
    title: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    headings: Mapping[str, str] = field(default_factory=dict)
    faint: Sequence[int] = ()
    folded: bool = False


@dataclass(frozen=True, eq=False)
class Slides:
    """Charts of one thing after another, such as sequences, with a slider to go through them.

    `title` says what the slider chooses. `charts` holds, for each label, the charts that are shown beside each other:
    equally many for all.
    """

    title: str
    labels: Sequence[str]
    charts: Sequence[Sequence[Chart]]
    text: str = ""

    def __post_init__(self) -> None:
        counts = {len(shown) for shown in self.charts}
        if not self.labels or len(self.labels) != len(self.charts) or len(counts) != 1:
            raise HiddenStateError(
                f"slides of {self.title!r} have {len(self.labels)} labels and charts for {len(self.charts)}, "
                f"{sorted(counts)} each; every label must have equally many charts."
            )


@dataclass(frozen=True)
class Verdict:
    """What was claimed, what was measured, whether it holds, and why where it does not."""

    statement: str
    measured: str
    holds: bool
    note: str = ""


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page under one title: words (paragraphs apart by an empty line), verdicts, charts, slides, tables."""

    title: str
    text: str = ""
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    slides: Sequence[Slides] = ()
    verdicts: Sequence[Verdict] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Page:
    """A title, a summary in words, sections, and the commands that make the same page again."""

    title: str
    summary: str
    sections: Sequence[Section]
    commands: Sequence[str] = ()


def write_page(page: Page, path: str | Path) -> None:
    """Write a page as one HTML file, whole or not at all."""
    write_text(to_html(page), path)


def to_html(page: Page) -> str:
    """The page as HTML, with all that it needs inside."""
    charts: list[dict[str, Any]] = []
    body = "\n".join(
        [
            _header(page),
            '<noscript><p class="warning">Charts on this page are drawn by JavaScript, which is switched off; '
            "words and tables can be read without.</p></noscript>",
            *(_section(section, f"section-{i}", charts) for i, section in enumerate(page.sections, 1)),
            f"<footer>hiddenstate {escape(VERSION)}</footer>",
        ]
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
<title>{escape(page.title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="charts">{_embedded(charts)}</script>
<script>
{_script()}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("hiddenstate.report").joinpath("assets", name).read_text(encoding="utf-8")


def _script() -> str:
    """All scripts as one function, so that no name of theirs is a page's."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_asset, SCRIPTS)) + "})();\n"


def _embedded(charts: list[dict[str, Any]]) -> str:
    """Data as JSON that no name in them can end early."""
    text = json.dumps(_shortened(charts), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _shortened(value: Any, digits: int = DIGITS) -> Any:
    """The same data with floats of a few digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, list):
        return [_shortened(one, digits) for one in value]
    if isinstance(value, dict):
        kept = DIGITS // 2 if value.get("kind") == "heat" else DIGITS
        return {name: _shortened(one, kept if name == "values" else DIGITS) for name, one in value.items()}
    return value


# -- the parts of a page -------------------------------------------------------------------------------------


def _header(page: Page) -> str:
    contents = "".join(
        f'<li><a href="#section-{i}">{escape(section.title)}</a></li>' for i, section in enumerate(page.sections, 1)
    )
    return (
        '<header><div class="top">'
        f"<h1>{escape(page.title)}</h1>"
        '<button type="button" class="theme" aria-label="switch between light and dark">◐</button></div>'
        f"{_paragraphs(page.summary)}{_commands(page.commands)}"
        f'<nav aria-label="contents"><ul>{contents}</ul></nav></header>'
    )


def _section(section: Section, identity: str, charts: list[dict[str, Any]]) -> str:
    parts = [
        f"<h2>{escape(section.title)}</h2>",
        _paragraphs(section.text),
        _verdicts(section.verdicts),
        _figures(section.charts, charts),
        *(_slides(slides, charts) for slides in section.slides),
        *(_table(table) for table in section.tables),
        _commands(section.commands),
    ]
    return f'<section id="{identity}">' + "\n".join(part for part in parts if part) + "</section>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip())


def _commands(commands: Sequence[str]) -> str:
    """Commands whose lines break between words alone: an option is not cut at its dashes."""
    lines = (" ".join(f"<span>{escape(word)}</span>" for word in command.split(" ")) for command in commands)
    return f'<pre class="commands"><code>{chr(10).join(lines)}</code></pre>' if commands else ""


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    """A list with a mark and a word for each, so that nothing is told by colour alone."""
    items = "".join(
        f'<li class="{"holds" if one.holds else "fails"}">'
        f'<span class="verdict">{"✓ holds" if one.holds else "✗ does not hold"}</span> {escape(one.statement)}'
        f'<div class="measured">{escape(one.measured)}</div>'
        + (f'<div class="reason">{escape(one.note)}</div>' if one.note else "")
        + "</li>"
        for one in verdicts
    )
    return f'<ul class="verdicts">{items}</ul>' if items else ""


def _figures(shown: Sequence[Chart], charts: list[dict[str, Any]]) -> str:
    if not shown:
        return ""
    first = len(charts)
    charts += [chart.plain() for chart in shown]
    return '<div class="charts">' + "".join(_figure(first + i, chart) for i, chart in enumerate(shown)) + "</div>"


def _figure(place: int, chart: Chart) -> str:
    return f'<figure class="chart" data-chart="{place}"><figcaption>{escape(chart.title)}</figcaption></figure>'


def _slides(slides: Slides, charts: list[dict[str, Any]]) -> str:
    first, each = len(charts), len(slides.charts[0])
    charts += [chart.plain() for shown in slides.charts for chart in shown]
    labels = escape(json.dumps(list(slides.labels), ensure_ascii=False))
    figures = "".join(_figure(first + i, chart) for i, chart in enumerate(slides.charts[0]))
    alone = " hidden" if len(slides.labels) == 1 else ""
    return (
        f'<div class="slides" data-first="{first}" data-each="{each}" data-labels="{labels}">'
        f"{_paragraphs(slides.text)}"
        f'<label class="slider"><span>{escape(slides.title)}</span>'
        f'<input type="range" min="0" max="{len(slides.labels) - 1}" value="0" step="1"{alone}>'
        f"<output>{escape(slides.labels[0])}</output></label>"
        f'<div class="charts">{figures}</div></div>'
    )


# -- tables --------------------------------------------------------------------------------------------------


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    errors = set(table.errors.values())
    columns = [name for name in dict.fromkeys(name for row in table.rows for name in row) if name not in errors]
    numeric = {name for name in columns if _is_numeric([row.get(name) for row in table.rows])}
    head = "".join(_heading(table.headings.get(name, name), name in numeric) for name in columns)
    faint = set(table.faint)
    body = "".join(
        ('<tr class="faint">' if i in faint else "<tr>")
        + "".join(_cell(row.get(name), row.get(table.errors.get(name, "")), name in numeric) for name in columns)
        + "</tr>"
        for i, row in enumerate(table.rows)
    )
    caption = f"<caption>{escape(table.title)}</caption>" if table.title and not table.folded else ""
    made = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title or "table")}">'
        f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    if not table.folded:
        return made
    count = f"{len(table.rows):,} row{'' if len(table.rows) == 1 else 's'}"
    return f"<details><summary>{escape(table.title or 'table')} ({count})</summary>{made}</details>"


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in known)


def _heading(title: str, numeric: bool) -> str:
    look = ' class="number"' if numeric else ""
    return f'<th scope="col"{look}><button type="button">{escape(title)}</button></th>'


def _cell(value: Any, error: Any, numeric: bool) -> str:
    if not numeric:
        word = _word(value)
        look = ' class="long"' if len(word) > LONG else ""
        return f"<td{look}>{escape(word)}</td>"
    spread = "" if error is None or not np.isfinite(error) else f' <span class="error">± {_number(error, error)}</span>'
    ordered = "" if value is None or not np.isfinite(value) else f' data-value="{float(value)!r}"'
    return f'<td class="number"{ordered}>{"" if value is None else _number(value, error)}{spread}</td>'


def _word(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _number(value: Any, error: Any = None) -> str:
    """A number for reading: as many places as two digits of its error have, otherwise five digits."""
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if not np.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if error is not None and np.isfinite(error) and 1e-6 < error < 1e5:
        return f"{float(value):,.{max(0, 1 - int(np.floor(np.log10(error))))}f}".replace("-", "−")
    return f"{float(value):.5g}".replace("-", "−")
