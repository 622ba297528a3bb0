"""Small real data sets that come with the library: facts and texts in the public domain.

>>> nile()
Sequences(1 of length 100, real)
"""

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import as_file, files

from hiddenstate.core import RegistryError, Sequences
from hiddenstate.data.read import read
from hiddenstate.data.text import to_text


def nile() -> Sequences:
    """Yearly flow of the Nile at Aswan, 1871 to 1970, in 10^8 cubic metres: 100 real values.

    The flow falls by more than a fifth about 1898, when building the first dam at Aswan began. Cobb (1978),
    "The problem of the Nile: conditional solution to a changepoint problem", Biometrika 65, 243-251; the
    example of Durbin and Koopman (2012), "Time Series Analysis by State Space Methods". Public domain, as the
    copy in statsmodels, which was checked.
    """
    return _table("nile", time="year", kinds="real")


def sunspots() -> Sequences:
    """Yearly mean sunspot number, 1700 to 2008: 309 real values with a cycle of about eleven years.

    The international number in its first version, as the US National Geophysical Data Center gave it out
    before the revision of 2015. Public domain; the numbers are those of statsmodels' copy.
    """
    return _table("sunspots", time="year", kinds="real")


def earthquakes() -> Sequences:
    """Number of earthquakes of magnitude 7 and above in the world each year, 1900 to 2006: 107 counts.

    Counted by the US Geological Survey, whose data are in the public domain; the example of Zucchini and
    MacDonald (2009), "Hidden Markov Models for Time Series", table 1.1.
    """
    return _table("earthquakes", time="year", kinds="count")


def co2() -> Sequences:
    """Weekly carbon dioxide at Mauna Loa, 1958 to 2001, in parts per million: 2284 real values, 59 missing.

    From 29 March 1958 to 29 December 2001, every seven days.

    Keeling and Whorf (2004), "Atmospheric CO2 concentrations derived from flask air samples at sites in the
    SIO network", Carbon Dioxide Information Analysis Center. Public domain; the numbers are those of
    statsmodels' copy.
    """
    return _table("co2", time="week", kinds="real")


def elnino() -> Sequences:
    """Monthly sea surface temperature off Peru (Nino 1+2), 1950 to 2010, in degrees Celsius: 732 real values.

    The mean over 0 to 10 degrees south and 90 to 80 degrees west, from the ERSST.V3B analysis of the US
    National Oceanic and Atmospheric Administration. Public domain; the numbers are those of statsmodels'
    copy.
    """
    return _table("elnino", time="month", kinds="real")


def gnp() -> Sequences:
    """Growth of the real gross national product of the United States, in percent a quarter: 135 real values.

    From the second quarter of 1951 to the last of 1984, each named by its first month. Hamilton (1989), "A new approach
    to the economic analysis of nonstationary time series and the business cycle", Econometrica 57, 357-384, from
    figures of the US Department of Commerce. Public domain; the numbers are those of the copy in statsmodels' tests.
    """
    return _table("gnp", time="quarter", kinds="real")


def alice() -> Sequences:
    """The first two chapters of Alice's Adventures in Wonderland by characters: 50 paragraphs.

    Lewis Carroll (1865), in the public domain; the Millennium Fulcrum edition 2.9, which is also
    `alice29.txt` of the Canterbury corpus. A paragraph is a sequence: its lines are joined by single spaces,
    and the chapters' titles and rows of asterisks are left out. Names count chapter and paragraph.
    """
    with as_file(files("hiddenstate.data") / "sets" / "alice.txt") as path:
        data = read(path, lines=True)
    second = next(i for i, line in enumerate(to_text(data)) if line.startswith("`Curiouser and curiouser!'"))
    names = [f"I.{i + 1}" if i < second else f"II.{i - second + 1}" for i in range(len(data))]
    return replace(data, names=tuple(names))


_LOADERS: dict[str, Callable[[], Sequences]] = {
    loader.__name__: loader for loader in (alice, co2, earthquakes, elnino, gnp, nile, sunspots)
}


def names() -> tuple[str, ...]:
    """The names of all embedded data sets."""
    return tuple(_LOADERS)


def load(name: str) -> Sequences:
    """The embedded data set of that name."""
    if name not in _LOADERS:
        raise RegistryError(f"there is no data set {name!r}; there are {', '.join(_LOADERS)}.")
    return _LOADERS[name]()


def _table(name: str, **options) -> Sequences:
    with as_file(files("hiddenstate.data") / "sets" / f"{name}.csv") as path:
        return read(path, **options)
