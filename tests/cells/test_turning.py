"""The state that moves between resets: closed forms of shut gates, long sequences, and joined steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from cells.examples import EXAMPLES, HIDDEN, INPUT, example, inputs, outputs, run
from hiddenstate.cells import MinGRU, Turning
from hiddenstate.core import cast, has, partition

BETWEEN = ["rotation", "stochastic", "none"]
STRATEGIES = [hs.Sequential(), hs.Associative()]


def shut(between, dtype=jnp.float64, **options):
    """A cell whose gate writes nothing: exp(-800) is zero in either precision."""
    return cast(Turning(INPUT, HIDDEN, between=between, gate_bias=-800.0, key=jr.key(0), **options), dtype)


def test_without_a_move_between_resets_it_is_mingru_bit_for_bit():
    turning = Turning(INPUT, HIDDEN, between="none", gate_bias=-1.0, key=jr.key(0))
    mingru = MinGRU(INPUT, HIDDEN, gate_bias=-1.0, key=jr.key(0))
    for strategy in STRATEGIES:
        same = [outputs(cell, run(cell, inputs(10), strategy)) for cell in (turning, mingru)]
        np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["sequential", "associative"])
def test_behind_a_shut_gate_each_pair_comes_back_after_its_period(strategy):
    cell = shut("rotation", periods=[2.0, 3.0, 4.0, 12.0])
    np.testing.assert_allclose(cell.periods, [2, 3, 4, 12], rtol=1e-12)
    start = jnp.array([[1.0, 0.5, 0.0, -2.0], [0.0, 0.5, 3.0, 1.0]])
    states = run(cell, inputs(24), strategy, state=start).states
    for unit, period in enumerate((2, 3, 4, 12)):
        np.testing.assert_allclose(states[period, :, unit], start[:, unit], atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(states[:, :, unit], axis=1), np.linalg.norm(start[:, unit]))
    np.testing.assert_allclose(states[1, :, 2], [-3.0, 0.0], atol=1e-12)  # a quarter turn takes 3i to -3
    np.testing.assert_allclose(states[1, :, 0], [-1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["sequential", "associative"])
def test_behind_a_shut_gate_a_belief_moves_as_along_a_markov_chain(strategy):
    cell = shut("stochastic")
    P = np.asarray(cell.transition)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.diag(P), 0.9, rtol=1e-12)
    start = np.array([0.1, 0.2, 0.3, 0.4])
    states = run(cell, inputs(9), strategy, state=jnp.asarray(start)).states
    for k, state in enumerate(np.asarray(states)):
        np.testing.assert_allclose(state, start @ np.linalg.matrix_power(P, k), rtol=1e-12)


@pytest.mark.parametrize("between", BETWEEN)
def test_gradients_of_joined_steps_are_those_of_single_ones(between):
    cell, xs = example(f"turning {between}" if between != "rotation" else "turning"), inputs(12)
    learned, rest = partition(cell)

    def scalar(learned, xs, strategy):
        before, final = hs.unroll(eqx.combine(learned, rest), xs, strategy)
        return jnp.sum(before**2) + jnp.sum(jnp.sin(final))

    one, other = (jax.jit(jax.grad(lambda a, b, s=s: scalar(a, b, s), (0, 1)))(learned, xs) for s in STRATEGIES)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_periods_are_given_as_time_constants_are():
    def made(value, hidden=3):
        return Turning(2, hidden, periods=value, key=jr.key(0)).periods

    np.testing.assert_allclose(made((2.0, 200.0)), [2, 20, 200], rtol=1e-12)
    np.testing.assert_allclose(made(7.0), [7, 7, 7], rtol=1e-12)
    np.testing.assert_allclose(made([12.0, 5.0, 2.0]), [12, 5, 2], rtol=1e-12)
    assert Turning(2, 3, between="none", key=jr.key(0)).periods is None
    assert Turning(2, 3, key=jr.key(0)).transition is None


def test_a_single_stochastic_unit_is_mingru():
    """Its transition has one entry, which is one."""
    cell = Turning(INPUT, 1, between="stochastic", key=jr.key(1))
    np.testing.assert_array_equal(cell.transition, [[1.0]])
    other = eqx.tree_at(lambda c: c.input_weight, MinGRU(INPUT, 1, key=jr.key(0)), cell.input_weight)
    np.testing.assert_allclose(run(cell, inputs(8)).final, run(other, inputs(8)).final, rtol=1e-14)


@pytest.mark.slow
def test_a_hundred_thousand_turns_stay_bounded_and_exact_in_float32():
    """Gates from wide open (bias 10) to nearly shut (a 20,000th part a step), with all kinds of periods.

    A turn is wrong by about 1e-7 a step, and the longest memory is 20,000 steps.
    """
    cell = cast(Turning(3, 8, key=jr.key(0)), jnp.float32)
    biases = cell.bias.at[:8].set(jnp.linspace(-10, 10, 8, dtype=jnp.float32))
    cell = eqx.tree_at(lambda c: c.bias, cell, biases)
    xs = inputs(100_000, jnp.float32)
    truth = np.stack(EXAMPLES["turning"].loop(cell, xs))
    for strategy in STRATEGIES:
        errors = np.abs(outputs(cell, run(cell, xs, strategy)) - truth).max(axis=0) / np.abs(truth).max(axis=0)
        assert errors.max() < 2e-3
        assert errors.reshape(2, 8)[:, 3:].max() < 2e-5  # memories of less than a hundred steps


def test_a_hundred_thousand_steps_behind_a_shut_gate_keep_their_length_in_float32():
    cell = shut("rotation", jnp.float32)
    start = jnp.ones((2, HIDDEN), jnp.float32)
    for strategy in STRATEGIES:
        final = run(cell, jnp.zeros((100_000, INPUT), jnp.float32), strategy, state=start).final
        np.testing.assert_allclose(np.linalg.norm(final, axis=0), np.sqrt(2), rtol=2e-2)


def test_a_hundred_thousand_steps_of_a_belief_keep_its_sum_in_float32():
    cell = shut("stochastic", jnp.float32)
    start = jnp.full(HIDDEN, 0.25, jnp.float32)
    final = run(cell, jnp.zeros((100_000, INPUT), jnp.float32), hs.Sequential(), state=start).final
    np.testing.assert_allclose(final.sum(), 1, rtol=2e-2)
    assert np.all(final > 0)


def test_only_a_stochastic_state_needs_wider_elements():
    for between in BETWEEN:
        cell = Turning(INPUT, HIDDEN, between=between, key=jr.key(0))
        assert has(cell, "widen") is (between == "stochastic") and has(cell, "combine")


def test_wider_elements_are_passed_on_by_what_is_built_around_the_cell():
    data = [np.array([0, 2, 1, 1, 0]), np.array([1, 0])]
    rnn = hs.build("turning", data, hidden=3, between="stochastic", key=jr.key(0))
    for model in (hs.FirstStep(rnn), *(hs.MultiParticle(rnn, 2, bias=b, key=jr.key(1)) for b in (False, True))):
        one, other = (hs.log_prob(model, data, strategy=strategy) for strategy in STRATEGIES)
        np.testing.assert_allclose(one, other, rtol=1e-10)
