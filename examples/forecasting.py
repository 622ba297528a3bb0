"""Forecasts with a calendar: what is known beforehand helps, and who wins depends on how far ahead one looks.

Two real series by months: carbon dioxide at Mauna Loa, which rises from year to year, and the temperature of the sea
off Peru, which El Nino upsets. GRUs with inputs, the season as two pairs of sine and cosine, are held against the same
without inputs and against a structural model (a trend or a level, seasons, an autoregression). The last eight years are
held out: forecasts of up to two years start from every month of them. A GRU cannot leave the range of what it has
learned from, so it is given the changes of carbon dioxide from month to month, and its forecasts are summed up.

Seen, as the mean of five networks: the calendar helps in the first half year of carbon dioxide (CRPS 0.17 against 0.19
parts per million one month ahead), and after that no longer; for the temperature it helps throughout (0.60 against 0.67
°C a year ahead). The structural model has the best log-probability of both series and is as good as any up to half a
year ahead. Two years ahead the networks are much better for carbon dioxide (0.56 and 0.67 against 0.93, where the bands
of the structural model's trend grow wide); for the temperature the best two are level.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.random as jr
import numpy as np
from common import report, settings

import hiddenstate as hs
from hiddenstate.report import style

HELD_OUT = 96
VALIDATION = 96
AHEAD = 24
COLOURS = {"network": style.COLOURS[2], "network + calendar": style.MAIN, "structural": style.ACCENT}


class Series(NamedTuple):
    """One value a month, the structure that suits it, and whether a network is to learn its changes."""

    name: str
    unit: str
    structure: str
    changes: bool
    months: np.ndarray
    values: np.ndarray

    @property
    def origins(self) -> np.ndarray:
        """The months that forecasts start from, as numbers: those held out, as long as two years follow."""
        return np.arange(len(self.values) - HELD_OUT, len(self.values) - AHEAD + 1)


class Found(NamedTuple):
    """What a model foresees at the start of the held-out years, (draw, month), and how good it is in all of them.

    `crps` is (copy, months ahead): a network is learned from several beginnings.
    """

    future: np.ndarray
    nats: float
    crps: np.ndarray
    covered: float

    @classmethod
    def of(cls, copies: "Sequence[Found]") -> "Found":
        """The mean of several copies, and what the first of them foresees."""
        nats, covered = (
            float(np.mean(part)) for part in zip(*((one.nats, one.covered) for one in copies), strict=True)
        )
        return cls(copies[0].future, nats, np.concatenate([one.crps for one in copies]), covered)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit all models to both series, and compare what they forecast."""
    chosen = settings(__file__, __doc__, arguments)
    series = [carbon_dioxide(), el_nino()][: 1 if chosen.quick else 2]
    found = {one.name: compared(one, quick=chosen.quick, key=chosen.key) for one in series}
    draw(series, found, chosen.out / "forecasting.png")
    rows = []
    for name, models in found.items():
        for model, one in models.items():
            row = {"series and model": f"{name}, {model}", "nats a month": one.nats}
            row |= {f"CRPS, {ahead} ahead": float(one.crps[:, ahead - 1].mean()) for ahead in (1, 12, AHEAD)}
            rows.append(row | {"in 90% bands": one.covered})
    report(rows, chosen.out)


# -- the series ----------------------------------------------------------------------------------------------


def carbon_dioxide() -> Series:
    """Monthly means of the weekly values, from after the last month without any."""
    weekly = hs.datasets.co2().values[0]
    month = (np.datetime64("1958-03-29") + 7 * np.arange(len(weekly))).astype("datetime64[M]")
    months = np.arange(np.datetime64("1964-05"), np.datetime64("2002-01"))
    values = np.array([np.nanmean(weekly[month == one]) for one in months])
    return Series("CO2", "parts per million", "trend+seasonal", True, months, values)


def el_nino() -> Series:
    """The sea's temperature."""
    values = hs.datasets.elnino().values[0]
    months = np.datetime64("1950-01") + np.arange(len(values))
    return Series("El Nino", "°C", "level+seasonal+ar", False, months, values)


def calendar(months: np.ndarray) -> np.ndarray:
    """What is known of months beforehand: where they are in waves of a year and of half a year."""
    turns = 2 * np.pi * months.astype(int) / 12
    return np.stack([wave(times * turns) for times in (1, 2) for wave in (np.sin, np.cos)], axis=1)


# -- models and forecasts ------------------------------------------------------------------------------------


def compared(series: Series, *, quick: bool, key: jax.Array) -> dict[str, Found]:
    """What the network with and without the calendar and the structural model forecast."""
    fit_key, forecast_key = jr.split(key)
    judge = partial(judged, series, draws=10 if quick else 60, key=forecast_key)
    learned = np.diff(series.values, prepend=np.nan)[1:] if series.changes else series.values
    known = calendar(series.months[-len(learned) :])
    found, known_to = {}, {"network + calendar": known} if quick else {"network": None, "network + calendar": known}
    for name, inputs in known_to.items():
        data = hs.Sequences.of(learned, inputs=inputs)
        copies = fitted_networks(data, quick=quick, key=fit_key)
        found[name] = Found.of([judge(model, data, changes=series.changes) for model in copies])
    data = hs.Sequences.of(series.values)
    train = learned_from(data)
    model = hs.build("linear-gaussian", train, structure=series.structure, period=12, key=fit_key)
    model = hs.fit(model, train, hs.LBFGS(iterations=2 if quick else 100), key=fit_key).model
    return found | {"structural": judge(model, data, changes=False)}


def learned_from(data: hs.Sequences) -> hs.Sequences:
    """The months before those that choose among networks and those that are held out."""
    return data.window(0, data.steps - HELD_OUT - VALIDATION)


def fitted_networks(data: hs.Sequences, *, quick: bool, key: jax.Array) -> Sequence[hs.RNN]:
    """GRUs from several beginnings, each as it was best in the years before those held out."""
    train = learned_from(data)
    validation = data.window(0, data.steps - HELD_OUT).after(train.steps)
    # Four years at a time, the first of them as context: side by side they take fewer steps than one behind the other.
    pieces = train.window(train.steps % 48, train.steps).pieces(48).after(12)
    method = hs.SGD(steps=4 if quick else 500, evaluate_steps=4 if quick else 25, patience=None)

    def make(one: jax.Array) -> hs.RNN:
        return hs.build("gru", train, hidden=16, key=one)

    return hs.fit_seeds(make, pieces, method, seeds=2 if quick else 5, validation=validation, key=key).models


def judged(
    series: Series, model: hs.SequenceModel, data: hs.Sequences, *, changes: bool, draws: int, key: jax.Array
) -> Found:
    """What a model forecasts of the series itself; one that has learned changes is summed up from the last value."""
    values, gone = series.values, len(series.values) - data.steps
    origins = series.origins - gone

    def forecast(starts: np.ndarray, ahead: int) -> np.ndarray:
        known = None if data.inputs is None else data.inputs[0]
        pasts = [data.values[0, :start] for start in starts]
        before = None if known is None else [known[:start] for start in starts]
        after = None if known is None else np.stack([known[start : start + ahead] for start in starts])
        past = hs.Sequences.of(pasts, inputs=before)
        drawn = hs.forecast(model, past, ahead, n=draws, inputs=after, key=key).samples
        return values[starts + gone - 1][:, None, None] + drawn.cumsum(axis=2) if changes else drawn

    drawn = np.moveaxis(forecast(origins, AHEAD), 1, 0)
    truth = values[(origins + gone)[:, None] + np.arange(AHEAD)]
    low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
    return Found(
        future=forecast(origins[:1], HELD_OUT)[0],
        nats=hs.score(model, data.after(data.steps - HELD_OUT)).nats_per_step,
        crps=hs.metrics.crps_samples(drawn, truth).mean(axis=0)[None],
        covered=float(np.mean((low <= truth) & (truth <= high))),
    )


# -- the plot ------------------------------------------------------------------------------------------------


def draw(series: Sequence[Series], found: dict[str, dict[str, Found]], path: Path) -> None:
    """For each series the forecasts of the held-out years, and the score by months ahead."""
    with style.canvas(path, 11, 3.6 * len(series) + 0.2) as figure:
        grid = figure.subplots(len(series), 2, width_ratios=[1.7, 1], squeeze=False)
        for (left, right), one in zip(grid, series, strict=True):
            draw_futures(left, one, found[one.name])
            draw_scores(right, one, found[one.name])
        grid[0, 0].legend(ncols=2)


def draw_futures(axes, series: Series, found: dict[str, Found]) -> None:
    """What was seen, and what was foreseen at the start of the held-out years, with 90% bands."""
    years = 1970 + series.months.astype(int) / 12
    ahead = years[-HELD_OUT:]
    for name in ("structural", "network + calendar"):
        future = found[name].future
        bands = np.quantile(future, (0.05, 0.95), axis=0)
        axes.fill_between(ahead, *bands, color=COLOURS[name], alpha=0.15, linewidth=0)
        axes.plot(ahead, future.mean(axis=0), color=COLOURS[name], linewidth=1.2, label=name)
    axes.plot(years[-HELD_OUT - 48 :], series.values[-HELD_OUT - 48 :], color=style.INK, linewidth=1, label="seen")
    axes.axvline(ahead[0], color=style.FAINT, linewidth=0.8)
    axes.set(ylabel=series.unit, title=f"{series.name}: what was foreseen at the line, with 90% bands")
    axes.margins(x=0.01)
    style.grid(axes)


def draw_scores(axes, series: Series, found: dict[str, Found]) -> None:
    """The continuous ranked probability score by months ahead: mean and range of the copies of a network."""
    months = np.arange(1, AHEAD + 1)
    for name, one in found.items():
        axes.fill_between(months, one.crps.min(0), one.crps.max(0), color=COLOURS[name], alpha=0.15, linewidth=0)
        axes.plot(months, one.crps.mean(0), color=COLOURS[name])
    axes.set_xlim(1, AHEAD)
    axes.set_ylim(bottom=0)
    style.label_ends(axes, [(float(one.crps[:, -1].mean()), name, COLOURS[name]) for name, one in found.items()])
    axes.set(xlabel="months ahead", ylabel=f"CRPS, {series.unit}", title="Forecasts from all held-out months")
    style.grid(axes)


if __name__ == "__main__":
    main()
