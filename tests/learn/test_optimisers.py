"""What is around Adam: weights that decay, a rate that rises and falls, gradients cut off, products rounded."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import hiddenstate as hs
from hiddenstate.learn.minibatches import Minibatches
from hiddenstate.ops.mixed_precision import with_bfloat16_products
from learn.small_models import Unigram, network, symbols

KEY = jr.key(4)


def leaves(model):
    return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))


def test_weights_decay_beside_the_gradient_and_biases_and_starts_do_not():
    cell = hs.cells.SkipInTime(3, 2, lags=(1, 3), key=KEY)
    model = hs.RNN(cell, hs.heads.Categorical(cell.output_size, 3, key=KEY), initial="learned")
    model = jax.tree.map(lambda a: a + 0.1 if eqx.is_inexact_array(a) else a, model)
    fits = [hs.fit(model, symbols(), hs.SGD(steps=1, weight_decay=d), key=KEY).model for d in (0.0, 0.5)]
    plain, decayed = map(leaves, fits)
    start = model.start
    assert start.ndim == 2
    for old, a, b in zip(leaves(model), plain, decayed, strict=True):
        decays = old.ndim >= 2 and old is not start
        np.testing.assert_allclose(a - b, 0.01 * 0.5 * old if decays else 0.0, rtol=1e-9, atol=1e-12)


def test_the_rate_rises_in_a_line_and_falls_as_a_cosine():
    model, data = Unigram(jnp.zeros(3)), symbols(20)

    def by_hand(update):
        done = jnp.clip((update - 4) / (12 - 4), 0, 1)
        return 0.1 * jnp.where(update < 4, (update + 1) / 4, 0.5 * (1 + jnp.cos(jnp.pi * done)))

    expected = hs.fit(model, data, hs.SGD(steps=12, batch_size=5, optimiser=optax.adam(by_hand)), key=KEY)
    options = {"batch_size": 5, "learning_rate": 0.1, "warmup": 4, "decay": "cosine"}
    for budget in ({"steps": 12}, {"epochs": 3}, {"epochs": 9, "steps": 12}):
        fit = hs.fit(model, data, hs.SGD(**options, **budget), key=KEY)
        np.testing.assert_allclose(fit.history["loss"], expected.history["loss"], rtol=1e-6)


def test_planned_updates_are_those_that_are_made():
    model, data = Unigram(jnp.zeros(3)), symbols(10, 9, ragged=True)
    for truncate in (None, 4):
        planned = Minibatches(model, data, 10, 1, truncate, KEY).updates(3, None)
        method = hs.SGD(epochs=3, batch_size=10, buckets=1, truncate=truncate, patience=None)
        assert hs.fit(model, data, method, key=KEY).history.height == planned


def test_gradients_are_cut_off_number_by_number_and_then_by_norm():
    model, data = Unigram(jnp.asarray([5.0, 0.0, 0.0])), symbols()
    options = {"steps": 1, "optimiser": optax.sgd(1.0)}

    def moved(**clips):
        return np.asarray(hs.fit(model, data, hs.SGD(**options, **clips), key=KEY).model.logits - model.logits)

    free = moved(clip=None)
    assert np.abs(free).max() > 0.3
    np.testing.assert_allclose(moved(clip=None, clip_value=0.3), np.clip(free, -0.3, 0.3), rtol=1e-12)
    cut = np.clip(free, -0.3, 0.3)
    np.testing.assert_allclose(moved(clip=0.1, clip_value=0.3), 0.1 * cut / np.linalg.norm(cut), rtol=1e-12)
    history = hs.fit(model, data, hs.SGD(clip_value=0.3, **options), key=KEY).history
    assert history["gradient_norm"][0] == pytest.approx(np.linalg.norm(free))
    complex_fit = hs.fit(Unigram(model.logits + 1j), data, hs.SGD(clip=None, clip_value=0.3, **options), key=KEY)
    np.testing.assert_allclose(complex_fit.model.logits, model.logits + cut + 1j, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"clip_value": 0.0}, "clip_value is 0.0; it must be a positive number or None"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"warmup": -1}, "warmup is -1; it must be a whole number from 1 on or 0"),
        ({"decay": "linear"}, "decay is 'linear'; it must be 'cosine' or None"),
        ({"precision": "half"}, "precision is 'half'; it must be 'mixed' or None"),
        ({"warmup": 5, "learning_rate": optax.constant_schedule(0.1)}, "learning_rate is a schedule already"),
        ({"weight_decay": 0.1, "optimiser": optax.sgd(0.1)}, "weight_decay would be ignored"),
        ({"warmup": 3, "decay": "cosine", "optimiser": optax.sgd(0.1)}, "warmup and decay would be ignored"),
    ],
)
def test_settings_that_make_no_sense_are_sentences(options, match):
    with pytest.raises(hs.HiddenStateError, match=match):
        hs.SGD(**options)


# -- mixed precision -------------------------------------------------------------------------------------------


def rounded(array):
    return np.asarray(jnp.asarray(array, jnp.float32).astype(jnp.bfloat16), np.float64)


def test_products_have_rounded_operands_and_float32_sums_also_in_loops_and_gradients():
    random = np.random.default_rng(0)
    weight, xs = (jnp.asarray(random.normal(size=shape), jnp.float32) for shape in ((5, 5), (3, 5)))

    def function(weight, xs):
        def advance(h, x):
            return jnp.tanh(weight @ h + x), None

        return (jax.lax.scan(advance, xs[0], xs)[0] ** 2).sum()

    value, gradient = jax.jit(with_bfloat16_products(jax.value_and_grad(function)))(weight, xs)

    # the same by hand in float64: every operand of a product rounded, forwards and backwards
    h, states = np.asarray(xs[0], np.float64), []
    for x in np.asarray(xs, np.float64):
        states.append((h, np.tanh(rounded(weight) @ rounded(h) + x)))
        h = states[-1][1]
    slope, expected = 2 * h, np.zeros((5, 5))
    for before, after in reversed(states):
        inner = slope * (1 - after**2)
        expected += np.outer(rounded(inner), rounded(before))
        slope = rounded(weight).T @ rounded(inner)
    assert float(value) == pytest.approx((h**2).sum(), rel=2e-3)  # a state next to an edge may round the other way
    np.testing.assert_allclose(gradient, expected, rtol=0.03, atol=0.01)
    single = jax.jit(with_bfloat16_products(jnp.matmul))(weight, xs.T)
    np.testing.assert_allclose(single, rounded(weight) @ rounded(xs.T), rtol=1e-5, atol=1e-6)
    assert np.abs(single - weight @ xs.T).max() > 1e-3
    double = jnp.asarray(random.normal(size=(4, 4)))
    np.testing.assert_array_equal(with_bfloat16_products(jnp.matmul)(double, double), double @ double)


def test_mixed_precision_learns_about_as_well_and_not_the_same():
    data = hs.Sequences.of([np.arange(i, i + 10) % 3 for i in range(3)])
    model = network(hidden=8, dtype="float32")
    options = {"steps": 120, "learning_rate": 0.05, "patience": None}
    plain, mixed = (hs.fit(model, data, hs.SGD(precision=p, **options), key=KEY) for p in (None, "mixed"))
    assert {a.dtype for a in leaves(mixed.model)} == {np.dtype("float32")}
    assert not plain.history.equals(mixed.history)
    for fit in (plain, mixed):
        assert hs.score(fit.model, data).nats_per_step == pytest.approx(np.log(3) / 10, abs=0.02)
    with pytest.raises(hs.HiddenStateError, match="RNN of Vanilla computes in float64; cast it"):
        hs.fit(network(), data, hs.SGD(precision="mixed"), key=KEY)
