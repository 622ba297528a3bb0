"""What models cost, as charts and as files."""

from pathlib import Path

import polars as pl

from hiddenstate.inspect import Cost
from hiddenstate.report.charts import Chart, Layer, Line
from hiddenstate.report.drawing import draw_charts
from hiddenstate.report.selection import make_folder
from hiddenstate.report.tables import to_csv, write_text

_AXES = {"steps": "steps T", "units": "units or states K", "batch": "sequences at once"}
_MEASURES = {"seconds": "seconds", "bytes": "bytes"}
_TITLES = {"seconds": "Time of the gradient", "bytes": "Memory for the gradient"}


def write_cost(cost: Cost, folder: str | Path) -> None:
    """Write costs.csv, exponents.csv and cost.png into a folder that is made where there is none."""
    folder = Path(folder)
    make_folder(folder)
    write_text(to_csv(cost.rows), folder / "costs.csv")
    write_text(to_csv(cost.fits), folder / "exponents.csv")
    draw_charts(cost_charts(cost), folder / "cost.png")


def cost_charts(cost: Cost) -> list[Chart]:
    """Time and memory of the gradient against each size: one colour a model, broken where a scan runs in parallel.

    Each model is drawn with its first strategy and, where it has one, with that called ``"associative"``.
    """
    return [
        chart
        for varied in cost.rows["varied"].unique(maintain_order=True)
        for measure in _MEASURES
        if (chart := _chart(cost, varied, measure)) is not None
    ]


def _chart(cost: Cost, varied: str, measure: str) -> Chart | None:
    rows = cost.rows.filter(
        (pl.col("varied") == varied) & (pl.col("what") == "gradient") & pl.col(measure).is_not_null()
    )
    if not len(rows):
        return None
    layers: list[Layer] = []
    for colour, model in enumerate(cost.rows["model"].unique(maintain_order=True)):
        of_model = rows.filter(pl.col("model") == model)
        for number, (strategy,) in enumerate(of_model.select("strategy").unique(maintain_order=True).rows()):
            if number and strategy != "associative":
                continue
            part = of_model.filter(pl.col("strategy") == strategy).sort("size")
            power = _exponent(cost, model, strategy, varied, measure)
            layers.append(
                Line(
                    part["size"].to_numpy(),
                    part[measure].to_numpy(),
                    name=f"{model}{', ' + strategy if number else ''}: {power}",
                    colour=colour,
                    marks=True,
                    dashed=number > 0,
                )
            )
    return Chart(
        f"{_TITLES[measure]} against {_AXES[varied]}",
        _AXES[varied],
        _MEASURES[measure],
        layers,
        x_scale="log",
        y_scale="log",
        note="Behind each name, the fitted power of the size and in brackets that of the theory.",
    )


def _exponent(cost: Cost, model: str, strategy: str, varied: str, measure: str) -> str:
    known = {"model": model, "strategy": strategy, "varied": varied, "measure": measure, "what": "gradient"}
    row = cost.fits.filter(**known).row(0, named=True)
    return f"{row['exponent']:.2f}" + ("" if row["theory"] is None else f" ({row['theory']:g})")
