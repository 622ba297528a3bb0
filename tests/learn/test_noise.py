"""Dropout: noise that is on in updates only, one mask for a sequence, drawn from the key of the run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import optax
import pytest

import hiddenstate as hs
from hiddenstate.core import Arrays, with_noise
from hiddenstate.learn.chance import Chance, chance_at, learning_key, moment_at
from hiddenstate.learn.minibatches import Place
from hiddenstate.learn.objectives import FreeRunning, ScheduledSampling, TeacherForcing
from hiddenstate.networks.dropout import Dropout
from learn.small_models import symbols
from learn.test_checkpoint import Interruption, assert_same_result, interrupted_at

KEY = jr.key(5)
RATE = 0.4


class Thinned(hs.SequenceModel):
    """A normal number whose mean is the sum of those weights that dropout leaves."""

    weights: object
    drop: Dropout

    def initial(self):
        return jnp.zeros(())

    def prepare(self, x, u=None):
        return jnp.zeros(())

    def step(self, state, element):
        return state + element

    def readout(self, state, u=None):
        return dist.Normal(self.drop(self.weights).sum(), 1.0)


def thinned(size=8):
    return Thinned(2.0 ** jnp.arange(size), Dropout(RATE))  # from the sum one can tell which are left


def kept(log_probs, size=8):
    """Which weights were left, from the log-probabilities of zeros."""
    means = np.sqrt(-2 * (np.asarray(log_probs) + 0.5 * np.log(2 * np.pi)))
    codes = np.rint(means * (1 - RATE)).astype(int)
    return (codes[..., None] >> np.arange(size)) & 1


def test_the_mean_is_preserved():
    x = jnp.asarray([1.0, -2.0, 3.0])
    many = jax.vmap(lambda key: Dropout(RATE).with_key(key)(x))(jr.split(KEY, 20_000))
    error = np.abs(x) * np.sqrt(RATE / (1 - RATE) / 20_000)
    assert np.all(np.abs(many.mean(0) - x) < 4 * error)
    assert set(np.unique(np.round(many[:, 0], 12))) == {0.0, round(1 / (1 - RATE), 12)}
    np.testing.assert_array_equal(Dropout(RATE)(x), x)


@pytest.mark.parametrize("objective", [TeacherForcing(), ScheduledSampling(0.5), FreeRunning(2)], ids=repr)
def test_a_sequence_keeps_its_mask_and_others_have_others(objective):
    arrays = Arrays(np.zeros((50, 6)))
    found = []
    for batch in (0, 1):
        chance = chance_at(moment_at(KEY, Place(0, batch, 0), batch), 50, noisy=True, draws=objective.draws)
        masks = kept(objective.log_probs(thinned(), arrays, hs.Auto(), None, chance)[0])
        np.testing.assert_array_equal(masks, np.broadcast_to(masks[:, :1], masks.shape))
        found.append(masks[:, 0])
    assert len(np.unique(found[0], axis=0)) > 30
    assert (found[0] != found[1]).any(1).mean() > 0.9
    error = np.sqrt(RATE * (1 - RATE) / (2 * 50 * 8))
    assert np.mean(found) == pytest.approx(1 - RATE, abs=4 * error)
    silent = objective.log_probs(thinned(), arrays, hs.Auto(), None, Chance(None, chance.draws, chance.update))[0]
    np.testing.assert_array_equal(
        kept((silent + 0.5 * np.log(2 * np.pi)) / (1 - RATE) ** 2 - 0.5 * np.log(2 * np.pi)), 1
    )


def test_masks_change_from_minibatch_to_minibatch_but_not_within_one():
    data = hs.Sequences.padded(np.zeros((1, 6)))
    method = hs.SGD(epochs=4, truncate=2, optimiser=optax.set_to_zero(), patience=None)
    fit = hs.fit(thinned(), data, method, key=KEY, validation=data)
    losses = fit.history["loss"].to_numpy().reshape(4, 3)
    np.testing.assert_array_equal(losses, np.broadcast_to(losses[:, :1], losses.shape))
    assert len(np.unique(losses[:, 0])) == 4
    silent = 0.5 * float(thinned().weights.sum()) ** 2 + 0.5 * np.log(2 * np.pi)
    assert fit.history["validation"].drop_nulls().to_list() == pytest.approx([silent])
    assert hs.score(fit.model, data).nats_per_step == pytest.approx(silent)
    moment = moment_at(learning_key(KEY), Place(2, 0, 1), 7)
    expected = -TeacherForcing().log_probs(
        thinned(), data.arrays(), hs.Auto(), None, chance_at(moment, 1, noisy=True, draws=False)
    )[0]
    assert losses[2, 1] == pytest.approx(float(expected.mean()))


def deep():
    cells = [hs.cells.Vanilla(3, 4, key=jr.key(0)), hs.cells.MinGRU(4, 4, key=jr.key(1))]
    return hs.RNN(hs.Stack(cells, dropout=0.5), hs.heads.Categorical(4, 3, key=jr.key(2)))


def test_the_gradient_of_a_stack_is_that_of_its_thinned_networks():
    model, data = deep(), symbols(4, 5)
    fit = hs.fit(model, data, hs.SGD(steps=1, optimiser=optax.sgd(1.0), clip=None), key=KEY)
    order = next(data.batches(32, key=jr.fold_in(KEY, 0))).values
    chance = chance_at(moment_at(learning_key(KEY), Place(0, 0, 0), 0), 4, noisy=True, draws=False)

    def by_hand(model):
        total = 0.0
        for key, sequence in zip(chance.noise, jnp.asarray(order), strict=True):
            thin = with_noise(model, key)
            state = thin.initial()
            for x in sequence:
                total = total + thin.readout(state).log_prob(x)
                state = thin.step(state, thin.prepare(x))
        return -total / order.size

    gradient = eqx.filter_grad(by_hand)(model)
    moved = eqx.apply_updates(model, jax.tree.map(jnp.negative, gradient))
    arrays = [jax.tree.leaves(eqx.filter(m, eqx.is_inexact_array)) for m in (fit.model, moved)]
    for a, b in zip(*arrays, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_an_interrupted_run_with_dropout_continues_to_the_same_bits(tmp_path, monkeypatch):
    def run(checkpoint):
        method = hs.SGD(epochs=3, batch_size=4, checkpoint_every=0)
        return hs.fit(deep(), symbols(10, 6), method, key=KEY, checkpoint=checkpoint)

    whole = run(None)
    with monkeypatch.context() as patch:
        interrupted_at(patch, 5, Interruption())
        with pytest.raises(Interruption):
            run(tmp_path / "run")
    assert_same_result(run(tmp_path / "run"), whole, tmp_path)
