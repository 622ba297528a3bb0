"""One model on data, as a page: its score, what it expects, what it keeps, and how its state moves."""

from collections.abc import Callable
from typing import Any

import jax
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, HiddenStateError, Pairs, name_of, parameter_count
from hiddenstate.core.storage import VERSION
from hiddenstate.inspect import beliefs
from hiddenstate.learn.scores import score_of, step_nats
from hiddenstate.report.beliefs import belief_charts
from hiddenstate.report.dynamics import dynamics_section
from hiddenstate.report.gradients import gradient_charts
from hiddenstate.report.model_sections import (
    LEFT_OUT,
    calibration_section,
    forecast_section,
    prediction_section,
    side_by_side,
    state_section,
)
from hiddenstate.report.page import Page, Section, Table

FEWEST = 10
MOST_SEQUENCES = 200
MOST_STEPS = 500
"""How fast a model settles is seen on so much of longer data."""


def model_page(
    model: Any,
    data: Any,
    *,
    key: PRNGKeyArray,
    name: str = "model",
    command: str = "",
    source: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> Page:
    """The page of one model on data; what this model or these data do not allow is left out, and the page says why.

    `key` draws from predictions; `name` is what the model is called and `source` what the data are; `command` makes the
    page again; `announce` is told the title of each section when it begins. Data that the model cannot even score are
    an error.
    """
    keys = dict(
        zip(
            ("predictions", "forecasts", "calibration", "gradients", "dynamics", "beliefs"),
            jr.split(key, 6),
            strict=True,
        )
    )
    made: dict[str, Callable[[], Section]] = {"Score": lambda: _score(name, model, data, source)}
    if not isinstance(data, Pairs):
        made["Predictions"] = lambda: prediction_section(name, model, data, key=keys["predictions"])
        made["Forecasts"] = lambda: forecast_section({name: model}, data, key=keys["forecasts"])
    made["Calibration"] = lambda: calibration_section({name: model}, data, {name: 0}, key=keys["calibration"])
    if not isinstance(data, Pairs):
        made["States and beliefs"] = lambda: state_section({name: model}, data)
        made["Gradients"] = lambda: _gradients(model, data, keys["gradients"])
        made["Dynamics"] = lambda: dynamics_section(model, data, key=keys["dynamics"])
        made["How fast it settles"] = lambda: _settling(name, model, data, keys["beliefs"])
    sections = side_by_side(made, announce)
    if sections[0].text.startswith(LEFT_OUT):
        raise DataError(sections[0].text.removeprefix(LEFT_OUT))
    title = f"{name} on {source}" if source else name
    summary = f"{name_of(model)} with {parameter_count(model):,} parameters."
    return Page(title, summary, sections, [command] if command else [])


def _score(name: str, model: Any, data: Any, source: str) -> Section:
    score = score_of(step_nats(model, data), data)
    unit = "answer" if isinstance(data, Pairs) else "step"
    row = {
        "model": name,
        "data": source,
        "sequences": len(data),
        f"{unit}s": int(score.steps),
        "nats": score.nats_per_step,
        "error": score.standard_error,
        "parameters": parameter_count(model),
        "hiddenstate": VERSION,
        "jax": jax.__version__,
    }
    table = Table([row], errors={"nats": "error"}, headings={"nats": f"nats per {unit}"})
    return Section(
        "Score",
        f"Minus the mean log-probability of each {unit} given all before it; lower is better. It is of all "
        "data that were given, whether the model has learned from them or not.",
        tables=[table],
    )


def _some(data: Any) -> Any:
    """The first sequences, and the first steps of these."""
    part = data[: min(len(data), MOST_SEQUENCES)]
    return part.window(0, np.minimum(np.asarray(part.lengths), MOST_STEPS))


def _settling(name: str, model: Any, data: Any, key: PRNGKeyArray) -> Section:
    if len(data) < FEWEST:
        raise HiddenStateError(f"means over sequences take {FEWEST} sequences or more; the data have {len(data)}.")
    found = beliefs.synchronisation(model, _some(data), key=key)
    return Section(
        "How fast it settles",
        f"How much {name} still does not know after so many steps.",
        belief_charts(synchronisation=[found]),
    )


def _gradients(model: Any, data: Any, key: PRNGKeyArray) -> Section:
    charts = gradient_charts(model, data, key=key)
    if not charts:
        raise HiddenStateError("no sequence is long enough for a gradient through time.")
    return Section("Gradients", "How far back gradients reach, and what the state remembers.", charts)
