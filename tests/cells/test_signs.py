"""Recurrent weights of one sign a unit: they start so, stay so through learning and files, and say so."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.cells.signs import spectral_radius

DATA = hs.Sequences.padded(np.random.default_rng(0).normal(size=(4, 12)))
SIGNS = [1, -1, 1, 1, -1, -1]


@pytest.mark.parametrize("kind", [hs.cells.Vanilla, hs.cells.Leaky])
def test_columns_have_the_signs_asked_for(kind):
    cell = kind(2, 6, signs=SIGNS, key=jr.key(0))
    assert (np.sign(cell.dynamics_weight) == np.array(SIGNS)).all()
    assert cell.options()["signs"] == SIGNS
    assert kind(2, 6, signs=0.7, key=jr.key(0)).options()["signs"] == [1, 1, 1, 1, -1, -1]


def test_weights_start_balanced_with_the_radius_that_was_drawn():
    weight = np.asarray(hs.cells.Vanilla(1, 50, signs=0.8, key=jr.key(1)).dynamics_weight)
    assert np.abs(np.linalg.eigvals(weight)).max() == pytest.approx(1.0, abs=0.01)
    assert abs(weight.sum()) < 0.1 * np.abs(weight).sum()


def test_weights_drawn_as_zero_are_small_and_can_learn():
    cell = hs.cells.Vanilla(1, 3, signs=1.0, recurrent_init="scaled_identity", key=jr.key(0))
    weight = np.asarray(cell.dynamics_weight)
    assert (weight > 0).all() and weight[0, 1] < 0.01 * weight[0, 0]


def test_spectral_radius_is_that_of_the_eigenvalues():
    matrix = np.random.default_rng(3).normal(size=(7, 7))
    assert float(spectral_radius(jnp.asarray(matrix))) == pytest.approx(
        np.abs(np.linalg.eigvals(matrix)).max(), rel=5e-3
    )
    assert float(spectral_radius(jnp.zeros((3, 3)))) == 0.0


def test_the_step_is_that_of_free_weights_with_the_same_values():
    cell = hs.cells.Leaky(2, 6, signs=SIGNS, key=jr.key(2))
    h, x = np.linspace(-0.5, 0.5, 6), np.array([0.3, -1.0])
    alpha = 1 - np.exp(-1 / np.asarray(cell.time_constants))
    current = np.asarray(cell.dynamics_weight) @ h + np.asarray(cell.input_weight) @ x + np.asarray(cell.bias)
    due = (1 - alpha) * h + alpha * np.tanh(current)
    np.testing.assert_allclose(cell.step(jnp.asarray(h), cell.prepare(jnp.asarray(x))), due, atol=1e-6)


def test_learning_moves_the_weights_and_keeps_their_signs(tmp_path):
    model = hs.build("vanilla", DATA, hidden=6, signs=SIGNS, key=jr.key(3))
    learned = hs.fit(model, DATA, hs.SGD(steps=30, learning_rate=0.1), key=jr.key(4)).model
    before, after = (np.asarray(m.cell.dynamics_weight) for m in (model, learned))
    assert np.abs(after - before).max() > 0.05
    assert (np.sign(after) == np.array(SIGNS)).all()
    hs.save(learned, tmp_path / "model.hs")
    np.testing.assert_array_equal(hs.load(tmp_path / "model.hs").cell.dynamics_weight, after)
    again = hs.build(hs.describe(learned), DATA, key=jr.key(5))
    assert again.cell.options() == learned.cell.options()


def test_free_weights_are_held_as_before():
    cell = hs.cells.Vanilla(1, 3, key=jr.key(0))
    assert isinstance(cell.recurrent_weight, jax.Array) and "signs" not in cell.options()
    assert cell.dynamics_weight is cell.recurrent_weight


@pytest.mark.parametrize("signs", [1.2, -0.1, True, "e", [1, 0, -1], [1, -1]])
def test_wrong_signs_are_refused_in_words(signs):
    with pytest.raises(hs.HiddenStateError, match=r"signs is .*; it must be the share of excitatory units.*3 units"):
        hs.cells.Vanilla(1, 3, signs=signs, key=jr.key(0))


def test_torch_has_no_such_layer():
    with pytest.raises(hs.HiddenStateError, match="signs of the cell's recurrent weights are bound"):
        hs.to_torch(hs.cells.Vanilla(1, 3, signs=0.5, key=jr.key(0)))
