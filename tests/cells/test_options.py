"""What the constructors' options do, and the sentences that wrong ones get."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate import cells
from hiddenstate.core import Frozen, parameter_count, trainable

KEY = jr.key(0)
KINDS = [
    cells.Vanilla,
    cells.Leaky,
    cells.SkipInTime,
    cells.GatedLeaky,
    cells.OutputFeedback,
    cells.GRU,
    cells.LSTM,
    cells.MinGRU,
    cells.MinLSTM,
    cells.DiagonalLinear,
    cells.Turning,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (-1, 3), (3, -4)])
def test_sizes_below_one_are_refused(kind, sizes):
    argument, got = ("input_size", sizes[0]) if sizes[0] < 1 else ("hidden_size", sizes[1])
    with pytest.raises(hs.HiddenStateError, match=f"{argument} is {got}; it must be a whole number"):
        kind(*sizes, key=KEY)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_initialiser_is_refused(kind):
    with pytest.raises(hs.HiddenStateError, match="input_init is 'magic'; it must be one of orthogonal, glorot"):
        kind(3, 4, input_init="magic", key=KEY)


@pytest.mark.parametrize("kind", [cells.Vanilla, cells.Leaky, cells.SkipInTime, cells.GRU, cells.LSTM])
def test_an_unknown_recurrent_initialiser_is_refused(kind):
    with pytest.raises(hs.HiddenStateError, match="recurrent_init is 'magic'; it must be one of"):
        kind(3, 4, recurrent_init="magic", key=KEY)


@pytest.mark.parametrize("kind", [cells.Vanilla, cells.Leaky, cells.SkipInTime, cells.OutputFeedback])
def test_an_unknown_nonlinearity_is_refused(kind):
    with pytest.raises(hs.HiddenStateError, match="nonlinearity is 'step'; it must be one of tanh, relu"):
        kind(3, 4, nonlinearity="step", key=KEY)


def test_an_initialiser_of_the_wrong_shape_is_refused():
    with pytest.raises(hs.HiddenStateError, match=r"input_init gave .* shape \(3, 4\); .* of shape \(4, 3\)"):
        cells.Vanilla(3, 4, input_init=lambda key, shape: jnp.zeros(shape[::-1]), key=KEY)


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (cells.SkipInTime, {"lags": ()}, r"lags is \(\); it must hold at least one lag"),
        (cells.SkipInTime, {"lags": (1, 4, 4)}, r"lags is \(1, 4, 4\); .* each lag once"),
        (cells.SkipInTime, {"lags": (1, 0)}, r"a lag in lags is 0; it must be a whole number of at least 1"),
        (cells.SkipInTime, {"lags": (-2,)}, r"a lag in lags is -2"),
        (cells.Leaky, {"time_constants": 0.0}, r"time_constants is 0\.0; .* must be positive"),
        (cells.Leaky, {"time_constants": math.nan}, r"time_constants is nan; .* positive, finite"),
        (cells.Leaky, {"time_constants": (1.0, math.inf)}, r"must be positive, finite"),
        (cells.Leaky, {"time_constants": [1.0, 2.0, -3.0, 4.0]}, r"must be positive"),
        (cells.Leaky, {"time_constants": (100.0, 1.0)}, r"is \(100\.0, 1\.0\); .* \(shortest, longest\)"),
        (cells.Leaky, {"time_constants": [1.0, 2.0]}, r"has shape \(2,\); .* each of the 4 units"),
        (cells.DiagonalLinear, {"time_constants": (-1.0, 2.0)}, r"time_constants is .* positive"),
        (
            cells.DiagonalLinear,
            {"complex": True, "max_phase": 0.0},
            r"max_phase is 0\.0; it must lie above 0",
        ),
        (cells.DiagonalLinear, {"complex": True, "max_phase": 4.0}, r"max_phase is 4\.0; .* at most at pi"),
        (cells.Turning, {"between": "chaos"}, r"between is 'chaos'; .* 'rotation', 'stochastic', 'none'"),
        (cells.Turning, {"periods": (1.0, 9.0)}, r"periods is \(1\.0, 9\.0\); a period must last at least 2 steps"),
        (cells.Turning, {"periods": (0.0, 9.0)}, r"periods is \(0\.0, 9\.0\); periods must be positive"),
        (cells.Turning, {"periods": [3.0, 4.0]}, r"periods has shape \(2,\); .* each of the 4 units"),
        (cells.Turning, {"gate_bias": math.inf}, r"gate_bias is inf; it must be a finite number"),
        (cells.GRU, {"reset": "never"}, r"reset is 'never'; it must be one of 'after', 'before'"),
        (cells.LSTM, {"input": "relu"}, r"input is 'relu'; it must be one of 'tanh', 'sigmoid'"),
        (cells.LSTM, {"forget_bias": math.inf}, r"forget_bias is inf; it must be a finite number"),
        (cells.MinLSTM, {"forget_bias": math.nan}, r"forget_bias is nan"),
        (cells.MinGRU, {"gate_bias": math.nan}, r"gate_bias is nan; it must be a finite number"),
        (cells.GatedLeaky, {"context": "output"}, r"context is 'output'; .* 'input', 'state'"),
    ],
)
def test_wrong_options_name_the_argument_what_it_got_and_what_it_takes(kind, options, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        kind(3, 4, key=KEY, **options)


@pytest.mark.parametrize("kind", [cells.LSTM, cells.MinLSTM])
def test_only_the_forget_gates_bias_starts_at_forget_bias(kind):
    for options, bias in (({}, 1.0), ({"forget_bias": 2.5}, 2.5)):
        gates = kind(3, 4, key=KEY, **options).bias.reshape(-1, 4)
        forget = 1 if kind is cells.LSTM else 0
        np.testing.assert_array_equal(gates[forget], bias)
        assert not np.any(np.delete(np.asarray(gates), forget, axis=0))


def test_the_gates_bias_starts_at_gate_bias():
    np.testing.assert_array_equal(cells.MinGRU(3, 2, gate_bias=-3.0, key=KEY).bias, [-3, -3, 0, 0])
    np.testing.assert_array_equal(cells.GatedLeaky(3, 2, gate_bias=-3.0, key=KEY).gate_bias, [-3, -3])
    assert np.all(cells.GatedLeaky(3, 2, key=KEY).gate_bias > 0)


@pytest.mark.parametrize(("kind", "gates"), [(cells.GRU, 3), (cells.LSTM, 4)])
def test_every_gate_is_initialised_by_itself(kind, gates):
    cell = kind(6, 5, key=KEY)
    for block in np.split(np.asarray(cell.recurrent_weight), gates):
        np.testing.assert_allclose(block @ block.T, np.eye(5), atol=1e-12)
    limit = math.sqrt(6 / (5 + 6))
    assert 0.9 * limit < np.abs(cell.input_weight).max() <= limit


def test_time_constants_are_given_as_number_range_or_list():
    def taus(value, hidden=3):
        return cells.Leaky(2, hidden, time_constants=value, key=KEY).time_constants

    np.testing.assert_allclose(taus(7.0), [7, 7, 7], rtol=1e-12)
    np.testing.assert_allclose(taus((1.0, 100.0)), [1, 10, 100], rtol=1e-12)
    np.testing.assert_allclose(taus((1.0, 100.0), hidden=1), [10], rtol=1e-12)
    np.testing.assert_allclose(taus([3.0, 1.0, 2.0]), [3, 1, 2], rtol=1e-12)
    np.testing.assert_allclose(taus(np.array([3.0, 1.0, 2.0])), [3, 1, 2], rtol=1e-12)


def test_an_undriven_leaky_unit_decays_with_its_time_constant():
    cell = cells.Leaky(1, 3, time_constants=[2.0, 5.0, 50.0], key=KEY)
    cell = eqx.tree_at(lambda c: c.recurrent_weight, cell, jnp.zeros((3, 3)))
    state = hs.unroll(cell, jnp.zeros((10, 1)), hs.Sequential(), state=jnp.ones(3)).final
    np.testing.assert_allclose(state, np.exp(-10 / np.array([2.0, 5.0, 50.0])), rtol=1e-12)


def test_fixed_time_constants_are_part_of_the_model_but_not_learned():
    fixed, learned = (cells.Leaky(2, 3, learn_time_constants=learn, key=KEY) for learn in (False, True))
    assert isinstance(fixed.log_time_constants, Frozen)
    assert trainable(fixed).log_time_constants.value is False
    assert parameter_count(learned) == parameter_count(fixed) + 3
    assert jax.tree.leaves(fixed.log_time_constants)[0].shape == (3,)


def test_linear_units_start_with_their_time_constants_and_equal_variances():
    """White input of variance one gives a unit the variance |B|^2 / (1 - |a|^2)."""
    cell = cells.DiagonalLinear(200, 5, time_constants=(1.0, 1000.0), key=KEY)
    np.testing.assert_allclose(cell.time_constants, [1, 10**0.75, 10**1.5, 10**2.25, 1000], rtol=1e-12)
    a = np.exp(-1 / np.asarray(cell.time_constants))
    variances = np.sum(np.asarray(cell.input_weight) ** 2, 1) / (1 - a**2)
    np.testing.assert_allclose(variances, 2 * 200 / 205, rtol=0.3)  # glorot, 200 draws: a spread of 0.06


def test_linear_units_are_stable_whatever_the_parameters():
    cell = cells.DiagonalLinear(1, 3, complex=True, key=KEY)
    cell = eqx.tree_at(
        lambda c: (c.log_rate, c.phase), cell, (jnp.array([-9.0, 0.0, 9.0]), jnp.array([5.0, -9.0, 1.0]))
    )
    assert np.all(np.abs(cell.prepare(jnp.ones(1)).a) < 1)


def test_complex_linear_units_show_real_parts_then_imaginary_parts():
    cell = cells.DiagonalLinear(1, 2, complex=True, key=KEY)
    assert cell.output_size == 4
    np.testing.assert_array_equal(cell.output(jnp.array([[1.0, 2.0], [3.0, 4.0]])), [1, 2, 3, 4])


def test_skip_starts_with_the_gain_of_one_matrix():
    cell = cells.SkipInTime(3, 4, lags=(1, 2, 5), key=KEY)
    np.testing.assert_allclose(cell.recurrent_weight @ cell.recurrent_weight.T, np.eye(4), atol=1e-12)


def test_the_same_key_gives_the_same_cell():
    for kind in KINDS:
        one, other = kind(3, 4, key=jr.key(5)), kind(3, 4, key=jr.key(5))
        assert eqx.tree_equal(one, other)


@pytest.mark.parametrize(("kind", "gates"), [(cells.Vanilla, 1), (cells.GRU, 3), (cells.LSTM, 4)])
def test_biases_are_none_one_or_two(kind, gates):
    counted = [parameter_count(kind(3, 4, biases=biases, key=KEY)) for biases in (0, 1, 2)]
    candidate = 4 if kind is cells.GRU else 0
    assert counted == [gates * 4 * 7, gates * 4 * 8 + candidate, gates * 4 * 9]
    for wrong in (3, -1, True):
        with pytest.raises(hs.HiddenStateError, match=f"biases is {wrong!r}; it must be 0, 1 or 2"):
            kind(3, 4, biases=wrong, key=KEY)
