"""The cell on the page that shows how to add one obeys the laws, and is as short as the page says."""

import re
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import pytest

import hiddenstate as hs
from hiddenstate.core import cast
from laws import laws
from laws.cases.parts import HEADS, perturbed

PAGE = Path(__file__).parents[2] / "docs" / "add-a-cell.md"


@pytest.fixture(scope="module")
def example():
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[0]
    assert len(code.splitlines()) < 60
    namespace: dict = {"__name__": "example_cell"}
    own_name = code.replace('"strongly-typed"', '"strongly-typed, tested"')  # the page itself may run in this process
    exec(compile(own_name, str(PAGE), "exec"), namespace)
    return namespace["StronglyTyped"]


@pytest.mark.parametrize(("head", "precision"), [("categorical", "float32"), ("gaussian", "float64")])
def test_the_example_cell_obeys_the_laws(example, head, precision):
    make, grid = HEADS[head]
    key = jr.key(3)
    width = make(1, key).encoded_size
    model = perturbed(hs.RNN(example(width, 4, key=key), make(4, key), initial="learned"), key)
    laws.all_laws(cast(cast(model, jnp.float32), jnp.dtype(precision)), grid)
