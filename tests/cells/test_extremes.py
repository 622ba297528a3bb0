"""Saturated gates, and a hundred thousand steps in float32."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from cells.examples import EXAMPLES, example, inputs, outputs, run
from hiddenstate.cells import DiagonalLinear, GatedLeaky, MinGRU, MinLSTM, Turning
from hiddenstate.core import cast, partition

STRATEGIES = [hs.Sequential(), hs.Associative()]


def error(shown, truth):
    """The largest error of each unit, relative to its largest value, and of these the largest.

    States with a sign pass through zero, where the relative error of a single value means nothing.
    """
    shown, truth = np.asarray(shown, np.float64), np.asarray(truth)
    return (np.abs(shown - truth).max(0) / np.abs(truth).max(0)).max()


@pytest.mark.parametrize("log_space", [False, True])
@pytest.mark.parametrize("name", ["mingru", "minlstm"])
@pytest.mark.slow
def test_a_hundred_thousand_steps_stay_exact_in_float32(name, log_space):
    """Eight units, whose gates write fully (bias 10) or a 20,000th part a step (bias -10)."""
    kind = {"mingru": MinGRU, "minlstm": MinLSTM}[name]
    cell = cast(kind(3, 8, key=jr.key(0), log_space=log_space), jnp.float32)
    write = slice(0, 8) if name == "mingru" else slice(8, 16)
    biases = cell.bias.at[write].set(jnp.linspace(-10, 10, 8, dtype=jnp.float32))
    cell = eqx.tree_at(lambda c: c.bias, cell, biases)
    xs = inputs(100_000, jnp.float32)
    truth = np.stack(EXAMPLES[name].loop(cell, xs))
    for strategy in STRATEGIES:
        shown = outputs(cell, run(cell, xs, strategy))
        assert error(shown, truth) < 1e-5
        if log_space:  # no sign, so that every value can be held to its own size
            assert np.max(np.abs(shown - truth) / truth) < 1e-5


def test_units_of_one_slow_time_constant_stay_exact_in_float32():
    """A factor rounded to float32 would be wrong in the third digit of its distance from one."""
    cell = cast(DiagonalLinear(3, 8, time_constants=(10.0, 20_000.0), key=jr.key(0)), jnp.float32)
    cell = eqx.tree_at(lambda c: c.bias, cell, cell.bias + 0.1)
    xs = inputs(2**14, jnp.float32)
    truth = np.stack(EXAMPLES["linear"].loop(cell, xs))
    for strategy in STRATEGIES:
        assert error(outputs(cell, run(cell, xs, strategy)), truth) < 1e-5


@eqx.filter_jit
def value_and_gradients(learned, rest, xs, state, strategy):
    def scalar(learned, xs, state):
        cell = eqx.combine(learned, rest)
        before, final = hs.unroll(cell, xs, strategy, state=state)
        return jnp.sum(jax.vmap(cell.output)(before) ** 2) + jnp.sum(cell.output(final))

    return jax.value_and_grad(scalar, (0, 1, 2))(learned, xs, state)


def finite(cell, xs, strategy):
    """Whether a scalar of all states and its gradients in weights, inputs and initial state are finite."""
    result = value_and_gradients(*partition(cell), xs, cell.initial(), strategy)
    return all(np.all(np.isfinite(a)) for a in jax.tree.leaves(result))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (MinGRU, {}),
        (MinGRU, {"log_space": True}),
        (MinLSTM, {}),
        (MinLSTM, {"log_space": True}),
        (GatedLeaky, {}),
        (Turning, {}),
        (Turning, {"between": "stochastic"}),
    ],
)
def test_saturated_gates_have_finite_values_and_gradients(kind, options):
    bias_option = "forget_bias" if kind is MinLSTM else "gate_bias"
    for strategy in STRATEGIES:
        for bias in (-500.0, -50.0, 50.0, 500.0):
            cell = cast(kind(3, 4, key=jr.key(0), **{bias_option: bias}, **options), jnp.float32)
            for size in (1.0, 1e4):
                assert finite(cell, size * inputs(6, jnp.float32), strategy), (strategy, bias, size)


def test_two_closed_gates_of_minlstm_still_mix():
    """f / (f + i) with both gates at exp(-200), below the smallest float32, is still one half."""
    cell = cast(MinLSTM(3, 4, key=jr.key(0), input_init=zeros), jnp.float32)
    cell = eqx.tree_at(lambda c: c.bias, cell, jnp.array([-200.0] * 8 + [2.0] * 4, jnp.float32))
    np.testing.assert_allclose(run(cell, inputs(2, jnp.float32)).final, 1.5, rtol=1e-6)


def zeros(key, shape):
    return jnp.zeros(shape)


def test_an_open_gate_leaves_nothing_of_a_large_state():
    """Were the update h + z (c - h) for every z, the rounding error of the large h would stay behind."""
    cell = cast(MinGRU(1, 1, key=jr.key(0), gate_bias=50.0), jnp.float32)
    element = cell.prepare(jnp.array([1e-3], jnp.float32))
    np.testing.assert_array_equal(cell.step(jnp.array([1e6], jnp.float32), element), element.b)


@pytest.mark.parametrize("name", ["leaky learned", "gru", "gru before", "lstm", "lstm peepholes", "gated-leaky state"])
def test_gates_that_read_the_state_have_finite_gradients_far_out(name):
    assert finite(example(name, jnp.float32), 1e3 * inputs(20, jnp.float32), hs.Sequential())
