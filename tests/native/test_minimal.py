"""The kernel of minimal gated cells against a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from native.kernels import assert_close, assert_threads_agree, needs_kernels
from native.networks import assert_reads_inputs, cast, from_inputs, inputs_of, loop_from_inputs, shaken, slopes_of

CELLS = {"mingru": hs.cells.MinGRU, "minlstm": hs.cells.MinLSTM}

each_cell = pytest.mark.parametrize("name", CELLS)
each_space = pytest.mark.parametrize("log_space", [False, True], ids=["plain", "log"])


def cell_of(name, inputs, units, log_space=False):
    return CELLS[name](inputs, units, log_space=log_space, key=jax.random.key(0))


def scanned(cell, start, inputs, valid):
    """All states and the last, by a scan over the cell's own steps: for many of them."""

    def step(h, given):
        element, there = given
        return jnp.where(there, cell.step(h, element), h), h

    final, states = jax.lax.scan(step, start, (jax.vmap(cell.prepare)(inputs), valid))
    return states, final


@needs_kernels
@each_cell
@each_space
@settings(max_examples=3, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_a_loop(name, log_space, sizes, lengths, seed):
    assert_reads_inputs(cell_of(name, *sizes, log_space=log_space), lengths, seed)


@needs_kernels
@each_cell
def test_sequences_in_several_pieces(name):
    assert_reads_inputs(cell_of(name, 3, 17, log_space=True), [130, 48, 97, 0, 1], 0, by=scanned)


@needs_kernels
@each_cell
def test_threads_share_a_single_long_sequence(name):
    random = np.random.default_rng(0)
    cell = shaken(cell_of(name, 3, 37, log_space=True), random)
    start, inputs, valid = inputs_of(cell, [2_100], random)
    expected = slopes_of(scanned, 0)(*cast((cell, start, inputs), "float64"), valid)
    run = slopes_of(from_inputs, 0)
    for instructions in hs.native.instruction_sets():
        single, double = (cast((cell, start, inputs), precision) for precision in ("float32", "float64"))
        assert_threads_agree(lambda: run(*single, valid), instructions)  # noqa: B023
        assert_close(assert_threads_agree(lambda: run(*double, valid), instructions), expected)  # noqa: B023


@needs_kernels
@each_cell
def test_gradients_of_each_sequence_and_of_several_models(name):
    random = np.random.default_rng(0)
    cell = cell_of(name, 3, 5)
    start, inputs, valid = inputs_of(cell, [3, 2], random)
    weights = jnp.asarray(random.normal(size=(3, *cell.input_weight.shape)))

    def each(one):
        def total(weight, start, inputs, valid):
            moved = type(cell)(3, 5, key=jax.random.key(0), input_init=lambda *_: jnp.zeros((5, 3)))
            object.__setattr__(moved, "input_weight", weight)
            return sum((a**2).sum() for a in jax.tree.leaves(one(moved, start, inputs, valid)))

        of_sequences = jax.vmap(jax.grad(total, (0, 1, 2)), (None, 0, 0, 0))
        return jax.jit(jax.vmap(of_sequences, (0, None, None, None)))(weights, start, inputs, valid)

    assert_close(each(from_inputs), each(loop_from_inputs))


@needs_kernels
@each_cell
@each_space
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_inputs_stay_finite(name, log_space, size):
    cell = cell_of(name, 2, 3, log_space)
    run = lambda cell, xs: cell.read_natively(jnp.ones(3, xs.dtype), xs, None, None)  # noqa: E731
    given = cast((cell, jnp.full((4, 2), size)), "float32")
    out, slopes = run(*given), jax.grad(lambda *x: run(*x)[1].sum(), (0, 1))(*given)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves((out, slopes)))


@needs_kernels
@each_cell
def test_what_is_no_number_stays_so(name):
    cell = cell_of(name, 2, 3)
    states, final = cell.read_natively(jnp.zeros(3), jnp.array([[1.0, 2.0], [np.nan, 1.0], [1.0, 1.0]]), None, None)
    assert np.isfinite(states[:2]).all()
    assert np.isnan(states[2]).all() and np.isnan(final).all()


@needs_kernels
def test_two_closed_gates_divide_as_their_logits_do():
    cell = hs.cells.MinLSTM(2, 1, key=jax.random.key(0))
    object.__setattr__(cell, "input_weight", jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    object.__setattr__(cell, "bias", jnp.array([0.0, 0.0, 1.0]))
    _, final = cell.read_natively(jnp.zeros(1), jnp.array([[-300.0, -299.0]]), None, None)
    np.testing.assert_allclose(final, 1 / (1 + np.exp(-1.0)), rtol=1e-6)
