"""A page that has every layer, table and slide there is, with names that try to break it."""

import numpy as np

from hiddenstate.report.charts import Arrows, Band, Bars, Chart, Heat, Line, Points, Rule
from hiddenstate.report.page import Page, Section, Slides, Table, Verdict

STEPS = np.arange(40)
EVIL = """</script><b>"x" & 'y'</b> <!-- ü ☃ \u2028"""


def lines() -> Chart:
    """A line that is known: y = 10 x."""
    line = Line(STEPS, 10.0 * STEPS, name="tens")
    band = Band(STEPS, 10.0 * STEPS - 20, 10.0 * STEPS + 20)
    gaps = np.where(STEPS % 10 == 3, np.nan, 5.0 * STEPS)
    return Chart(
        "Lines",
        "step",
        "metres",
        [
            band,
            line,
            Line(STEPS, gaps, name="with gaps", dashed=True, colour=1),
            Rule(100, name="chance", colour="grey"),
        ],
        note="A line, a band, a line with gaps and a rule.",
    )


def logarithmic() -> Chart:
    lengths = np.array([10, 100, 1000, 10000])
    seconds = Line(lengths, [1e-4, 1e-3, 1e-2, 0.1], errors=[5e-5, 1e-4, 2e-3, 0.2], marks=True, name="seconds")
    return Chart("Logarithmic", "length", "seconds", [seconds], x_scale="log", y_scale="log")


def points() -> Chart:
    cloud = Points(
        [0.0, 1.0, 2.0], [3.0, 1.0, 2.0], values=[0.0, 0.5, 1.0], labels=["first", EVIL, "third"], name="cloud"
    )
    return Chart("Points", "this", "that", [cloud])


def ranking() -> Chart:
    dots = Points([1.0, 1.2, 1.9], [0, 1, 2], x_errors=[0.1, 0.1, 0.2], name="models")
    return Chart("Ranking", "nats per step", "", [dots], y_names=["gru", "a model with a long name", "last"])


def bars() -> Chart:
    names = ["vanilla", "gru", EVIL]
    return Chart(
        "Bars",
        "model",
        "accuracy",
        [
            Bars(names, [0.5, 0.75, 0.9], errors=[0.1, 0.05, 0.02], name="network"),
            Bars(names, [0.4, 0.6, 0.8], name="filter", colour=1),
        ],
    )


def heat(shift: float = 0.0) -> Chart:
    values = np.outer(np.linspace(-1, 1, 4), np.cos(STEPS / 5 + shift))
    return Chart("Heat", "step", "unit", [Heat(STEPS, np.arange(4), values, label="activity", signed=True)])


def beliefs(shift: float = 0.0) -> Chart:
    share = 0.5 + 0.5 * np.sin(STEPS / 5 + shift)
    layer = Heat(STEPS, np.arange(2), np.stack([share, 1 - share]), label="p", limits=(0, 1))
    return Chart(f"Beliefs {shift:g}", "step", "", [layer], y_names=["dry", "rain"])


def flow() -> Chart:
    x, y = (side.ravel() for side in np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)))
    turns = np.linspace(0, 6.3, 200)
    return Chart(
        "Flow",
        "first unit",
        "second unit",
        [
            Arrows(x, y, -0.1 * y, 0.1 * x, colour="grey"),
            Line(np.cos(turns), np.sin(turns), name="cycle", colour=1),
            Points([0.0], [0.0], name="fixed point", colour="ink"),
        ],
        equal=True,
    )


def many() -> Chart:
    steps = np.arange(20_000)
    return Chart("Many", "step", "value", [Line(steps, np.sin(steps / 500) + 0.2 * np.sin(steps))])


def reasons() -> Table:
    """As wide as the ranking of a comparison, with sentences in its last column."""
    row = {
        "model": "linear-gaussian",
        "nats per step": 4.4637,
        "error": 0.05,
        "behind the best": 0.0579,
        "its error": 0.11,
    }
    said = (
        "the validation has not improved by more than 0.0001 nats per step for 20 evaluations; it was best at step 130."
    )
    row |= {"parameters": 1154, "seconds": 15.3, "converged": True, "why it stopped": said}
    return Table([row], errors={"nats per step": "error", "behind the best": "its error"})


def page() -> Page:
    """All of it on one page."""
    rows = [
        {"model": "gru", "nats_per_step": 1.25, "standard_error": 0.031, "parameters": 12345, "converged": True},
        {"model": EVIL, "nats_per_step": 1.5, "standard_error": float("nan"), "parameters": 7, "converged": False},
        {"model": "hmm", "nats_per_step": 0.75, "standard_error": 0.002, "parameters": 99, "converged": True},
    ]
    table = Table(
        rows, "Ranked", errors={"nats_per_step": "standard_error"}, headings={"nats_per_step": "nats"}, faint=[1]
    )
    long = Table([{"step": i, "value": i / 7} for i in range(30)], "All steps", folded=True)
    slides = Slides(
        "States", ["a", EVIL, "c"], [[heat(k), beliefs(k)] for k in (0.0, 1.0, 2.0)], "One sequence after another."
    )
    return Page(
        f"Everything {EVIL}",
        f"Words {EVIL}.\n\nA second paragraph.",
        [
            Section("Tables", "Sorted by a click.", tables=[table, long]),
            Section("Charts", charts=[lines(), logarithmic(), points(), ranking(), bars(), heat(), flow(), many()]),
            Section("Slides", slides=[slides]),
            Section(
                "Verdicts",
                verdicts=[Verdict("One is one.", "1 = 1", True), Verdict(EVIL, "1 ≠ 2", False, "They differ.")],
                tables=[reasons()],
            ),
        ],
        [f"hiddenstate compare {EVIL}"],
    )
