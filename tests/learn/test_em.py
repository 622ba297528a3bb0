"""EM: it never falls, it finds what there is to find, and it says honestly how it ended."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.core import Prior
from hiddenstate.learn import EM
from hiddenstate.learn import statistics as batch
from learn.coins import Coins, coins, tosses
from learn.small_models import network, symbols
from marks import quick

STATES, COLUMNS, SYMBOLS = 3, 2, 4


def chain(random, states=STATES, zeros=True):
    """Initial and transition probabilities, some of which may be exactly zero."""
    rows = random.dirichlet(np.ones(states), states + 1)
    if zeros:
        rows = np.where((random.random(rows.shape) < 0.2) & (rows < rows.max(1, keepdims=True)), 0, rows)
        rows /= rows.sum(1, keepdims=True)
    return rows[0], rows[1:]


def gaussian(random, states=STATES, dtype=float):
    initial, transition = chain(random, states)
    means = random.normal(0, 2, (states, COLUMNS)).astype(dtype)
    emission = hs.emissions.Gaussian(means, random.uniform(0.3, 3, (states, COLUMNS)).astype(dtype), "diagonal")
    return hs.cast(hs.HMM(initial, transition, emission), dtype)


def categorical(random, states=STATES, dtype=float):
    initial, transition = chain(random, states)
    emission = hs.emissions.Categorical(random.dirichlet(np.ones(SYMBOLS), states).astype(dtype))
    return hs.cast(hs.HMM(initial, transition, emission), dtype)


def poisson(random, states=STATES, dtype=float):
    initial, transition = chain(random, states)
    return hs.cast(
        hs.HMM(initial, transition, hs.emissions.Poisson(random.uniform(0.2, 9, states).astype(dtype))), dtype
    )


def data_for(make, random, count=4, length=12):
    """Ragged sequences with gaps, in arrays of one shape."""
    lengths = np.append(random.integers(1, length + 1, count - 1), length)
    if make is gaussian:
        values = random.normal(0, 3, (count, length, COLUMNS))
    else:
        values = random.integers(0, SYMBOLS, (count, length))
    return hs.Sequences.padded(values, lengths, missing=random.random(values.shape) < 0.15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", quick([gaussian, categorical, poisson]))
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_it_never_falls(make, dtype, seed):
    """200 problems for each family and precision: ten data sets, twenty starts on each, all side by side."""
    random = np.random.default_rng(seed)
    data = data_for(make, random)
    models = batch.stack([make(random, dtype=dtype) for _ in range(20)])
    prior = Prior(jnp.asarray(0, dtype), jnp.asarray(1e-3, dtype))
    before = np.full(20, -np.inf)
    for _ in range(8):
        found, totals = batch.expect(models, data, hs.Auto())
        alive = np.isfinite(totals)
        assert not np.isnan(totals).any() and alive.any()
        fall = ((before - totals) / data.steps)[alive & np.isfinite(before)]
        assert fall.max(initial=-1) < np.finfo(dtype).eps ** 0.75 * 5
        before = totals
        models = batch.maximise(models, found, prior, None)


def apart(found, true):
    """The order of states that brings the found closest to the true."""
    orders = [list(order) for order in itertools.permutations(range(len(true)))]
    return min(orders, key=lambda order: np.abs(np.asarray(found)[order] - true).sum())


@pytest.mark.slow
def test_known_parameters_are_recovered_from_50000_steps():
    transition = np.array([[0.9, 0.07, 0.03], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    initial = np.full(3, 1 / 3)
    means, variances = np.array([-2.0, 0.0, 2.5]), np.array([0.5, 0.3, 0.8])
    probs = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]])
    for emission in (hs.emissions.Gaussian(means, variances), hs.emissions.Categorical(probs)):
        true = hs.HMM(initial, transition, emission)
        data = hs.sample(true, 1000, key=jr.key(0), n=50)
        assert data.steps == 50_000
        result = hs.fit(true, data, EM(start="random", restarts=3, tolerance=1e-7), key=jr.key(1))
        assert result.converged, result.reason
        fitted = result.model.emission
        names = ("probs",) if hasattr(fitted, "probs") else ("means", "covariances")
        order = apart(getattr(fitted, names[0]), np.asarray(getattr(emission, names[0])))
        for name in names:
            np.testing.assert_allclose(getattr(fitted, name)[np.array(order)], getattr(emission, name), atol=0.05)
        found = np.asarray(result.model.transition)[np.ix_(order, order)]
        np.testing.assert_allclose(found, transition, atol=0.05)
        assert float(hs.log_prob(result.model, data, total=True)) >= float(hs.log_prob(true, data, total=True))


def test_the_history_is_that_of_the_returned_model():
    data, model = tosses(ragged=True, missing=0.2), coins()
    result = hs.fit(model, data, EM(iterations=3, tolerance=0.0), key=jr.key(0))
    assert result.history.columns == ["step", "epoch", "loss", "validation", "gradient_norm"]
    assert result.history["step"].to_list() == [1, 2, 3] and not result.converged
    assert "ran all 3 iterations; the last still gained" in result.reason
    by_hand = model
    for row in result.history.iter_rows(named=True):
        assert row["loss"] == pytest.approx(-float(hs.log_prob(by_hand, data, total=True)) / data.steps)
        sums, _ = batch.expect(batch.stack([by_hand]), data, hs.Auto())
        by_hand = by_hand.maximise(jax.tree.map(lambda a: a[0], sums))
    np.testing.assert_allclose(result.model.probs, by_hand.probs, rtol=1e-10)


def test_batches_in_bounded_memory_give_the_same(monkeypatch):
    data, models = tosses(count=11, missing=0.1), batch.stack([coins(seed=s) for s in range(3)])
    whole, totals = batch.expect(models, data, hs.Auto())
    monkeypatch.setattr(batch, "STEPS_AT_ONCE", 40)
    parts, again = batch.expect(models, data, hs.Auto())
    np.testing.assert_allclose(totals, again, rtol=1e-12)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), whole, parts)


def test_restarts_help_and_the_best_wins():
    """The start that is given says that all states are alike, which EM cannot leave."""
    true = hs.HMM([0.5, 0.5], [[0.95, 0.05], [0.05, 0.95]], hs.emissions.Gaussian([-3.0, 3.0], [1.0, 1.0]))
    data = hs.sample(true, 60, key=jr.key(0), n=5)
    alike = hs.HMM([0.5, 0.5], np.full((2, 2), 0.5), hs.emissions.Gaussian([0.0, 0.0], [9.0, 9.0]))
    stuck = hs.fit(alike, data, EM(), key=jr.key(1))
    found = hs.fit(alike, data, EM(restarts=4), key=jr.key(1))
    assert hs.score(found.model, data).nats_per_step < hs.score(stuck.model, data).nats_per_step - 0.5
    assert "of 4 starts was the best" in found.reason and "the 1st" not in found.reason
    np.testing.assert_allclose(np.sort(found.model.emission.means), [-3, 3], atol=0.4)
    again = hs.fit(alike, data, EM(restarts=4), key=jr.key(1))
    assert np.array_equal(again.model.emission.means, found.model.emission.means)
    clustered = hs.fit(alike, data, EM(start="kmeans", iterations=1), key=jr.key(1))
    np.testing.assert_allclose(np.sort(clustered.model.emission.means), [-3, 3], atol=0.4)


def test_minibatches_approach_the_same():
    data = tosses(count=60, length=20, ragged=True)
    whole = hs.fit(coins(), data, EM(), key=jr.key(0)).model
    some = hs.fit(coins(), data, EM(batch_size=10, iterations=15), key=jr.key(0))
    assert some.history.height == 15 * len(list(data.batches(10)))
    assert some.history["epoch"].max() == 15
    assert hs.score(some.model, data).nats_per_step < hs.score(whole, data).nats_per_step + 2e-3
    assert hs.score(coins(), data).nats_per_step > hs.score(whole, data).nats_per_step + 0.05


def test_only_some_parts_change():
    random = np.random.default_rng(1)
    model, data = gaussian(random), data_for(gaussian, random)
    for part, name in (("transition", "transition"), ("emission", "emission"), ("initial", "start")):
        after = hs.fit(model, data, EM(only=(part,), iterations=2, tolerance=0), key=jr.key(0)).model
        for other in ("transition", "emission", "start"):
            old, new = (jax.tree.leaves(getattr(m, other)) for m in (model, after))
            same = all(np.array_equal(a, b) for a, b in zip(old, new, strict=True))
            assert same == (other != name), (part, other)
    with pytest.raises(hs.HiddenStateError, match="only names 'emissions'"):
        hs.fit(model, data, EM(only="emissions"), key=jr.key(0))


def test_empty_states_are_started_anew():
    """A state far from all data is never visited; without repair it stays empty."""
    true = hs.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], hs.emissions.Gaussian([-4.0, 4.0], [1.0, 1.0]))
    data = hs.sample(true, 80, key=jr.key(0), n=4)
    far = hs.HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], hs.emissions.Gaussian([0.0, 900.0], [9.0, 1.0]))
    left = hs.fit(far, data, EM(repair=False), key=jr.key(0))
    found = hs.fit(far, data, EM(), key=jr.key(0))
    assert float(left.model.emission.means[1]) == pytest.approx(900)
    assert "state 1 was empty and started anew at iteration 1" in found.reason
    np.testing.assert_allclose(np.sort(found.model.emission.means), [-4, 4], atol=0.5)


def test_a_constant_column_stays_proper():
    """One value over and over: the variance stops at the floor instead of falling to zero."""
    data = hs.Sequences.of([np.full(10, 2.0), np.full(6, 2.0)])
    model = hs.HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], hs.emissions.Gaussian([1.0, 3.0], [1.0, 1.0]))
    result = hs.fit(model, data, EM(variance_floor=0.01), key=jr.key(0))
    assert np.isfinite(result.history["loss"].to_numpy()).all()
    np.testing.assert_allclose(result.model.emission.covariances, 0.01, rtol=1e-6)


def test_a_constant_column_of_whole_numbers_stays_proper_too():
    model = hs.build("linear-gaussian", hs.Sequences.padded(np.full((1, 6, 1), 5)), states=1, key=jr.key(0))
    real, whole = (np.full((1, 6, 1), 5, kind) for kind in (float, int))
    fits = [hs.fit(model, hs.Sequences.padded(data), EM(iterations=20), key=jr.key(0)).model for data in (real, whole)]
    one, other = (hs.log_prob(fitted, real) for fitted in fits)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_impossible_data_are_named():
    model = coins()
    model = Coins(model.weights, model.probs.at[:, 2].set(0))
    data = hs.Sequences.of([[0, 1, 1], [1, 3, 2]], names=["a", "b"])
    for method in (EM(), EM(batch_size=1)):
        with pytest.raises(hs.DataError, match="sequence b holds 2 at step 3, which has probability zero"):
            hs.fit(model, data, method, key=jr.key(0))


def test_a_fall_ends_the_run_and_keeps_the_model_before_it():
    data = tosses()
    start = coins(broken=True)
    result = hs.fit(start, data, EM(), key=jr.key(0))
    assert not result.converged and result.history.height == 1
    sums, _ = batch.expect(batch.stack([start]), data, hs.Auto())
    worse = start.maximise(jax.tree.map(lambda a: a[0], sums))
    fall = hs.score(worse, data).nats_per_step - hs.score(start, data).nats_per_step
    assert f"fell by {fall:.3g} nats per step at iteration 1" in result.reason
    assert np.array_equal(result.model.probs, start.probs)


def test_the_best_validation_is_returned():
    data, held = symbols(4, 6, seed=1), symbols(40, 20, seed=2)
    model = Coins(jnp.ones(2) / 2, jnp.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]))
    result = hs.fit(model, data, EM(), key=jr.key(0), validation=held)
    best = min(hs.score(model, held).nats_per_step, result.history["validation"].min())
    assert hs.score(result.model, held).nats_per_step == pytest.approx(best)
    assert "the validation was best after" in result.reason


def test_pseudocounts_keep_probabilities_off_zero():
    data = hs.Sequences.of([[0, 1, 0, 1], [1, 1, 0, 0]])
    start = coins(2)
    bare = hs.fit(start, data, EM(), key=jr.key(0)).model.probs
    kept = hs.fit(start, data, EM(pseudocount=0.5), key=jr.key(0)).model.probs
    assert float(bare[:, 2:].max()) == 0 and float(kept.min()) > 0.01


def test_context_is_learned_from_and_said():
    data = tosses(ragged=False).after(3)
    result = hs.fit(coins(), data, EM(), key=jr.key(0))
    assert "all steps were learned from, also the context" in result.reason


def test_models_and_settings_that_cannot_be_are_refused(tmp_path):
    data = symbols()
    with pytest.raises(hs.HiddenStateError, match=r"cannot learn by EM: it has no `expected_statistics`.*hs.HMM"):
        hs.fit(network(), data, EM(), key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="EM keeps no checkpoint"):
        hs.fit(coins(), data, EM(), key=jr.key(0), checkpoint=tmp_path / "x")
    wrong = {"iterations": 0, "restarts": 1.5, "tolerance": -1, "pseudocount": "x", "start": "near", "batch_size": 0}
    for name, value in wrong.items():
        with pytest.raises(hs.HiddenStateError, match=f"{name} is "):
            EM(**{name: value})


def test_data_without_a_single_value_teach_nothing():
    nothing = hs.Sequences.of([np.full(5, np.nan)], missing=[np.ones(5, bool)])
    model = hs.LinearGaussian(transition=[[1.0]], transition_noise=[1.0], emission=[1.0], emission_noise=1.0)
    with pytest.raises(hs.DataError, match="every value of the data is missing"):
        hs.fit(model, nothing, hs.EM(restarts=1), key=jr.key(0))
