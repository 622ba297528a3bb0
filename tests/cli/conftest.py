"""Small files and small models, made once, for all commands."""

import jax.random as jr
import numpy as np
import pytest
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app

SKY = ("dry", "rain", "sun")


@pytest.fixture
def run():
    """Run a command line in this process: `run("score", model, data)`."""

    def invoke(*words, stdin=None):
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def fails(run):
    """Run a command line that must exit with code 2, and return its one sentence on standard error."""

    def check(*words, stdin=None):
        result = run(*words, stdin=stdin)
        assert result.exit_code == 2, result.output
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, result.stderr
        return errors[0]

    return check


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def weather(folder):
    """Twelve towns with a symbol, a real and a count column."""
    rng = np.random.default_rng(0)
    path = folder / "weather.csv"
    rows = ["town,day,sky,temp,visits"]
    for town in range(12):
        for day in range(6 + town % 3):
            code = rng.integers(3)
            rows.append(f"T{town},{day},{SKY[code]},{10 + 5 * code + rng.normal():.3f},{rng.poisson(30)}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="session")
def weather_data(weather):
    return hs.read(weather, sequence="town", time="day")


@pytest.fixture(scope="session")
def temps(folder, weather):
    """A model of the temperature alone, as it is built."""
    return _saved(folder / "temps.safetensors", hs.read(weather, sequence="town", time="day", columns="temp"))


@pytest.fixture(scope="session")
def skies(folder, weather):
    """A model of the sky alone, whose symbols have names."""
    return _saved(folder / "skies.safetensors", hs.read(weather, sequence="town", time="day", columns="sky"))


@pytest.fixture(scope="session")
def records(folder, weather_data):
    """A model of all three columns."""
    return _saved(folder / "records.safetensors", weather_data)


@pytest.fixture(scope="session")
def story(folder):
    path = folder / "story.txt"
    path.write_text("a cat sat\non a mat\n")
    return path


@pytest.fixture(scope="session")
def words(folder, story):
    """A model of text by characters."""
    return _saved(folder / "words.safetensors", hs.read(story, lines=True))


@pytest.fixture(scope="session")
def driven(folder, weather):
    """A model of the temperature that takes the visits as an input."""
    data = hs.read(weather, sequence="town", time="day", columns="temp", inputs="visits")
    return _saved(folder / "driven.safetensors", data)


def _saved(path, data):
    model = hs.cast(hs.build("vanilla", data, hidden=3, key=jr.key(0)), "float32")
    hs.save(model, path)
    return path
