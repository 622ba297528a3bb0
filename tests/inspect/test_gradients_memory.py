"""What a state remembers, where that is known."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast
from hiddenstate.inspect import gradients


def linear_network(matrix: np.ndarray, into: np.ndarray, head) -> hs.RNN:
    cell = hs.cells.Vanilla(into.shape[1], len(matrix), nonlinearity="identity", key=jr.key(0))
    cell = eqx.tree_at(lambda c: (c.recurrent_weight, c.input_weight), cell, (jnp.asarray(matrix), jnp.asarray(into)))
    return cast(hs.RNN(cell, head), "float64")


@pytest.fixture(scope="module")
def white() -> hs.Sequences:
    return hs.Sequences.of(list(np.random.default_rng(0).normal(size=(8, 1000))))


def test_a_shift_register_remembers_as_many_steps_as_it_has_places(white):
    head = hs.heads.Gaussian(4, None, key=jr.key(1))
    model = linear_network(np.eye(4, k=-1), np.eye(4, 1), head)
    found = gradients.memory(model, white, range(1, 8), key=jr.key(2))
    np.testing.assert_allclose(found.r_squared[:4], 1, atol=1e-10)
    assert np.abs(found.r_squared[4:]).max() < 0.01  # four coefficients on 6,000 steps of noise
    assert found.steps == 2 * (1000 - 7)
    assert found.bits is None and found.accuracy is None


def test_a_leaky_unit_forgets_white_noise_by_its_closed_form(white):
    keep = 0.8
    model = linear_network(np.array([[keep]]), np.array([[1.0]]), hs.heads.Gaussian(1, None, key=jr.key(1)))
    found = gradients.memory(model, white, [1, 2, 4, 8], key=jr.key(2))
    due = keep ** (2 * (found.lags - 1)) * (1 - keep**2)  # the squared correlation of h_t = sum_k a^(k-1) x_{t-k}
    np.testing.assert_allclose(found.r_squared, due, atol=0.04)  # two standard errors at 1,992 steps


def test_symbols_are_remembered_to_the_last_bit_or_not_at_all():
    symbols = np.random.default_rng(1).choice(4, size=(8, 400), p=[0.4, 0.3, 0.2, 0.1])
    head = hs.heads.Categorical(8, 4, key=jr.key(1))
    model = linear_network(np.eye(8, k=-4), np.eye(8, 4), head)  # the last two symbols, one-hot
    found = gradients.memory(model, hs.Sequences.of(list(symbols)), [1, 2, 3], key=jr.key(2))
    entropy = -(np.array([0.4, 0.3, 0.2, 0.1]) * np.log2([0.4, 0.3, 0.2, 0.1])).sum()
    np.testing.assert_allclose(found.bits[:2], entropy, atol=0.05)
    assert abs(found.bits[2]) < 0.02
    np.testing.assert_allclose(found.accuracy[:2], 1)
    assert found.accuracy[2] == pytest.approx(found.chance, abs=0.03)
    assert found.chance == pytest.approx(0.4, abs=0.04)
    assert found.r_squared is None


def test_no_state_remembers_more_of_a_symbol_than_it_holds():
    """Of few sequences the held-out ones have other symbols than those that were learned from."""
    draws = np.random.default_rng(2).choice(3, size=(8, 12), p=[0.8, 0.1, 0.1])
    draws[5:] = np.random.default_rng(3).choice(3, size=(3, 12))
    model = linear_network(np.eye(3, k=-3), np.eye(3), hs.heads.Categorical(3, 3, key=jr.key(1)))
    for seed in range(6):
        found = gradients.memory(model, hs.Sequences.of(list(draws)), [1], key=jr.key(seed))
        assert found.bits[0] <= np.log2(3)


def test_wrong_data_are_refused_in_words(white):
    model = linear_network(np.eye(1), np.eye(1), hs.heads.Gaussian(1, None, key=jr.key(1)))
    with pytest.raises(hs.HiddenStateError, match="lags go from 1 to 1000; they must lie between 1 and 999"):
        gradients.memory(model, white, [1, 1000], key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="data hold one sequence"):
        gradients.memory(model, white[0], key=jr.key(0))
