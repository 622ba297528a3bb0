"""Approximate posteriors of a switch-copy model: against enumeration of all switches, and exact inference."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hiddenstate as hs

RANDOM = np.random.default_rng(3)
PRIOR, RESET = np.array([0.5, 0.3, 0.2]), 0.3
KEPT, FRESH = RANDOM.dirichlet(np.ones(4), 3), RANDOM.dirichlet(np.ones(4), 3)


def model_of(probs, reset=RESET, prior=PRIOR):
    return hs.SwitchCopy(reset, prior, hs.emissions.Categorical(probs=probs))


@pytest.fixture(scope="module")
def model():
    return model_of(np.concatenate([KEPT, FRESH]))


XS = RANDOM.integers(0, 4, 6)
SWEEPS = 40


def updated(model, data):
    return hs.inspect.variational_update(model, data, sweeps=SWEEPS)


def joint(xs, switches, kept=KEPT, fresh=FRESH):
    """log p(x, z) and p(s_t | x, z), by a plain loop; the first switch is on."""
    total, states, start = 0.0, np.zeros((len(xs), 3)), 0
    for stop in range(1, len(xs) + 1):
        if stop == len(xs) or switches[stop]:
            weights = PRIOR * fresh[:, xs[start]] * np.prod(kept[:, xs[start + 1 : stop]], axis=1)
            total += np.log(weights.sum())
            states[start:stop] = weights / weights.sum()
            start = stop
    return total + sum(np.log(RESET if on else 1 - RESET) for on in switches[1:]), states


def settings(length):
    return [(1, *rest) for rest in itertools.product((0, 1), repeat=length - 1)]


def bound_of(xs, gates):
    """The bound by its definition, E_Q[log p(x, z) - log Q(z)], over all settings of the switches."""
    total, marginals = 0.0, np.zeros((len(xs), 3))
    for switches in settings(len(xs)):
        chance = np.prod([q if on else 1 - q for on, q in zip(switches, gates, strict=True)])
        logs, states = joint(xs, switches)
        total += chance * (logs - np.log(chance))
        marginals += chance * states
    return total, marginals


def test_bounds_and_marginals_are_those_of_all_settings_of_the_switches(model):
    xs = XS
    found = updated(model, xs)
    expected, marginals = bound_of(xs, found.resets[0])
    assert found.bounds[0, -1] == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(found.states[0], marginals, rtol=0, atol=1e-10)
    exact = np.logaddexp.reduce([joint(xs, switches)[0] for switches in settings(6)])
    assert found.log_prob[0] == pytest.approx(exact, abs=1e-10)
    assert found.gap[0] == pytest.approx(exact - expected, abs=1e-9)


def test_it_begins_at_the_gate_that_sees_one_observation(model):
    xs = XS
    odds = RESET / (1 - RESET) * (PRIOR @ FRESH[:, xs]) / (PRIOR @ KEPT[:, xs])
    gates = odds / (1 + odds)
    gates[0] = 1.0
    found = updated(model, xs)
    assert found.bounds[0, 0] == pytest.approx(bound_of(xs, gates)[0], abs=1e-10)


def test_no_other_gate_is_better_in_the_end(model):
    xs = XS
    found = updated(model, xs)
    for step, change in itertools.product(range(1, 6), (-0.01, 0.01)):
        gates = found.resets[0].copy()
        gates[step] = np.clip(gates[step] + change, 1e-6, 1 - 1e-6)
        assert bound_of(xs, gates)[0] <= found.bounds[0, -1] + 1e-12


def test_the_bound_never_falls_and_never_exceeds_the_exact_log_probability():
    """Over many random models, with and without emissions that depend on the switch, and a longer sequence."""
    for seed in range(12):
        random = np.random.default_rng(seed)
        probs = random.dirichlet(np.full(4, 0.3), 6 if seed % 2 else 3)
        model = model_of(probs, reset=random.uniform(0.02, 0.98), prior=random.dirichlet(np.ones(3)))
        found = updated(model, random.integers(0, 4, (3, 16)))
        rises = np.diff(found.bounds, axis=1)
        assert rises.min() > -1e-10 and rises.max() > 1e-4
        assert (found.gap > -1e-10).all()


def test_sure_switches_make_it_exact():
    """Symbols 0 and 1 come only where the state is kept, 2 and 3 only where it is fresh."""
    kept = np.array([[0.9, 0.1, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.8, 0, 0]])
    model = model_of(np.concatenate([kept, kept[:, [2, 3, 0, 1]]]))
    xs = np.array([2, 0, 1, 3, 0, 0])
    found = updated(model, xs)
    np.testing.assert_array_equal(found.resets[0], [1, 0, 0, 1, 0, 0])
    assert abs(found.gap[0]) < 1e-12
    np.testing.assert_allclose(found.states[0], np.asarray(hs.smooth(model, xs).marginals[0]), rtol=0, atol=1e-12)


def test_stretches_that_cannot_be_are_left():
    """Each state has a symbol of its own: where symbols change there is a reset for sure, though no gate sees that."""
    model = model_of(np.eye(4)[:3])
    xs = np.array([0, 0, 1, 1, 2, 0])
    found = updated(model, xs)
    assert found.bounds[0, 0] == -np.inf and np.isfinite(found.bounds[0, 1:]).all()
    assert (found.resets[0, [2, 4, 5]] == 1).all()
    np.testing.assert_allclose(found.states[0], np.eye(3)[xs], rtol=0, atol=1e-12)
    assert abs(found.gap[0]) < 1e-10  # states are certain, so that switches are independent


@pytest.mark.parametrize("reset", [0.0, 1.0])
def test_a_switch_that_is_stuck(reset):
    model = model_of(KEPT, reset=reset)
    found = updated(model, XS)
    assert (found.resets[0, 1:] == reset).all()
    np.testing.assert_allclose(found.gap, 0.0, atol=1e-10)


def test_padding_and_missing_values_tell_nothing(model):
    xs = XS
    both = updated(model, [xs, xs[:4]])
    alone = updated(model, xs[:4])
    np.testing.assert_allclose(both.bounds[1], alone.bounds[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(both.resets[1, :4], alone.resets[0], rtol=0, atol=1e-12)
    assert np.isnan(both.resets[1, 4:]).all() and np.isnan(both.states[1, 4:]).all()
    gaps = hs.Sequences.of([xs], missing=[np.arange(6) >= 4])
    np.testing.assert_allclose(updated(model, gaps).bounds[0], alone.bounds[0], rtol=0, atol=1e-12)


def test_single_precision_gives_the_same(model):
    xs = XS
    single = jax.tree.map(lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a, model)
    low, high = (updated(each, xs) for each in (single, model))
    assert low.bounds.dtype == np.float32
    np.testing.assert_allclose(low.bounds, high.bounds, rtol=0, atol=2e-5)


def test_other_models_are_refused(model):
    hmm = hs.HMM(PRIOR, np.eye(3), hs.emissions.Categorical(probs=KEPT))
    with pytest.raises(hs.HiddenStateError, match=r"model is a HMM; it must be an hs\.SwitchCopy"):
        hs.inspect.variational_update(hmm, [0, 1])
    moving = hs.SwitchCopy(RESET, PRIOR, hs.emissions.Categorical(probs=KEPT), between=np.full((3, 3), 1 / 3))
    with pytest.raises(hs.HiddenStateError, match="model moves its state between resets"):
        hs.inspect.variational_update(moving, [0, 1])
    with pytest.raises(hs.HiddenStateError, match="sweeps is 0"):
        hs.inspect.variational_update(model, [0, 1], sweeps=0)
    with pytest.raises(hs.DataError, match="probability zero"):
        hs.inspect.variational_update(model_of(np.eye(4)[:3]), [0, 3])
