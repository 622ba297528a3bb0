"""When a run stops, what it says, and which model it returns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import hiddenstate as hs
from hiddenstate.learn.stopping import Stopping
from learn.small_models import Edge, Unigram, network, symbols

KEY = jr.key(0)
BITS = hs.Sequences.of([[1, 1, 1, 1, 1, 1, 1, 0]])


def loss(model, data) -> float:
    return -float(hs.log_prob(model, data, total=True)) / data.steps


def same(one, other) -> bool:
    return bool(eqx.tree_equal(one, other, typematch=True))


def test_the_memory_of_early_stopping():
    seen = Stopping()
    for step, value in enumerate([3.0, 2.0, 1.95, float("nan"), 1.91, 2.5], start=1):
        seen = seen.seen(value, step, 0.1)
    assert seen == Stopping(best=1.91, best_step=5, reference=2.0, waited=4, first=1, evaluated=6)
    assert seen.seen(1.5, 7, 0.1).waited == 0


def test_the_best_on_validation_is_kept():
    skewed = (0.05, 0.15, 0.8)
    train, valid = symbols(3, 8, seed=1, probs=skewed), symbols(20, 8, seed=2, probs=skewed)
    method = hs.SGD(epochs=400, learning_rate=0.02, patience=5)
    fit = hs.fit(network(hidden=8), train, method, key=KEY, validation=valid)
    validation = fit.history.drop_nulls("validation")
    best = validation.row(int(validation["validation"].arg_min()), named=True)
    assert fit.converged
    assert loss(fit.model, valid) == pytest.approx(best["validation"], rel=1e-12)
    assert f"best at step {best['step']} ({best['validation']:.4f})" in fit.reason
    assert best["step"] < fit.history["step"][-1]


def test_a_model_that_only_gets_worse_on_validation_is_returned_as_it_was():
    model = Unigram(jnp.zeros(3))
    fit = hs.fit(model, symbols(probs=(1, 0, 0)), hs.SGD(), key=KEY, validation=symbols(probs=(0, 0, 1)))
    assert same(fit.model, model)
    assert not fit.converged
    assert "no better than at the model it started from for 10 evaluations" in fit.reason


def test_a_learning_rate_far_too_high_does_not_count_as_convergence():
    model = Unigram(jnp.zeros(3))
    method = hs.SGD(optimiser=optax.sgd(1e6), clip=None, evaluate_every=1)
    fit = hs.fit(model, symbols(2), method, key=KEY)
    assert not fit.converged
    assert same(fit.model, model)
    assert "the learning rate is too high" in fit.reason


def test_without_validation_the_training_loss_decides():
    fit = hs.fit(Unigram(jnp.zeros(3)), symbols(), hs.SGD(learning_rate=0.05), key=KEY)
    assert fit.converged
    assert fit.reason.startswith("the training loss has not improved by more than 0.0001 nats per step for 10")
    assert fit.history["validation"].is_null().all()


def test_a_budget_that_ran_out_is_no_convergence():
    model, data = Unigram(jnp.zeros(3)), symbols()
    slow = {"learning_rate": 1e-3, "tolerance": 0.0}
    fit = hs.fit(model, data, hs.SGD(epochs=30, **slow), key=KEY, validation=data)
    assert (fit.converged, fit.reason) == (False, "ran all 30 epochs; the validation was still improving.")
    fit = hs.fit(model, data, hs.SGD(steps=25, **slow), key=KEY)
    assert (fit.converged, fit.reason) == (False, "ran all 25 steps; the training loss was still improving.")
    fit = hs.fit(model, data, hs.SGD(steps=1, **slow), key=KEY)
    assert fit.reason == "ran its only step; the training loss was not seen to improve."
    assert not same(fit.model, model)
    fit = hs.fit(model, data, hs.SGD(epochs=300, learning_rate=0.1, patience=None), key=KEY, validation=data)
    assert not fit.converged
    assert "ran all 300 epochs; the validation was best at step" in fit.reason


def test_a_loss_that_is_not_finite_stops_with_the_last_good_model():
    model = Edge(jnp.asarray(1.0))
    method = hs.SGD(epochs=50, optimiser=optax.sgd(0.9), clip=None)
    fit = hs.fit(model, BITS, method, key=KEY)
    step = fit.history["step"][-1]
    assert step > 1
    assert not fit.converged
    kept = "the model is the last one with a finite loss"
    assert fit.reason == f"the loss was not finite at step {step} (epoch {step}); {kept}."
    assert np.isnan(fit.history["loss"][-1])
    # what the step before was measured at: one more update leads out of the domain
    assert loss(fit.model, BITS) == pytest.approx(fit.history["loss"][-2])
    assert fit.model.logits > 0


def test_with_validation_the_best_is_returned_when_the_loss_is_not_finite():
    model = Edge(jnp.asarray(1.0))
    method = hs.SGD(epochs=50, optimiser=optax.sgd(0.9), clip=None, evaluate_every=1)
    fit = hs.fit(model, BITS, method, key=KEY, validation=hs.Sequences.of([[0, 0, 1]]))
    assert same(fit.model, model)
    assert "the model is the one with the best validation" in fit.reason


def test_a_gradient_that_is_not_finite_is_not_applied():
    model = Edge(jnp.asarray(0.0), function="sqrt")
    fit = hs.fit(model, BITS, hs.SGD(epochs=5), key=KEY)
    assert same(fit.model, model)
    assert fit.reason.startswith("the gradient was not finite at step 1 (epoch 1)")
    assert fit.history["loss"].to_list() == pytest.approx([np.log(2)])


def test_an_update_that_is_not_finite_is_not_applied():
    model = hs.cast(Unigram(jnp.zeros(3)), jnp.float32)
    fit = hs.fit(
        model,
        symbols(),
        hs.SGD(epochs=5, optimiser=optax.chain(optax.scale(1e30), optax.scale(-1e30)), clip=None),
        key=KEY,
    )
    assert same(fit.model, model)
    assert fit.reason.startswith("the update was not finite at step 1 (epoch 1)")


def test_an_exploding_network_stops_at_the_step_where_it_exploded():
    model = network(nonlinearity="identity", dtype="float32")
    model = eqx.tree_at(lambda m: m.cell.recurrent_weight, model, 100 * jnp.eye(3, dtype=jnp.float32))
    fit = hs.fit(model, symbols(4, 40), hs.SGD(epochs=5), key=KEY)
    assert same(fit.model, model)
    assert fit.reason == "the loss was not finite at step 1 (epoch 1); the model is the one it started from."
    assert fit.history.height == 1


@pytest.mark.parametrize("rate", [1e3, 1e30, 1e38])
@pytest.mark.parametrize("make", [lambda: hs.cast(Unigram(jnp.zeros(3)), "float32"), lambda: network(dtype="float32")])
def test_no_array_of_a_returned_model_is_ever_not_finite(make, rate):
    fit = hs.fit(make(), symbols(8, 6), hs.SGD(learning_rate=rate, epochs=30, clip=None), key=KEY)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(fit.model))
    assert not fit.converged
