"""What is remembered of models."""

import gc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate.core import Remembered, compiled


class Line(eqx.Module):
    slope: jax.Array
    offset: np.ndarray
    power: int = 1
    name: str = eqx.field(static=True, default="line")


def a_line(slope, **options):
    return Line(jnp.asarray(slope, jnp.float32), np.ones(2, np.float32), **options)


def test_a_model_is_looked_at_once_and_forgotten_with_its_end():
    looked = []
    slope = Remembered(lambda model: looked.append(model.slope) or float(model.slope))
    line, other = a_line(2.0), a_line(3.0)
    assert [slope(line), slope(other), slope(line), slope(other)] == [2.0, 3.0, 2.0, 3.0]
    assert len(looked) == 2
    del line, other
    gc.collect()
    assert not slope._known


def test_what_is_no_model_is_looked_at_each_time():
    count = Remembered(len)
    numbers = [1, 2]
    assert count(numbers) == 2
    numbers.append(3)
    assert count(numbers) == 3


def test_models_of_one_kind_share_a_program():
    traced = []

    @compiled
    def value(model, x, times):
        traced.append(times)
        return times * (model.slope * x**model.power + model.offset)

    x = np.asarray([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(value(a_line(2.0), x, 1), [3, 5])
    np.testing.assert_array_equal(value(a_line(5.0), x, 1), [6, 11])
    assert traced == [1]
    np.testing.assert_array_equal(value(a_line(5.0), x, 2), [12, 22])  # another option
    np.testing.assert_array_equal(value(a_line(5.0, power=2), x, 2), [12, 42])  # another number in the model
    np.testing.assert_array_equal(value(a_line(5.0, name="other"), x, 2), [12, 22])
    assert traced == [1, 2, 2, 2]


def test_a_compiled_function_can_be_differentiated_and_mapped():
    value = compiled(lambda model, x: (model.slope * x**2).sum())
    x = jnp.arange(3.0)
    found = eqx.filter_grad(value)(a_line(2.0), x)
    assert found.slope == (x**2).sum()
    slopes = jax.vmap(lambda slope: value(a_line(slope), x))(jnp.asarray([1.0, 2.0]))
    np.testing.assert_array_equal(slopes, [5.0, 10.0])
