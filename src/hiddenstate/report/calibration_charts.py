"""How calibrated predictions are, several models beside each other."""

from collections.abc import Mapping

import numpy as np

from hiddenstate.learn import Classified, Evaluation, Predicted
from hiddenstate.report.charts import Band, Bars, Chart, Layer, Line, Points

BINS = 10


def calibration_charts(evaluations: Mapping[str, Evaluation], colours: Mapping[str, int]) -> list[Chart]:
    """Two charts for each column: whether shares are as predicted, and where observations lie in their predictions."""
    names = list(dict.fromkeys(name for found in evaluations.values() for name in found.columns))
    charts = []
    for column in names:
        found = {model: one.columns[column] for model, one in evaluations.items() if column in one.columns}
        numbers = {model: one for model, one in found.items() if isinstance(one, Predicted)}
        classes = {model: one for model, one in found.items() if isinstance(one, Classified)}
        said = f", {column}" if len(names) > 1 else ""
        charts += [_intervals(numbers, colours, said), _places(numbers, colours, said)] if numbers else []
        charts += [_reliability(classes, colours, said), _confidence(classes, colours, said)] if classes else []
    return charts


def _diagonal() -> Layer:
    return Line([0.0, 1.0], [0.0, 1.0], name="calibrated", colour="grey", dashed=True)


def _intervals(found: Mapping[str, Predicted], colours: Mapping[str, int], said: str) -> Chart:
    levels = np.linspace(0, 1, 41)
    count = min(len(one.pit[0]) for one in found.values())
    error = 2 * np.sqrt(levels * (1 - levels) / count)
    layers: list[Layer] = [
        Band(levels, np.clip(levels - error, 0, 1), np.clip(levels + error, 0, 1), colour="grey"),
        _diagonal(),
    ]
    for model, one in found.items():
        inside = 2 * np.abs(one.pit[0] - 0.5)
        layers.append(Line(levels, (inside[:, None] <= levels).mean(0), name=model, colour=colours[model]))
    note = "The grey band is two standard errors wide if steps were independent. Above it intervals are too wide."
    return Chart(
        f"Central intervals{said}", "central interval of the prediction", "share of observations inside", layers,
        note=note, y_limits=(0, 1),
    )  # fmt: skip


def _places(found: Mapping[str, Predicted], colours: Mapping[str, int], said: str) -> Chart:
    edges = np.linspace(0, 1, BINS + 1)
    names = [f"{low:.1f}" for low in edges[:-1]]
    layers: list[Layer] = [
        Bars(names, np.histogram(one.pit[0], edges)[0] / len(one.pit[0]), name=model, colour=colours[model])
        for model, one in found.items()
    ]
    due = Line(np.arange(BINS), np.full(BINS, 1 / BINS), name="calibrated", colour="grey", dashed=True)
    note = "All bars are equally high where predictions are right; a hill means too wide, a valley too narrow ones."
    return Chart(
        f"Place in the prediction{said}", "place of the observation in its prediction (PIT), from", "share",
        [*layers, due], note=note,
    )  # fmt: skip


def _reliability(found: Mapping[str, Classified], colours: Mapping[str, int], said: str) -> Chart:
    layers: list[Layer] = [_diagonal()]
    for model, one in found.items():
        bins = one.reliability[0]
        full = bins.counts > 0
        share, counts = bins.accuracy[full], bins.counts[full]
        error = np.sqrt(share * (1 - share) / counts)
        layers.append(Points(bins.confidence[full], share, error, name=model, colour=colours[model]))
    note = "Bars are one standard error. Below the diagonal a model is surer than it should be."
    return Chart(
        f"Reliability{said}", "confidence: probability of the top symbol", "share that was right", layers, note=note,
        y_limits=(0, 1),
    )  # fmt: skip


def _confidence(found: Mapping[str, Classified], colours: Mapping[str, int], said: str) -> Chart:
    layers = []
    for model, one in found.items():
        bins = one.reliability[0]
        names = [f"{edge:.1f}" for edge in bins.edges[:-1]]
        layers.append(Bars(names, bins.counts / bins.counts.sum(), name=model, colour=colours[model]))
    return Chart(f"How sure predictions are{said}", "confidence, from", "share of predictions", layers)
