"""Beliefs carried on by mean field and by the rule of the minimal GRU: against plain loops, and exact filtering."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs

RANDOM = np.random.default_rng(5)
PRIOR, RESET = np.array([0.5, 0.3, 0.2]), 0.3
KEPT, FRESH = RANDOM.dirichlet(np.ones(4), 3), RANDOM.dirichlet(np.ones(4), 3)
XS = RANDOM.integers(0, 4, (4, 12))


def model_of(probs, reset=RESET, prior=PRIOR):
    return hs.SwitchCopy(reset, prior, hs.emissions.Categorical(probs=probs))


@pytest.fixture(scope="module")
def model():
    return model_of(np.concatenate([KEPT, FRESH]))


@pytest.fixture(scope="module")
def compared(model):
    return hs.inspect.compare_posteriors(model, XS)


def gates_of(xs):
    odds = RESET / (1 - RESET) * (PRIOR @ FRESH[:, xs]) / (PRIOR @ KEPT[:, xs])
    return np.concatenate([[1.0], (odds / (1 + odds))[1:]])


@pytest.mark.parametrize("resets_only", [False, True])
def test_one_pass_mixes_logarithms_by_a_gate_that_sees_one_observation(model, compared, resets_only):
    found = hs.inspect.one_pass(model, XS, resets_only=resets_only)
    for sequence, xs in enumerate(XS):
        gates, belief = gates_of(xs), PRIOR
        np.testing.assert_allclose(found.gates[sequence], gates, atol=1e-12)
        for step, x in enumerate(xs):
            kept = belief if resets_only else belief * KEPT[:, x]
            belief = kept ** (1 - gates[step]) * (PRIOR * FRESH[:, x]) ** gates[step]
            belief /= belief.sum()
            np.testing.assert_allclose(found.states[sequence, step], belief, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(compared.beliefs["resets_only" if resets_only else "one_pass"], found.states)


@pytest.mark.parametrize("resets_only", [False, True])
def test_one_pass_is_a_minimal_gru(model, compared, resets_only):
    """A cell with one gate for all units; the softmax of its states is the belief."""
    logit = np.log(RESET / (1 - RESET) * (PRIOR @ FRESH) / (PRIOR @ KEPT))
    candidate = np.log(PRIOR[:, None] * FRESH) + (0 if resets_only else np.exp(-logit) * np.log(KEPT))
    weight = jnp.asarray(np.concatenate([np.tile(logit, (3, 1)), candidate]))
    cell = hs.cells.MinGRU(4, 3, key=jr.key(0))
    cell = eqx.tree_at(lambda c: (c.input_weight, c.bias), cell, (weight, jnp.zeros(6)))
    expected = compared.beliefs["resets_only" if resets_only else "one_pass"][0]
    state = jnp.asarray(np.log(PRIOR * FRESH[:, XS[0, 0]]))  # the first step is fresh
    for step, x in enumerate(XS[0]):
        if step:
            state = cell.step(state, cell.prepare(jnp.eye(4)[x]))
        np.testing.assert_allclose(expected[step], np.exp(state) / np.exp(state).sum(), rtol=0, atol=1e-12)


def test_one_pass_is_the_first_iteration_of_mean_field(model, compared):
    """At the second step, where both begin from the same belief, its bound is that of the gate it has."""
    found = hs.inspect.mean_field(model, XS)
    kept, fresh = compared.exact[0, 0] * KEPT[:, XS[0, 1]], PRIOR * FRESH[:, XS[0, 1]]
    gate, belief = gates_of(XS[0])[1], compared.beliefs["one_pass"][0, 1]
    switch, joint = np.array([1 - gate, gate]), np.stack([(1 - RESET) * kept, RESET * fresh])
    bound = (switch[:, None] * belief * (np.log(joint) - np.log(switch[:, None] * belief))).sum()
    assert found.bounds[0, 1, 0] == pytest.approx(bound, abs=1e-12)


def test_mean_field_is_where_both_updates_rest(model):
    found = hs.inspect.mean_field(model, XS, iterations=200)
    for sequence, xs in enumerate(XS):
        belief = found.states[sequence, 0]
        np.testing.assert_allclose(belief, PRIOR * FRESH[:, xs[0]] / (PRIOR @ FRESH[:, xs[0]]), atol=1e-12)
        for step in range(1, len(xs)):
            kept, fresh = belief * KEPT[:, xs[step]], PRIOR * FRESH[:, xs[step]]
            gate, belief = found.gates[sequence, step], found.states[sequence, step]
            mixed = kept ** (1 - gate) * fresh**gate
            np.testing.assert_allclose(belief, mixed / mixed.sum(), rtol=0, atol=1e-10)
            odds = RESET / (1 - RESET) * np.exp(belief @ (np.log(fresh) - np.log(kept)))
            assert gate == pytest.approx(odds / (1 + odds), abs=1e-8)
            exact = np.log((1 - RESET) * kept.sum() + RESET * fresh.sum())
            assert found.evidence[sequence, step] == pytest.approx(exact, abs=1e-12)


def test_bounds_of_each_step_never_fall_and_never_exceed_what_they_bound():
    for seed in range(8):
        random = np.random.default_rng(seed)
        model = model_of(random.dirichlet(np.full(4, 0.4), 6), reset=random.uniform(0.05, 0.95))
        found = hs.inspect.mean_field(model, random.integers(0, 4, (4, 12)))
        rises = np.diff(found.bounds, axis=2)
        assert rises.min() > -1e-12 and rises.max() > 1e-4
        assert (found.bounds[..., -1] <= found.evidence + 1e-12).all()


def test_divergences_are_those_of_the_beliefs(model, compared):
    np.testing.assert_allclose(compared.exact, np.asarray(hs.filter(model, XS)), atol=1e-12)
    expected = (compared.exact * np.log(compared.exact / compared.beliefs["one_pass"])).sum(-1)
    found = compared.divergences["one_pass"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    assert found[:, 1:].min() > 0
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-12)
    means = expected.mean(axis=1)
    row = compared.summary().row(1, named=True)
    assert row["rule"] == "one_pass"
    assert row["divergence"] == pytest.approx(means.mean())
    assert row["standard_error"] == pytest.approx(means.std(ddof=1) / 2)
    assert compared.frame()["one_pass"].to_list() == pytest.approx(expected.mean(axis=0).tolist())


def test_all_agree_where_the_switch_is_seen():
    """The rule that learns from resets alone does so only where kept states are not seen."""
    blind = np.tile([0.6, 0.4, 0, 0], (3, 1))
    fresh = np.array([[0, 0, 0.9, 0.1], [0, 0, 0.5, 0.5], [0, 0, 0.2, 0.8]])
    xs = np.array([[2, 0, 1, 3, 3, 0, 2, 1, 0, 1, 0, 3]] * 4)
    unseen = hs.inspect.compare_posteriors(model_of(np.concatenate([blind, fresh])), xs)
    seen = hs.inspect.compare_posteriors(model_of(np.concatenate([fresh[:, [2, 3, 0, 1]], fresh])), xs)
    for name in ("mean_field", "one_pass", "resets_only"):
        np.testing.assert_allclose(unseen.beliefs[name], unseen.exact, rtol=0, atol=1e-12)
    for name in ("mean_field", "one_pass"):
        np.testing.assert_allclose(seen.beliefs[name], seen.exact, rtol=0, atol=1e-12)
    assert seen.divergences["resets_only"].max() > 0.1


def test_what_no_state_explains_both_ways():
    """Each state has a symbol of its own: mean field decides for a reset, the one-pass rule loses all it believed."""
    model = model_of(np.tile(np.eye(4)[:3], (2, 1)))
    xs = np.array([[0, 0, 1, 1, 2, 2, 2, 0, 0, 0, 1, 1]] * 4)
    found = hs.inspect.compare_posteriors(model, xs)
    np.testing.assert_allclose(found.beliefs["mean_field"][0], np.eye(3)[xs[0]], rtol=0, atol=1e-12)
    assert not found.beliefs["one_pass"][0, 2:].any()
    divergence = found.divergences["one_pass"]
    assert (divergence[0, 2:] == np.inf).all() and not np.isnan(divergence).any()


def test_nothing_is_said_behind_an_end(model, compared):
    found = hs.inspect.compare_posteriors(model, [XS[0], XS[1, :5]])
    for name, beliefs in found.beliefs.items():
        np.testing.assert_allclose(beliefs[1, :5], compared.beliefs[name][1, :5], rtol=0, atol=1e-12)
        assert np.isnan(found.divergences[name][1, 5:]).all()
    assert np.isnan(found.exact[1, 5:]).all()
    assert found.frame()["mean_field"][11] == found.divergences["mean_field"][0, 11]


def test_other_models_are_refused(model):
    rnn = hs.RNN(hs.cells.MinGRU(3, 4, key=jr.key(1)), hs.heads.Categorical(4, 3, key=jr.key(2)))
    for look in (hs.inspect.one_pass, hs.inspect.mean_field, hs.inspect.compare_posteriors):
        with pytest.raises(hs.HiddenStateError, match=r"model is a RNN of MinGRU; it must be an hs\.SwitchCopy"):
            look(rnn, XS)
    with pytest.raises(hs.HiddenStateError, match="iterations is 0"):
        hs.inspect.mean_field(model, XS, iterations=0)
