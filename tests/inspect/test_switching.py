"""The minimal GRU as message passing: against plain loops over resets."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.switching import plot_ages

XS = np.random.default_rng(0).normal(size=(2, 6, 3))


def cell_of(kind=hs.cells.MinGRU, log_space=False, dtype=jnp.float64):
    cell = kind(3, 4, key=jr.key(0), log_space=log_space)
    return jax.tree.map(lambda a: a.astype(dtype), cell)


@pytest.fixture(scope="module")
def network():
    cell = hs.cells.MinGRU(3, 4, key=jr.key(1))
    rnn = hs.RNN(cell, hs.heads.Categorical(4, 3, key=jr.key(2)), initial="learned")
    return jax.tree.map(lambda a: a + 0.3, rnn)


def states_before(cell, xs):
    """The cell's own states, step by step."""
    state, states = cell.initial(), []
    for x in xs:
        states.append(np.asarray(state))
        state = cell.step(state, cell.prepare(jnp.asarray(x, cell.bias.dtype)))
    return np.stack(states)


@pytest.mark.parametrize("kind", [hs.cells.MinGRU, hs.cells.MinLSTM])
@pytest.mark.parametrize("log_space", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float64, 1e-12), (jnp.float32, 1e-6)])
def test_states_are_sums_over_the_last_reset(kind, log_space, dtype, tolerance):
    cell = cell_of(kind, log_space, dtype)
    found = hs.inspect.as_switching(cell).explicit(XS)
    for sequence, xs in enumerate(XS):
        np.testing.assert_allclose(found.states[sequence], states_before(cell, xs), rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.weights.sum(2), 1.0, atol=1e-12)


def test_a_learned_beginning_counts_until_the_first_reset(network):
    data = hs.Sequences.of([np.array([0, 2, 1, 1, 0]), np.array([1, 0])])
    found = hs.inspect.as_switching(network).explicit(data)
    expected = np.asarray(hs.states(network, data))
    np.testing.assert_allclose(found.states[0], expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.states[1, :2], expected[1, :2], rtol=0, atol=1e-12)
    assert np.isnan(found.states[1, 2:]).all() and np.isnan(found.weights[1, 2:]).all()
    assert abs(found.values[0, 0]).min() > 0


def test_ages_are_those_of_drawn_switches():
    """Enumerated: all settings of five switches, weighted by their probability."""
    view = hs.inspect.as_switching(cell_of())
    gates, ages = view.gates(XS)[0, :, 2], view.ages(XS)[0, :, :, 2]
    for step in range(6):
        expected = np.zeros(6)
        for switches in itertools.product((0, 1), repeat=step):
            chance = np.prod([z if on else 1 - z for on, z in zip(switches, gates, strict=False)])
            last = max((i + 1 for i, on in enumerate(switches) if on), default=0)
            expected[step - last] += chance
        np.testing.assert_allclose(ages[step], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("log_space", [False, True])
def test_the_gate_is_a_sigmoid_and_the_candidate_what_a_reset_puts_in(log_space):
    cell = cell_of(log_space=log_space)
    view = hs.inspect.as_switching(cell)
    lines = XS @ np.asarray(cell.input_weight).T + np.asarray(cell.bias)
    np.testing.assert_allclose(view.gates(XS), 1 / (1 + np.exp(-lines[..., :4])), atol=1e-12)
    line = lines[..., 4:]
    expected = np.where(line >= 0, line + 0.5, 1 / (1 + np.exp(-line))) if log_space else line
    np.testing.assert_allclose(view.candidates(XS), expected, atol=1e-12)


def test_gates_that_are_sure_reset_at_once_or_never():
    sure = jnp.array([800.0, -800.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    cell = eqx.tree_at(lambda c: c.bias, cell_of(), sure)
    ages = hs.inspect.as_switching(cell).ages(XS[:1])[0]
    np.testing.assert_array_equal(ages[1:, 0, 0], 1.0)
    np.testing.assert_array_equal(np.diagonal(ages[:, :, 1]), 1.0)


def test_other_cells_and_other_data_are_refused(network):
    with pytest.raises(hs.HiddenStateError, match="min_gru is a GRU; it must be"):
        hs.inspect.as_switching(hs.cells.GRU(3, 4, key=jr.key(0)))
    with pytest.raises(hs.DataError, match=r"each step has shape \(2,\), but the cell reads vectors of shape \(3,\)"):
        hs.inspect.as_switching(cell_of()).gates(XS[:, :, :2])
    with pytest.raises(hs.DataError, match="missing values"):
        hs.inspect.as_switching(cell_of()).gates(np.where(XS > 1, np.nan, XS))
    with pytest.raises(hs.DataError, match="whole numbers from 0 to 2"):
        hs.inspect.as_switching(network).gates([np.array([0, 3])])


def test_ages_are_drawn(tmp_path):
    plot_ages(hs.inspect.as_switching(cell_of()), XS, tmp_path / "ages.png", units=(0, 2))
    assert (tmp_path / "ages.png").stat().st_size > 5000
    with pytest.raises(hs.HiddenStateError, match="units names 4; the cell has 4"):
        plot_ages(hs.inspect.as_switching(cell_of()), XS, tmp_path / "ages.png", units=(4,))
