"""Sections of a page that look at models on data: what they expect, how calibrated they are, what they keep."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, Pairs, Sequences
from hiddenstate.learn import evaluate
from hiddenstate.report.calibration_charts import calibration_charts
from hiddenstate.report.page import Section
from hiddenstate.report.prediction_charts import forecast_slides, prediction_charts
from hiddenstate.report.state_charts import state_slides
from hiddenstate.report.windows import MOST_STEPS, starts_of

MOST_JUDGED = 20_000
"""Calibration is judged on at most so many steps."""


LEFT_OUT = "Left out: "
"""How the words of a section begin that could not be made; the reason follows."""


def left_out(title: str, make: Callable[[], Section]) -> Section:
    """The section, or where it cannot be made a sentence that says why."""
    try:
        return make()
    except HiddenStateError as error:
        return Section(title, f"{LEFT_OUT}{error}")


def side_by_side(
    made: Mapping[str, Callable[[], Section]], announce: Callable[[str], None] = lambda _: None
) -> list[Section]:
    """Sections by their titles, two at a time: most of their time is compilation, which needs one core each.

    `announce` is told each title when its section begins.
    """

    def begun(title: str, make: Callable[[], Section]) -> Section:
        announce(title)
        return left_out(title, make)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(begun, made, made.values()))


def prediction_section(name: str, model: Any, data: Sequences, *, key: PRNGKeyArray) -> Section:
    """What a model expected at each step, beside what came."""
    text = f"What {name} expected at each step, given all before it, and what came."
    if len(data) > 1 or (data.lengths - starts_of(data)).max() > MOST_STEPS:
        text += f" Shown is the longest sequence, at most its first {MOST_STEPS} steps."
    return Section("Predictions", text, prediction_charts(model, data, key=key, name=name))


def forecast_section(models: Mapping[str, Any], data: Sequences, *, key: PRNGKeyArray) -> Section:
    """What models say of the steps to come, from inside the data, beside what followed."""
    text = "Sampled futures from steps inside the data, and what followed; nothing behind the line was seen."
    return Section("Forecasts", text, slides=[forecast_slides(models, data, key=key)])


def calibration_section(
    models: Mapping[str, Any], data: Sequences | Pairs, colours: Mapping[str, int], *, key: PRNGKeyArray
) -> Section:
    """Whether what models say happens with a probability does happen as often."""
    some = _some(data)
    found = {name: evaluate(model, some, key=jr.fold_in(key, i)) for i, (name, model) in enumerate(models.items())}
    charts = calibration_charts(found, colours)
    if not charts:
        raise HiddenStateError("answers that are written step by step are not judged one by one.")
    what = "answer" if isinstance(data, Pairs) else "step"
    return Section(
        "Calibration", f"Whether what a model gives a probability happens as often, {what} by {what}.", charts
    )


def _some(data: Any) -> Any:
    """Sequences from the first on, until they have enough steps."""
    lengths = np.asarray((data.sources if isinstance(data, Pairs) else data).lengths)
    count = max(1, int(np.searchsorted(np.cumsum(lengths), MOST_JUDGED, side="right")))
    return data if count >= len(data) else data[list(range(count))]


def state_section(models: Mapping[str, Any], data: Sequences) -> Section:
    """Hidden states and beliefs over time."""
    return Section("States and beliefs", slides=[state_slides(models, data)])
