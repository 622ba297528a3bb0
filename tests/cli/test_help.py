import subprocess
import sys

import hiddenstate as hs

COMMANDS = (
    "compare",
    "select",
    "fit",
    "score",
    "predict",
    "forecast",
    "decode",
    "sample",
    "stream",
    "datasets",
    "reproduce",
    "bench",
)


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_help_imports_nothing_heavy():
    code = f"""
import sys
from typer.testing import CliRunner
from hiddenstate.cli import app
for words in [[], *([name] for name in {COMMANDS})]:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
heavy = {{"jax", "jaxlib", "numpy", "polars", "matplotlib", "numpyro", "equinox", "optax"}} & set(sys.modules)
print(sorted(heavy))
"""
    done = python(code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_every_command_has_an_example(run):
    for name in COMMANDS:
        result = run(name, "--help")
        assert result.exit_code == 0
        assert "hiddenstate" in result.output.split("Example:")[1]


def test_the_entry_point_prints_the_version():
    done = python("import sys; from hiddenstate.cli import main; sys.argv[1:] = ['--version']; main()")
    assert (done.returncode, done.stdout.strip()) == (0, f"hiddenstate {hs.__version__}")


def test_a_wrong_command_or_option_exits_with_2(run):
    for words in (["nonsense"], ["fit", "--nonsense"], ["fit", "x.csv", "--hidden", "0"], ["score"]):
        result = run(*words)
        assert result.exit_code == 2
        assert result.stderr


def test_datasets_are_listed(run):
    result = run("datasets")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in hs.datasets.names())


def test_help_names_every_model():
    import re

    import hiddenstate as hs
    from hiddenstate.cli.options import MODELS

    assert set(re.findall(r"[a-z0-9-]+", MODELS)) - {"or", "a", "baseline"} == set(hs.recipe_names())
