"""The kernel of long short-term memory against a loop in float64."""

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
    cast,
    from_inputs,
    inputs_of,
    read_together,
    shaken,
)


def lstm(units, seed=0, **options):
    return hs.cells.LSTM(2, units, key=jax.random.key(seed), **options)


@needs_kernels
@pytest.mark.parametrize("options", [{}, {"input": "sigmoid", "peepholes": True}], ids=["plain", "peepholes"])
@settings(max_examples=4, deadline=None)
@given(units=st.integers(1, 70), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_values_and_gradients_are_those_of_a_loop(options, units, lengths, seed):
    assert_equals_loop(lstm(units, **options), lengths, seed)


@needs_kernels
@pytest.mark.parametrize("options", [{}, {"biases": 2, "peepholes": True}, {"biases": 0}], ids=["one", "two", "none"])
@settings(max_examples=3, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any),
    seed=st.integers(0, 99),
)
def test_inputs_are_read_by_the_kernel(options, sizes, lengths, seed):
    assert_reads_inputs(hs.cells.LSTM(*sizes, key=jax.random.key(seed), **options), lengths, seed)


@needs_kernels
@pytest.mark.parametrize(("units", "lengths"), read_together(3, 70, 256))
def test_inputs_of_more_steps_than_are_read_together(units, lengths):
    assert_reads_inputs(lstm(units), lengths, 0)


@needs_kernels
def test_internal_states_that_nothing_needs_are_not_kept():
    random = np.random.default_rng(0)
    cell = shaken(lstm(21), random)
    given = cast((cell, *inputs_of(cell, [5, 3, 0], random)[:2]), "float64")
    valid = np.arange(5) < np.array([5, 3, 0])[:, None]
    every = jax.jit(lambda cell, *x: jax.vmap(lambda *one: from_inputs(cell, *one))(*x, valid))
    some = jax.jit(lambda *x: (every(*x)[0].h, every(*x)[1]))
    states, final = every(*given)
    jax.tree.map(np.testing.assert_array_equal, some(*given), (states.h, final))
    assert "5x0xf64" in some.lower(*given).as_text()


@needs_kernels
def test_many_sequences_in_several_blocks():
    assert_equals_loop(lstm(17), [1 + i % 3 for i in range(71)], 0)


@needs_kernels
def test_the_bits_of_a_sequence_do_not_depend_on_others():
    assert_rows_are_alone(lstm(37, peepholes=True))


@needs_kernels
def test_gradients_of_each_sequence_and_of_several_models():
    assert_maps([lstm(5, seed, peepholes=True) for seed in range(3)])


@needs_kernels
def test_extreme_inputs_stay_finite():
    cell = lstm(3)
    states, final = cell.run_natively(cell.initial(), jnp.full((4, 12), 1e4), None)
    assert np.isfinite(jax.tree.leaves((states, final))[0]).all()
    states, final = cell.run_natively(cell.initial(), jnp.full((4, 12), -1e4), None)
    np.testing.assert_array_equal(final.h, 0)
