"""The figures are published ones, or were computed from the source that a loader's docstring names."""

import datetime
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.data import to_text


def test_all_sets_load_by_name():
    assert hs.datasets.names() == ("alice", "co2", "earthquakes", "elnino", "gnp", "nile", "sunspots")
    for name in hs.datasets.names():
        data = hs.datasets.load(name)
        assert isinstance(data, hs.Sequences) and len(data.names) == len(data)
        assert getattr(hs.datasets, name).__doc__.count("\n") > 2
    with pytest.raises(hs.RegistryError, match="no data set 'niles'; there are alice, co2"):
        hs.datasets.load("niles")


def test_nile():
    flow = hs.datasets.nile()[0]
    assert (len(flow), flow[0], flow[-1], flow.sum()) == (100, 1120.0, 740.0, 91935.0)
    assert flow.mean() == pytest.approx(919.35)
    assert (flow.min(), flow.max()) == (456.0, 1370.0)  # 1913 and 1879
    assert flow.argmin() + 1871 == 1913
    assert flow.var(ddof=1) == pytest.approx(28637.95, abs=0.01)
    # Cobb's change at 1898: means before and after, to whole units 1098 and 850.
    assert round(flow[:28].mean()) == 1098 and round(flow[28:].mean()) == 850


def test_gnp():
    growth = hs.datasets.gnp()[0]
    assert (len(growth), growth[0], growth[-1]) == (135, 2.59316421, 0.14802167)
    assert growth.argmin() == 116 and growth.min() == -2.39120054  # the second quarter of 1980
    table = (files("hiddenstate.data") / "sets" / "gnp.csv").read_text().splitlines()
    assert table[1].startswith("1951-04,") and table[117].startswith("1980-04,") and table[-1].startswith("1984-10,")


def test_sunspots():
    number = hs.datasets.sunspots()[0]
    assert (len(number), number[0], number[-1]) == (309, 5.0, 2.9)
    assert (number.max(), number.argmax() + 1700) == (190.2, 1957)
    assert number.mean() == pytest.approx(49.752, abs=1e-3)
    spectrum = np.abs(np.fft.rfft(number - number.mean()))
    assert 309 / spectrum.argmax() == pytest.approx(11.0, abs=0.3)


def test_earthquakes():
    data = hs.datasets.earthquakes()
    count = data[0]
    assert data.schema.kind == "count"
    assert (len(count), count[0], count[-1], count.min(), count.max()) == (107, 13, 11, 6, 41)
    # Spread far beyond a Poisson, as Zucchini and MacDonald (2009) point out: mean 19.36, variance 51.57.
    assert count.mean() == pytest.approx(19.364, abs=1e-3)
    assert count.var(ddof=1) == pytest.approx(51.573, abs=1e-3)


def test_co2():
    data = hs.datasets.co2()
    level = data[0]
    assert len(level) == 2284 and np.isnan(level).sum() == 59
    assert (level[0], level[-1]) == (316.1, 371.5)
    assert np.nanmean(level) == pytest.approx(340.142, abs=1e-3)
    path = files("hiddenstate.data") / "sets" / "co2.csv"
    weeks = [datetime.date.fromisoformat(line.split(",")[0]) for line in path.read_text().splitlines()[1:]]
    assert {(b - a).days for a, b in pairwise(weeks)} == {7}


def test_elnino():
    temperature = hs.datasets.elnino()[0]
    assert (len(temperature), temperature[0], temperature[-1]) == (732, 23.11, 22.07)
    assert temperature.mean() == pytest.approx(23.0926, abs=1e-4)
    # The two strong events: the warmest months are in 1983 and 1998.
    years = 1950 + np.argsort(temperature)[-6:] // 12
    assert set(years.tolist()) == {1983, 1998}


def test_alice():
    data = hs.datasets.alice()
    paragraphs = to_text(data)
    assert (len(data), data.steps, data.schema.columns[0].size) == (50, 22001, 65)
    assert paragraphs[0].startswith("Alice was beginning to get very tired of sitting by her sister on the bank,")
    assert paragraphs[0].endswith("thought Alice `without pictures or conversation?'")
    assert data.names[0] == "I.1"
    second = data.names.index("II.1")
    assert paragraphs[second].startswith("`Curiouser and curiouser!' cried Alice")
    assert paragraphs[second - 1] == "So she set to work, and very soon finished off the cake."
    assert any("TOOK A WATCH OUT OF ITS WAISTCOAT-POCKET, and looked" in line for line in paragraphs)
    assert any(line.startswith("`How doth the little crocodile Improve his shining tail,") for line in paragraphs)
    assert not any("  " in line or "*" in line for line in paragraphs)
