"""The plots: ratios to the fastest peer beside their goals, and times against sizes."""

from pathlib import Path
from typing import Any

from hiddenstate.report import style
from peers.case import is_peer
from peers.records import best_peer, met
from peers.table import times
from peers.workloads.scaling import AXES, TITLES

GOOD, BAD, PLAIN = "#009E73", style.ACCENT, style.FAINT
ROW = 0.235
"""Inches that a bar has."""

PANELS = (
    (
        ("HMM, many sequences, float32", lambda row: _hmm(row, "float32", single=False)),
        ("HMM, one sequence, float32", lambda row: _hmm(row, "float32", single=True)),
        ("HMM, many sequences, float64", lambda row: _hmm(row, "float64", single=False)),
        ("HMM, one sequence, float64", lambda row: _hmm(row, "float64", single=True)),
    ),
    (
        ("LSTM", lambda row: row["workload"] == "lstm"),
        ("GRU", lambda row: row["workload"] == "gru"),
        ("Vanilla", lambda row: row["workload"] == "vanilla"),
        ("minGRU and minLSTM", lambda row: row["workload"] in ("mingru", "minlstm")),
        ("State space models", lambda row: row["workload"] in ("kalman", "particle")),
        ("Streams, whole jobs, the shell", lambda row: row["workload"] in ("streaming", "jobs", "shell")),
    ),
)
"""Two columns of panels, and which cases each shows."""


def _hmm(row: dict[str, Any], precision: str, *, single: bool) -> bool:
    return row["workload"] == "hmm" and row["precision"] == precision and (row["size"]["sequences"] == 1) == single


def label(row: dict[str, Any]) -> str:
    """A case in few letters."""
    size = row["size"]
    if row["workload"] == "hmm":
        return f"{row['title']}, {size['states']} states"
    if row["workload"] in ("lstm", "gru", "vanilla", "mingru", "minlstm"):
        how = " + backward" if "backward" in row["title"] else ""
        shape = f"{size['steps']:,} × {size['sequences']} × {size['units']}"
        cell = f"{row['title'].split()[0]} " if row["workload"].startswith("min") else ""
        return f"{cell}{shape}" if cell else f"{shape}, forward{how}"
    if row["workload"] == "kalman":
        return f"Kalman {'smoother' if 'smoother' in row['title'] else row['title']}, state {size['hidden']}"
    if row["workload"] == "particle":
        return f"{size['particles']:,} particles"
    words = {"EM from several starts to convergence": f"EM, {size.get('starts')} starts"}
    words |= {
        "one epoch of an LSTM": "an epoch of an LSTM",
        "from the shell to the first score": "shell to first score",
    }
    return words.get(row["title"], row["title"])


def draw_ratios(told: dict[str, Any], folder: Path, form: str = "svg") -> Path | None:
    """Bars of all ratios, on a logarithmic axis; None where there are none."""
    rows = [row for row in told["cases"].values() if not row["scaling"] and best_peer(row) is not None]
    columns = [
        [(title, shown) for title, belongs in panels if (shown := [row for row in rows if belongs(row)])]
        for panels in PANELS
    ]
    columns = [panels for panels in columns if panels]
    if not columns:
        return None
    path = folder / f"ratios.{form}"
    tallest = max(sum(len(shown) + 2.6 for _, shown in panels) for panels in columns)
    with style.canvas(path, 6.4 * len(columns), 0.9 + ROW * tallest) as figure:
        figure.suptitle("How many times as long the fastest peer takes", x=0.01, ha="left", fontsize=12)
        parts = figure.subfigures(1, len(columns), squeeze=False)[0]
        for part, panels in zip(parts, columns, strict=True):
            heights = [len(shown) + 2.6 for _, shown in panels]
            spare = tallest - sum(heights)
            places = part.subplots(
                len(panels) + (spare > 0.5), 1, height_ratios=heights + [spare] * (spare > 0.5), squeeze=False
            )[:, 0]
            for place in places[len(panels) :]:
                place.set_axis_off()
            for place, (title, shown) in zip(places, panels, strict=False):
                _bars(place, title, shown, _limits(rows))
        _legend(figure)
    return path


def _bars(axes: Any, title: str, rows: list[dict[str, Any]], limits: tuple[float, float]) -> None:
    found = [(label(row), best_peer(row), row["goal"], met(row)) for row in rows]
    axes.set_xscale("log")
    for place, (_, ratio, goal, good) in enumerate(found):
        assert ratio is not None
        colour = PLAIN if good is None else GOOD if good else BAD
        axes.barh(place, ratio.best - 1, left=1, height=0.62, color=colour, alpha=0.85, linewidth=0)
        axes.plot([ratio.low, ratio.high], [place, place], color=style.INK, linewidth=0.9)
        if goal is not None:
            axes.plot([goal, goal], [place - 0.42, place + 0.42], color=style.INK, linewidth=1.6)
        end = max(ratio.best, ratio.high, goal or 0)
        axes.annotate(
            f" {times(ratio.best)} {ratio.peer}", (max(end, 1.0), place), xytext=(3, 0), textcoords="offset points",
            va="center", fontsize=7.5, color=style.INK,
        )  # fmt: skip
    axes.set_xlim(*limits)
    axes.set_yticks(range(len(found)), [one[0] for one in found], fontsize=8)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.axvline(1, color=style.FAINT, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.tick_params(axis="x", labelsize=7.5)
    axes.minorticks_off()
    style.grid(axes, "x")
    axes.set_title(title, fontsize=9.5, pad=4)


def _limits(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """One axis for all panels, with room for the words behind the bars."""
    found = [one.best for one in map(best_peer, rows) if one is not None] + [row["goal"] or 1.0 for row in rows]
    return 0.8 * min(found), 12 * max(found)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = [
        Patch(color=GOOD, alpha=0.85, label="goal met"),
        Patch(color=BAD, alpha=0.85, label="goal not met"),
        Patch(color=PLAIN, alpha=0.85, label="no goal"),
        Line2D([], [], color=style.INK, linewidth=1.6, marker="|", linestyle="none", markersize=9, label="goal"),
        Line2D([], [], color=style.INK, linewidth=0.9, label="quartiles over rounds"),
    ]
    figure.legend(handles=shown, loc="outside lower left", ncols=5, fontsize=8)


def draw_scaling(told: dict[str, Any], folder: Path, form: str = "svg") -> Path | None:
    """Times against sizes, one chart each; None where nothing was measured."""
    from hiddenstate.report.charts import Chart, Line
    from hiddenstate.report.drawing import HEIGHT, WIDTH, draw_chart

    charts = []
    for name, title in TITLES.items():
        rows = [row for row in told["cases"].values() if row["scaling"] == name]
        contenders = list(dict.fromkeys(who for row in rows for who in row["seconds"]))
        layers = []
        for who in contenders:
            points = [
                (row["size"][AXES[name]], 1e3 * min(row["seconds"][who])) for row in rows if row["seconds"].get(who)
            ]
            if points:
                xs, ys = zip(*sorted(points), strict=True)
                layers.append(
                    Line(
                        xs,
                        ys,
                        marks=True,
                        dashed=not is_peer(who) and " " in who,
                        name=who,
                        colour=_COLOURS.get(who, 7),
                    )
                )
        if layers:
            title = title if told["scale"] == "full" else title.split(",")[0]
            charts.append(Chart(title, AXES[name], "milliseconds", layers, x_scale="log", y_scale="log"))
    if not charts:
        return None
    path = folder / f"scaling.{form}"
    columns = min(3, len(charts))
    rows = -(-len(charts) // columns)
    with style.canvas(path, WIDTH * columns, HEIGHT * rows) as figure:
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for place, chart in zip(places, charts, strict=False):
            draw_chart(place, chart)
            points = sorted({x for layer in chart.layers for x in layer.x})
            place.set_xticks(points, [f"{x:,}" for x in points])
            place.minorticks_off()
        for place in places[len(charts) :]:
            place.set_visible(False)
    return path


_COLOURS = {
    "hiddenstate": 0,
    "hiddenstate Sequential": 0,
    "hiddenstate Associative": 5,
    "torch": 1,
    "dynamax": 2,
    "pomegranate": 3,
    "hmmlearn scaling": 4,
    "hmmlearn log": 6,
    "minGRU-pytorch": 1,
}
"""Places among the colours of all plots."""
