"""Time constants, currents and repeated gains, against closed forms and plain loops."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inspect import dynamics
from hiddenstate.inspect.dynamics.forgetting import correlation_time
from marks import quick

NOISE = np.random.default_rng(0).normal(size=(20, 2000))
SHORT = hs.Sequences.of([np.array([0.3, -1.0, 0.4, 1.2]), np.array([0.1, 2.0])])


def network(weight, **options):
    cell = hs.cells.Vanilla(1, len(weight), key=jr.key(1), **options)
    return hs.cast(eqx.tree_at(lambda c: c.recurrent_weight, cell, jnp.asarray(weight)), "float64")


def model_of(cell):
    return hs.RNN(cell, hs.heads.Gaussian(cell.output_size, None, key=jr.key(2)))


# -- time constants ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell",
    [
        hs.cells.Leaky(
            1, 3, time_constants=[2.0, 5.0, 20.0], recurrent_init=lambda key, shape: jnp.zeros(shape), key=jr.key(0)
        ),
        hs.cells.DiagonalLinear(1, 3, time_constants=[2.0, 5.0, 20.0], key=jr.key(0)),
    ],
    ids=["leaky", "linear"],
)
def test_known_time_constants_are_found_in_every_way(cell):
    found = dynamics.time_constants(model_of(cell), hs.Sequences.padded(NOISE))
    np.testing.assert_allclose(found.units, [2.0, 5.0, 20.0], rtol=1e-5)
    np.testing.assert_allclose(found.modes, [20.0, 5.0, 2.0], rtol=1e-5)
    np.testing.assert_allclose(found.gates, [2.0, 5.0, 20.0], rtol=1e-5)
    # white input makes each unit a first-order autoregression; 40,000 steps hold a thousand of the slowest memories
    np.testing.assert_allclose(found.autocorrelation, [2.0, 5.0, 20.0], rtol=0.15)
    assert found.frame().columns == ["unit", "jacobian", "gate", "autocorrelation"]


def test_modes_are_those_of_units_together():
    weight = np.array([[0.5, 0.4], [0.4, 0.5]])
    found = dynamics.time_constants(network(weight, nonlinearity="identity"))
    np.testing.assert_allclose(found.units, -1 / np.log([0.5, 0.5]))
    np.testing.assert_allclose(found.modes, -1 / np.log([0.9, 0.1]))
    assert found.gates is None and found.autocorrelation is None


def test_what_never_decays_is_infinite_and_what_is_forgotten_at_once_is_zero():
    found = dynamics.time_constants(network(np.diag([1.0, 0.0]), nonlinearity="identity"), at=[1.0, 1.0])
    assert found.units.tolist() == [np.inf, 0.0]
    np.testing.assert_array_equal(found.at, [1.0, 1.0])


@pytest.mark.parametrize("kind", quick(["gru", "lstm", "mingru", "minlstm", "gated-leaky"], 2))
def test_gates_are_what_a_step_keeps(kind):
    """The derivative of the memory with respect to itself, where the gates see nothing of it, is the gate."""
    model = hs.build(kind, SHORT, hidden=3, key=jr.key(3))
    if kind in ("gru", "lstm"):
        model = eqx.tree_at(lambda m: m.cell.recurrent_weight, model, jnp.zeros_like(model.cell.recurrent_weight))
    found = dynamics.time_constants(model, SHORT)
    kept = []
    for values in ([0.3, -1.0, 0.4, 1.2], [0.1, 2.0]):
        state = model.initial()
        for x in values:
            element = model.prepare(jnp.asarray(x, jnp.float32))
            jacobian = jax.jacfwd(lambda s, e=element: model.step(s, e))(state)
            kept.append(np.diagonal(jacobian.c.c if kind == "lstm" else jacobian))
            state = model.step(state, element)
    np.testing.assert_allclose(found.gates, -1 / np.log(kept).mean(axis=0), rtol=1e-4)


def test_correlations_count_only_pairs_within_a_sequence():
    states = np.random.default_rng(1).normal(size=(3, 12, 2)).cumsum(axis=1)
    states[1, 7:] = np.nan
    centred = states - np.nanmean(states, axis=(0, 1))
    for unit, found in enumerate(correlation_time(states)):
        logs = []
        for lag in range(12):
            pairs = [a * b for s in centred[..., unit] for a, b in zip(s, s[lag:], strict=False) if a * b == a * b]
            logs.append(np.mean(pairs))
        logs = np.log(np.maximum(np.array(logs) / logs[0], 1e-300))
        lag = next(k for k in range(12) if logs[k] < -1)
        assert found == pytest.approx(lag - 1 + (logs[lag - 1] + 1) / (logs[lag - 1] - logs[lag]), rel=1e-6)
    assert np.isnan(correlation_time(np.ones((1, 5, 1)))).all()
    with warnings.catch_warnings(action="error"):
        assert np.isinf(correlation_time(np.arange(3.0).reshape(3, 1, 1))).all()  # a single step: nothing falls


# -- rates ---------------------------------------------------------------------------------------------------


def test_currents_are_those_of_a_plain_loop():
    model = model_of(hs.cells.Vanilla(1, 3, key=jr.key(4)))
    found = dynamics.rates(model, SHORT)
    cell = model.cell
    weight, inputs = np.asarray(cell.recurrent_weight), np.asarray(cell.input_weight)
    for number, values in enumerate(([0.3, -1.0, 0.4, 1.2], [0.1, 2.0])):
        h = np.zeros(3)
        for time, x in enumerate(values):
            positive, negative = np.where(weight > 0, weight, 0) @ h, np.where(weight < 0, weight, 0) @ h
            external = inputs @ np.asarray(model.head.encode(jnp.asarray(x))) + np.asarray(cell.bias)
            np.testing.assert_allclose(found.rates[number, time], h, atol=1e-6)
            np.testing.assert_allclose(found.excitatory[number, time], positive, atol=1e-6)
            np.testing.assert_allclose(found.inhibitory[number, time], negative, atol=1e-6)
            np.testing.assert_allclose(found.recurrent[number, time], weight @ h, atol=1e-6)
            np.testing.assert_allclose(found.external[number, time], external, atol=1e-6)
            h = np.tanh(weight @ h + external)
    assert np.isnan(found.rates[1, 2:]).all() and np.isnan(found.external[1, 2:]).all()
    assert found.frame().height == 3


def test_units_are_named_by_what_leaves_them():
    cell = network(np.array([[1.0, -1.0, 2.0, 0.0], [3.0, 0.0, -2.0, 0.0], [0.0, -1.0, 4.0, 0.0], [0.0] * 4]))
    found = dynamics.rates(model_of(cell), SHORT)
    assert found.kinds == ("excitatory", "inhibitory", "mixed", "silent")
    np.testing.assert_allclose(found.shares, [1.0, 0.0, 0.75, np.nan])


def test_currents_that_cancel_are_balanced():
    cell = network(np.array([[1.0, -1.0], [1.0, 1.0]]))
    cell = eqx.tree_at(lambda c: c.input_weight, cell, jnp.ones((2, 1)))
    cell = eqx.tree_at(lambda c: c.recurrent_weight, cell, jnp.array([[0.5, -0.5], [0.5, -0.5]]))
    found = dynamics.rates(model_of(cell), SHORT)
    np.testing.assert_allclose(found.balance, [1.0, 1.0], atol=1e-9)  # both units fire alike
    alone = eqx.tree_at(lambda c: c.recurrent_weight, cell, jnp.array([[0.5, 0.5], [0.5, 0.5]]))
    np.testing.assert_allclose(dynamics.rates(model_of(alone), SHORT).balance, [0.0, 0.0], atol=1e-9)


def test_only_rate_units_are_read_so():
    with pytest.raises(hs.HiddenStateError, match="model is a RNN of GRU; it must be a network of rate units"):
        dynamics.rates(model_of(hs.cells.GRU(1, 2, key=jr.key(5))), SHORT)


# -- gains ---------------------------------------------------------------------------------------------------


def test_linear_gains_compound_as_powers():
    found = dynamics.gains(network([[0.9, 0.0], [0.0, 0.5]], nonlinearity="identity"), steps=(1, 3, 10), points=11)
    np.testing.assert_allclose(found.steepest, [0.9, 0.9**3, 0.9**10])
    np.testing.assert_allclose(found.length, 2 * np.array([0.9, 0.9**3, 0.9**10]))
    np.testing.assert_allclose(found.growth, np.log(0.9))
    assert found.pieces.tolist() == [1, 1, 1]
    np.testing.assert_allclose(found.states[1, :, 0], 0.9**3 * found.values)


def test_a_saturating_unit_becomes_a_switch():
    found = dynamics.gains(network([[3.0]]), steps=(1, 4, 8), points=201)
    np.testing.assert_allclose(found.steepest, [3.0, 3.0**4, 3.0**8])  # at zero
    assert (np.abs(found.states) < 1).all() and found.pieces.tolist() == [1, 1, 1]
    np.testing.assert_allclose(np.abs(found.states[2, [0, -1], 0]), 0.9949, atol=1e-3)
    assert np.abs(found.slopes[2, [0, -1], 0]).max() < 1e-6


def test_folding_doubles_the_pieces_at_every_step():
    found = dynamics.gains(
        network([[np.pi]], nonlinearity="sin"), start=[0.5], reach=0.5, steps=(1, 2, 3, 5), points=2001
    )
    assert found.pieces.tolist() == [2, 4, 8, 32]
    np.testing.assert_allclose(found.length, [2, 4, 8, 32], rtol=0.02)
    assert found.frame()["steepest"][0] == pytest.approx(np.pi)


def test_one_input_is_felt_for_as_long_as_the_network_remembers():
    cell = eqx.tree_at(lambda c: c.input_weight, network([[0.5]], nonlinearity="identity"), jnp.array([[4.0]]))
    found = dynamics.gains(cell, of="input", steps=(1, 2, 6), points=5)
    np.testing.assert_allclose(found.slopes[:, :, 0], np.array([[4.0], [2.0], [4.0 * 0.5**5]]) * np.ones(5))


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (r"steps is \(2, 1\); it must be growing", {"steps": (2, 1)}),
        (r"of is 'time'; it must be 'state' or 'input'", {"of": "time"}),
        (r"along is \[1, 2, 3\]; it must be a vector of 1", {"along": [1, 2, 3]}),
        (r"reach is 0; it must be a positive number", {"reach": 0}),
    ],
)
def test_wrong_options_of_gains_are_named(said, options):
    with pytest.raises(hs.HiddenStateError, match=said):
        dynamics.gains(network([[0.5]]), **options)
