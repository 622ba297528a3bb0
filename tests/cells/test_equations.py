"""Every cell against its equation, written as a plain NumPy loop in float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.test_util import check_grads

import hiddenstate as hs
from cells.examples import ASSOCIATIVE, EXAMPLES, HIDDEN, INPUT, example, inputs, outputs, run
from hiddenstate.core import partition
from marks import quick


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 3e-6), (jnp.float64, 1e-14)])
def test_outputs_follow_the_equation(name, dtype, tolerance):
    """The tolerance is some ten roundings of numbers of order one."""
    cell, xs = example(name, dtype), inputs(20, dtype)
    shown = outputs(cell, run(cell, xs, hs.Sequential()))
    assert shown.dtype == dtype
    np.testing.assert_allclose(shown, EXAMPLES[name].loop(cell, xs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ASSOCIATIVE)
def test_the_parallel_scan_follows_the_equation(name):
    cell, xs = example(name), inputs(10)
    shown = outputs(cell, run(cell, xs, hs.Associative()))
    np.testing.assert_allclose(shown, EXAMPLES[name].loop(cell, xs), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", quick(EXAMPLES, 8))
def test_gradients_agree_with_finite_differences(name):
    cell, xs = example(name), inputs(4)
    learned, rest = partition(cell)
    probe = jr.normal(jr.key(3), (4, cell.output_size))

    def scalar(learned, xs, state):
        cell = eqx.combine(learned, rest)
        before, final = hs.unroll(cell, xs, hs.Sequential(), state=state)
        shown = jnp.concatenate([jax.vmap(cell.output)(before)[1:], cell.output(final)[None]])
        return jnp.sum(probe * shown)

    start = jax.tree.map(lambda a: a + 0.2, cell.initial())
    check_grads(jax.jit(scalar), (learned, xs, start), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_initial_state_is_zero_and_shows_output_size_numbers(name):
    cell = example(name, jnp.float32)
    assert all(not np.any(leaf) and leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(cell.initial()))
    assert cell.output(cell.initial()).shape == (cell.output_size,)
    assert (cell.input_size, cell.hidden_size) == (INPUT, HIDDEN)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_array_is_complex(name):
    assert not any(jnp.iscomplexobj(leaf) for leaf in jax.tree.leaves((example(name), example(name).initial())))


@eqx.filter_jit
def whole_and_halves(cell, elements, strategy):
    """The states and the final state of all steps, and of one half after the other."""
    time = jax.tree.leaves(elements)[0].shape[0]
    early, late = (jax.tree.map(lambda a, p=p: a[p], elements) for p in (slice(time // 2), slice(time // 2, None)))
    whole = strategy.run(cell, cell.initial(), elements, None)
    first = strategy.run(cell, cell.initial(), early, None)
    second = strategy.run(cell, first.final, late, None)
    states = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first.states, second.states)
    return whole, (states, second.final)


@pytest.mark.parametrize("name", quick(EXAMPLES, 8))
def test_two_halves_make_the_whole_bit_for_bit(name):
    """Step by step; the elements are prepared once, for a matrix product may round by its shape."""
    cell, xs = example(name, jnp.float32), inputs(22, jnp.float32)
    whole, halves = whole_and_halves(cell, jax.vmap(cell.prepare)(xs), hs.Sequential())
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(halves), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 1e-6), (jnp.float64, 1e-14)])
@pytest.mark.parametrize("name", ["mingru", "mingru log", "linear complex", "turning"])
def test_two_halves_of_a_parallel_scan_make_the_whole(name, dtype, tolerance):
    cell, xs = example(name, dtype), inputs(22, dtype)
    whole, halves = whole_and_halves(cell, jax.vmap(cell.prepare)(xs), hs.Associative())
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(halves), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", EXAMPLES)
def test_only_associative_cells_have_combine(name):
    cell = example(name)
    assert hs.core.has(cell, "combine") is EXAMPLES[name].associative
    if not EXAMPLES[name].associative:
        with pytest.raises(hs.StrategyError, match="needs a recurrence with `combine`"):
            hs.unroll(cell, inputs(3), hs.Associative())


@pytest.mark.parametrize("name", ASSOCIATIVE)
def test_combine_is_associative_and_agrees_with_step(name):
    cell, xs = example(name), inputs(3)
    a, b, c = (cell.prepare(x) for x in xs)
    left = cell.combine(cell.combine(a, b), c)
    right = cell.combine(a, cell.combine(b, c))
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    start = jax.tree.map(lambda a: a + 0.3, cell.initial())
    stepped = cell.step(cell.step(cell.step(start, a), b), c)
    np.testing.assert_allclose(cell.step(start, left), stepped, rtol=1e-14, atol=1e-15)


def test_skip_with_lag_one_is_vanilla():
    vanilla = hs.cells.Vanilla(INPUT, HIDDEN, key=jr.key(0))
    skip = hs.cells.SkipInTime(INPUT, HIDDEN, lags=(1,), key=jr.key(0))
    xs = inputs(10)
    np.testing.assert_array_equal(
        outputs(skip, run(skip, xs, hs.Sequential())),
        outputs(vanilla, run(vanilla, xs, hs.Sequential())),
    )


def test_the_lectures_lstm_keeps_its_internal_state_positive():
    """Linderman's lecture notes: the extended state lies in R_+^K x [-1, 1]^K."""
    states = run(example("lstm sigmoid"), inputs(50), hs.Sequential()).states
    assert np.all(states.c >= 0)
    assert np.all(np.abs(states.h) <= 1)


def test_output_feedback_forgets_all_but_the_last_observation():
    cell, xs = example("output-feedback"), inputs(10)
    other = xs.at[:-1].set(0)
    np.testing.assert_array_equal(hs.unroll(cell, xs).final, hs.unroll(cell, other).final)
