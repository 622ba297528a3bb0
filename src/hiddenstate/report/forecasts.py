"""Forecasts as a table and as a plot."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from hiddenstate.core import Column, Sequences
from hiddenstate.inference import Forecast
from hiddenstate.report import style
from hiddenstate.report.tables import visible
from hiddenstate.report.windows import observed_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 6
MOST_SYMBOLS = 20
PATHS = 5


def forecast_table(forecast: Forecast, data: Sequences) -> pl.DataFrame:
    """A row for each sequence, step ahead and column: mean, median, quantiles; for symbols probabilities."""
    columns = data.schema.columns
    several = sum(column.kind == "symbol" for column in columns) > 1
    parts = []
    for i, column in enumerate(columns):
        shape = forecast.samples.shape[0], forecast.horizon
        part: dict[str, Any] = {
            "sequence": np.repeat(np.array(data.names, object), shape[1]).tolist(),
            "step": np.tile(np.arange(1, shape[1] + 1), shape[0]),
            "column": [column.name] * (shape[0] * shape[1]),
        }
        if column.kind == "symbol":
            probs = symbol_probs(forecast, data, i).reshape(-1, column.size)
            names = symbol_names(column)
            part["most_likely"] = [names[code] for code in probs.argmax(-1)]
            for code, name in enumerate(names):
                part[f"p({column.name}={name})" if several else f"p({name})"] = probs[:, code].astype(float)
        else:
            assert forecast.mean is not None
            part["mean"] = _entry(forecast.mean, data, i).ravel().astype(float)
            part["median"] = _entry(forecast.median, data, i).ravel().astype(float)
            for level, values in forecast.quantiles.items():
                if level != 0.5:
                    part[f"q{level:g}"] = _entry(values, data, i).ravel().astype(float)
        parts.append(pl.DataFrame(part, strict=False))
    table = pl.concat(parts, how="diagonal")
    if len(columns) == 1:
        return table.drop("column")
    order = {name: i for i, name in enumerate(dict.fromkeys(data.names))}
    place = {column.name: i for i, column in enumerate(columns)}
    keys = [pl.col("sequence").replace_strict(order), pl.col("step"), pl.col("column").replace_strict(place)]
    return table.sort(keys, maintain_order=True)


def symbol_probs(forecast: Forecast, data: Sequences, column: int) -> np.ndarray:
    """The probability of each symbol of a column, (sequence, step, symbol)."""
    if forecast.probs is not None:
        return forecast.probs
    size = data.schema.columns[column].size
    codes = _entry(forecast.samples, data, column)
    return (codes[..., None] == np.arange(size)).mean(axis=1)


def symbol_names(column: Column) -> tuple[str, ...]:
    """The names of a column's symbols, or their codes where they have none."""
    return column.symbols or tuple(str(code) for code in range(column.size))


def _entry(array: np.ndarray, data: Sequences, column: int) -> np.ndarray:
    return array if data.schema.scalar else array[..., column]


# -- the plot ------------------------------------------------------------------------------------------------


def plot_forecast(forecast: Forecast, data: Sequences, path: str | Path) -> None:
    """Draw the end of each sequence and what comes after it; of many sequences and columns the first few."""
    from matplotlib.ticker import MaxNLocator

    panels = [(s, c) for s in range(len(data)) for c in range(len(data.schema.columns))][:MOST_PANELS]
    sizes = [min(data.schema.columns[column].size, MOST_SYMBOLS) for _, column in panels]
    heights = [max(0.17 * size, min(0.8 + 0.25 * size, 2.7)) if size else 2.7 for size in sizes]
    with style.canvas(path, 8, 0.5 + sum(heights)) as figure:
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for (sequence, column), place in zip(panels, axes, strict=True):
            place.xaxis.set_major_locator(MaxNLocator(integer=True))
            described = data.schema.columns[column]
            if described.kind == "symbol":
                image = _draw_symbols(place, forecast, data, sequence, column)
                figure.colorbar(image, ax=place, label="probability", pad=0.02, aspect=15)
            else:
                _draw_fan(place, forecast, data, sequence, column)
            name = f", {described.name}" if len(data.schema.columns) > 1 else ""
            place.set_title(f"{data.names[sequence]}{name}")
        style.one_legend(axes)
        axes[-1].set_xlabel("step (0 is the last one seen)")


def _tail(forecast: Forecast, data: Sequences, sequence: int, column: int) -> tuple[np.ndarray, np.ndarray]:
    """The last steps seen, numbered up to 0, and what was seen at them."""
    seen = observed_values(data, sequence, column)[-max(40, 2 * forecast.horizon) :]
    return np.arange(1 - len(seen), 1), seen


def _draw_fan(axes: "Axes", forecast: Forecast, data: Sequences, sequence: int, column: int) -> None:
    past, seen = _tail(forecast, data, sequence, column)
    ahead = np.arange(1, forecast.horizon + 1)
    paths = _entry(forecast.samples, data, column)[sequence].astype(float)
    bands = {level: np.quantile(paths, level, axis=0) for level in (0.05, 0.25, 0.5, 0.75, 0.95)}
    bands = {level: np.concatenate([seen[-1:], band]) for level, band in bands.items()}
    steps = np.concatenate([[0], ahead])
    for low, high, alpha, label in ((0.05, 0.95, 0.18, "90%"), (0.25, 0.75, 0.32, "50%")):
        axes.fill_between(steps, bands[low], bands[high], color=style.MAIN, alpha=alpha, linewidth=0, label=label)
    for i, future in enumerate(paths[:PATHS]):
        future = np.concatenate([seen[-1:], future])
        axes.plot(steps, future, color=style.MAIN, alpha=0.45, linewidth=0.7, label="" if i else "sampled futures")
    axes.plot(steps, bands[0.5], color=style.MAIN, label="median")
    axes.plot(past, seen, color=style.INK, linewidth=1.3, label="seen")
    axes.axvline(0, color="#b5b5b5", linewidth=0.8)
    axes.set_ylabel(data.schema.columns[column].name)
    axes.margins(x=0.01)
    style.grid(axes)
    order = ["seen", "median", "50%", "90%", "sampled futures"]
    handles, labels = axes.get_legend_handles_labels()
    chosen = dict(zip(labels, handles, strict=True))
    axes.legend([chosen[k] for k in order], order, ncols=5, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)


def _draw_symbols(axes: "Axes", forecast: Forecast, data: Sequences, sequence: int, column: int) -> Any:
    """Probabilities of the symbols ahead as a heat map, and dots for those seen."""
    past, seen = _tail(forecast, data, sequence, column)
    past, seen = past[-max(10, forecast.horizon) :], seen[-max(10, forecast.horizon) :]
    there = ~np.isnan(seen)
    came = seen[there].astype(int)
    probs = symbol_probs(forecast, data, column)[sequence]
    names = symbol_names(data.schema.columns[column])
    shown = np.sort(
        np.argsort(-(probs.mean(0) + np.bincount(came, minlength=len(names))), kind="stable")[:MOST_SYMBOLS]
    )
    rows = {code: row for row, code in enumerate(shown)}
    edges = (0.5, forecast.horizon + 0.5, len(shown) - 0.5, -0.5)
    image = axes.imshow(
        probs[:, shown].T,
        aspect="auto",
        extent=edges,
        cmap=style.HEAT,
        vmin=0,
        vmax=1,
        interpolation="nearest",
    )
    marks = [(step, rows[code]) for step, code in zip(past[there], came, strict=True) if code in rows]
    axes.scatter(*style.coordinates(marks), color=style.INK, s=14, linewidth=0)
    axes.axvline(0.5, color="#b5b5b5", linewidth=0.8)
    axes.set_xlim(past[0] - 0.5, forecast.horizon + 0.5)
    axes.set_yticks(range(len(shown)), [visible(names[code]) for code in shown])
    axes.set_ylabel(data.schema.columns[column].name)
    axes.tick_params(length=0)
    return image
