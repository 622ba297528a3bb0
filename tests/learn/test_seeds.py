"""Several beginnings at once are the same as one after the other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from learn.answering import Labeller, labelled
from learn.small_models import Edge, network, symbols

KEY = jr.key(9)


def one_by_one(make, data, method, validation=None, seeds=3):
    build_key, fit_key = jr.split(KEY)
    keys = jr.split(build_key, seeds)
    return [hs.fit(make(k), data, method, key=fit_key, validation=validation) for k in keys]


def assert_close(one: hs.Fit, other: hs.Fit):
    assert one.reason[:40] == other.reason[:40]
    assert one.converged == other.converged
    assert one.history["step"].to_list() == other.history["step"].to_list()
    for column in ("loss", "validation", "gradient_norm"):
        a, b = (np.array(fit.history[column].to_list(), float) for fit in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    arrays = [jax.tree.leaves(eqx.filter(fit.model, eqx.is_inexact_array)) for fit in (one, other)]
    for a, b in zip(*arrays, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def make_network(key):
    cell_key, head_key = jr.split(key)
    cells = [hs.cells.Vanilla(3, 3, key=cell_key), hs.cells.Vanilla(3, 3, key=head_key)]
    return hs.RNN(hs.Stack(cells, dropout=0.2), hs.heads.Categorical(3, 3, key=head_key), initial="learned")


def make_labeller(key):
    return Labeller(jr.normal(key, (3, 2)), jnp.zeros(2))


@pytest.mark.slow
def test_all_at_once_are_one_by_one_with_chunks_dropout_and_validation():
    data, valid = symbols(10, 9, ragged=True), symbols(5, 9, seed=2)
    method = hs.SGD(epochs=4, batch_size=4, truncate=5, weight_decay=0.1, learning_rate=0.05)
    fits = hs.fit_seeds(make_network, data, method, key=KEY, seeds=3, validation=valid)
    assert len(fits) == 3
    for one, other in zip(fits.fits, one_by_one(make_network, data, method, valid), strict=True):
        assert_close(one, other)
    scores = [hs.score(model, valid).nats_per_step for model in fits.models]
    np.testing.assert_allclose(fits.scores, scores, rtol=1e-9)
    assert fits.mean == pytest.approx(np.mean(scores))
    assert fits.standard_deviation == pytest.approx(np.std(scores, ddof=1))
    assert fits.best is fits.fits[int(np.argmin(scores))]
    assert f"{fits.mean:.4f}" in str(fits)


def test_pairs_are_learned_and_each_stops_for_itself():
    data, valid = labelled(20), labelled(20, seed=4)
    method = hs.SGD(epochs=60, learning_rate=0.3, patience=2, evaluate_every=1, tolerance=0.01)
    fits = hs.fit_seeds(make_labeller, data, method, key=KEY, seeds=4, validation=valid)
    assert len({fit.history.height for fit in fits.fits}) > 1
    for one, other in zip(fits.fits, one_by_one(make_labeller, data, method, valid, 4), strict=True):
        assert_close(one, other)


def test_one_that_diverges_does_not_touch_the_others():
    """The odds are the logarithm of a weight: those that begin with a negative one have none."""

    def make(key):
        return Edge(0.7 + jr.normal(key, ()))

    data = symbols(6, 8, probs=(0.4, 0.6))
    method = hs.SGD(epochs=5, patience=None)
    fits = hs.fit_seeds(make, data, method, key=KEY, seeds=6)
    lost = ["not finite" in fit.reason for fit in fits.fits]
    assert 0 < sum(lost) < 6
    for one, other in zip(fits.fits, one_by_one(make, data, method, seeds=6), strict=True):
        assert_close(one, other)
    assert np.isfinite(fits.scores).tolist() == [not gone for gone in lost]
    assert np.isfinite(fits.mean) and np.isfinite(fits.standard_deviation)
    assert "without a finite score left out" in str(fits)
    assert "not finite" not in fits.best.reason


def test_what_cannot_be_learned_together_is_said():
    data = symbols()
    made = iter(range(3, 9))
    cases = [
        (make_network, hs.LBFGS(), {}, "hs.fit_seeds takes hs.SGD"),
        (make_network, hs.SGD(), {"seeds": 0}, "seeds is 0; it must be a whole number from 1 on"),
        (lambda key: 3, hs.SGD(), {}, "make gives a int; it must give a model"),
        (
            lambda key: network(hidden=next(made)),
            hs.SGD(),
            {"seeds": 2},
            "make gives models of different form: that of key 1",
        ),
    ]
    for make, method, options, match in cases:
        with pytest.raises(hs.HiddenStateError, match=match):
            hs.fit_seeds(make, data, method, key=KEY, **options)
