"""The kernel of gated recurrent units against a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from native.kernels import needs_kernels
from native.networks import (
    assert_equals_loop,
    assert_maps,
    assert_reads_inputs,
    assert_rows_are_alone,
    read_together,
)


def gru(units, seed=0, **options):
    return hs.cells.GRU(2, units, key=jax.random.key(seed), **options)


@needs_kernels
@pytest.mark.parametrize("reset", ["after", "before"])
@settings(max_examples=4, deadline=None)
@given(units=st.integers(1, 70), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_values_and_gradients_are_those_of_a_loop(reset, units, lengths, seed):
    assert_equals_loop(gru(units, reset=reset), lengths, seed)


@needs_kernels
@pytest.mark.parametrize("reset", ["after", "before"])
@settings(max_examples=3, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any),
    biases=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_inputs_are_read_by_the_kernel(reset, sizes, lengths, biases, seed):
    cell = hs.cells.GRU(*sizes, key=jax.random.key(seed), reset=reset, biases=biases)
    assert_reads_inputs(cell, lengths, seed)


@needs_kernels
@pytest.mark.parametrize(("units", "lengths"), read_together(3, 70, 320))
def test_inputs_of_more_steps_than_are_read_together(units, lengths):
    assert_reads_inputs(gru(units), lengths, 0)


@needs_kernels
def test_without_biases_and_with_two():
    assert_equals_loop(gru(3, biases=0), [2, 3], 0)
    assert_equals_loop(gru(3, biases=2), [2, 3], 0)


@needs_kernels
@pytest.mark.parametrize("reset", ["after", "before"])
def test_the_bits_of_a_sequence_do_not_depend_on_others(reset):
    assert_rows_are_alone(gru(37, reset=reset))


@needs_kernels
@pytest.mark.parametrize("reset", ["after", "before"])
def test_gradients_of_each_sequence_and_of_several_models(reset):
    assert_maps([gru(5, seed, reset=reset) for seed in range(3)])


@needs_kernels
def test_a_gate_that_is_shut_keeps_the_state():
    cell = gru(3, biases=0)
    elements = jnp.zeros((5, 9)).at[:, 3:6].set(1e4)
    states, final = cell.run_natively(jnp.arange(3.0), elements, None)
    np.testing.assert_array_equal(final, jnp.arange(3.0))
    np.testing.assert_array_equal(states, np.broadcast_to(np.arange(3.0), (5, 3)))
