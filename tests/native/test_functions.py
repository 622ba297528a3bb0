"""The elementary functions inside kernels, through recurrences that show them, against numpy in higher precision."""

import jax.numpy as jnp
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.native.affine import affine
from hiddenstate.native.vanilla import vanilla
from native.kernels import each_instruction_set, needs_kernels

UNITS = 16
ENDS = {"tanh": 12.0, "sigmoid": 80.0, "exp": 85.0}
EXACT = {"tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "exp": np.exp}


def arguments(end, precision):
    """Numbers up to the end, evenly spread and closer and closer to zero, of both signs."""
    near = np.geomspace(1e-7, end, 4000)
    return np.concatenate([np.linspace(-end, end, 8000), near, -near]).astype(precision)


def applied(name, x):
    """The function at every x: one step without memory each."""
    elements, start = jnp.asarray(x).reshape(-1, UNITS), jnp.zeros(UNITS, x.dtype)
    if name == "exp":
        states, final = affine("logarithms", start, jnp.full_like(elements, -1e3), elements, None)
    else:
        states, final = vanilla(name, jnp.zeros((UNITS, UNITS), x.dtype), None, start, elements, None)
    return np.concatenate([states[1:].ravel(), final])


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
def test_errors_are_a_few_units_in_the_last_place(name, precision, instructions):
    x = arguments(ENDS[name], precision)
    with hs.native.limited(instructions=instructions):
        found = applied(name, x)
    exact = EXACT[name](x.astype(np.longdouble))
    assert np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(precision))) < 3


@needs_kernels
@each_instruction_set
def test_beyond_the_range_and_nan(instructions):
    x = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0, -0.0, 200.0] * 2, "float32")
    with hs.native.limited(instructions=instructions):
        tanh, sigmoid = applied("tanh", x)[:8], applied("sigmoid", x)[:8]
    np.testing.assert_array_equal(tanh, [1, -1, np.nan, 1, -1, 0, 0, 1])
    np.testing.assert_array_equal(sigmoid, [1, 0, np.nan, 1, 0, 0.5, 0.5, 1])
