"""Charts and files of costs that are made up."""

import numpy as np
import polars as pl

from hiddenstate.inspect import Cost
from hiddenstate.report.costs import cost_charts, write_cost


def made_up(seconds: bool = True) -> Cost:
    rows, fits = [], []
    for model, strategy in (("gru", "sequential"), ("mingru", "sequential"), ("mingru", "associative")):
        for what in ("evaluation", "gradient"):
            said = {"model": model, "strategy": strategy, "what": what, "varied": "steps"}
            for size in (10, 100):
                rows.append(said | {"size": size, "seconds": size * 1e-3 if seconds else None, "bytes": 8 * size})
            for measure in ("seconds", "bytes") if seconds else ("bytes",):
                fits.append(
                    said | {"measure": measure, "exponent": 1.02, "theory": 1.0 if what == "gradient" else None}
                )
    return Cost(pl.DataFrame(rows), pl.DataFrame(fits))


def test_lines_are_models_and_broken_where_parallel():
    times, memory = cost_charts(made_up())
    assert times.title == "Time of the gradient against steps T"
    assert [layer.name for layer in times.layers] == [
        "gru: 1.02 (1)",
        "mingru: 1.02 (1)",
        "mingru, associative: 1.02 (1)",
    ]
    assert [layer.dashed for layer in times.layers] == [False, False, True]
    assert [layer.colour for layer in times.layers] == [0, 1, 1]
    np.testing.assert_allclose(memory.layers[0].y, [80, 800])
    assert times.x_scale == times.y_scale == "log"


def test_without_times_there_is_memory_alone():
    assert [chart.y for chart in cost_charts(made_up(seconds=False))] == ["bytes"]


def test_files_hold_what_was_measured(tmp_path):
    cost = made_up()
    write_cost(cost, tmp_path / "deep" / "er")
    assert pl.read_csv(tmp_path / "deep" / "er" / "costs.csv").equals(cost.rows)
    assert len(pl.read_csv(tmp_path / "deep" / "er" / "exponents.csv")) == len(cost.fits)
    assert (tmp_path / "deep" / "er" / "cost.png").read_bytes().startswith(b"\x89PNG")
