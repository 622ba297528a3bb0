"""The kernel of plain and leaky networks against a loop in float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.core import has
from native.kernels import needs_kernels
from native.networks import (
    assert_equals_loop,
    assert_maps,
    assert_reads_inputs,
    assert_rows_are_alone,
    cast,
    read_together,
)

CELLS = {"vanilla": hs.cells.Vanilla, "leaky": hs.cells.Leaky}
LEARNED = {"vanilla": {}, "leaky": {"learn_time_constants": True, "time_constants": (1.0, 5.0)}}

each_cell = pytest.mark.parametrize("name", CELLS)


def cell_of(name, units, seed=0, **options):
    return CELLS[name](2, units, key=jax.random.key(seed), **LEARNED[name], **options)


@needs_kernels
@each_cell
@settings(max_examples=4, deadline=None)
@given(units=st.integers(1, 70), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_values_and_gradients_are_those_of_a_loop(name, units, lengths, seed):
    assert_equals_loop(cell_of(name, units), lengths, seed)


@needs_kernels
@each_cell
@settings(max_examples=3, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any),
    seed=st.integers(0, 99),
)
def test_inputs_are_read_by_the_kernel(name, sizes, lengths, seed):
    assert_reads_inputs(CELLS[name](*sizes, key=jax.random.key(seed), **LEARNED[name]), lengths, seed)


@needs_kernels
@each_cell
@pytest.mark.parametrize(("units", "lengths"), read_together(3, 256))
def test_inputs_of_more_steps_than_are_read_together(name, units, lengths):
    assert_reads_inputs(cell_of(name, units), lengths, 0)


@needs_kernels
@each_cell
@pytest.mark.parametrize("nonlinearity", ["relu", "identity", "sigmoid"])
def test_other_nonlinearities(name, nonlinearity):
    assert_equals_loop(cell_of(name, 5, nonlinearity=nonlinearity), [3, 1, 2], 0)


@needs_kernels
@each_cell
def test_weights_that_are_bound_to_signs(name):
    assert_equals_loop(cell_of(name, 5, signs=0.6), [3, 1], 0)


@needs_kernels
@each_cell
def test_the_bits_of_a_sequence_do_not_depend_on_others(name):
    assert_rows_are_alone(cell_of(name, 37))
    assert_rows_are_alone(cell_of(name, 70))


@needs_kernels
@each_cell
def test_gradients_of_each_sequence_and_of_several_models(name):
    assert_maps([cell_of(name, 5, seed) for seed in range(3)])


@needs_kernels
def test_the_gradient_of_a_leak_keeps_its_precision_over_many_steps():
    cell = hs.cells.Leaky(1, 1, key=jax.random.key(0), time_constants=20.0, learn_time_constants=True)
    cell = eqx.tree_at(lambda cell: cell.recurrent_weight, cell, jnp.full((1, 1), 0.5))
    elements = np.random.default_rng(0).normal(size=(200_000, 1))

    def slope(precision):
        total = lambda cell, elements: (cell.run_natively(jnp.zeros(1, precision), elements, None)[0] ** 2).sum()  # noqa: E731
        return np.asarray(jax.grad(total)(*cast((cell, jnp.asarray(elements)), precision)).log_time_constants)

    np.testing.assert_allclose(slope("float32"), slope("float64"), rtol=1e-5)


@each_cell
def test_a_nonlinearity_without_a_kernel_runs_another_way(name):
    assert not has(cell_of(name, 3, nonlinearity="softplus"), "run_natively")
