"""Models that answer learn from pairs as models of sequences do from sequences."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import hiddenstate as hs
from hiddenstate.learn.minibatches import START, Minibatches
from learn.answering import labelled, labeller, nats_by_hand
from learn.small_models import Unigram, symbols
from learn.test_checkpoint import Interruption, assert_same_result, interrupted_at

KEY = jr.key(7)


@pytest.mark.parametrize("missing", [False, True])
def test_the_loss_is_nats_per_target_that_counts(missing):
    model, pairs = labeller(), labelled(missing=missing)
    nats = nats_by_hand(model, pairs)
    method = hs.SGD(epochs=1, batch_size=4, optimiser=optax.set_to_zero())
    fit = hs.fit(model, pairs, method, key=KEY, validation=pairs)
    steps = [m.steps for m in Minibatches(model, pairs, 4, 4, None, KEY).after(START, 1)]
    assert sum(steps) == pairs.scored_steps == sum(map(len, nats))
    expected = np.concatenate(nats).mean()
    assert fit.history["loss"].to_numpy() @ steps / sum(steps) == pytest.approx(expected, rel=1e-12)
    assert fit.history["validation"][-1] == pytest.approx(expected, rel=1e-12)


def test_an_update_is_the_gradient_of_the_mean_over_targets():
    model, pairs = labeller(), labelled(missing=True)
    fit = hs.fit(model, pairs, hs.SGD(steps=1, optimiser=optax.sgd(1.0), clip=None), key=KEY)
    slopes, size = np.zeros((3, 2)), 1e-6
    for row, column in np.ndindex(3, 2):  # by central differences
        moved = [
            np.concatenate(nats_by_hand(eqx.tree_at(lambda m: m.rows, model, model.rows.at[row, column].add(d)), pairs))
            for d in (size, -size)
        ]
        slopes[row, column] = (moved[0].mean() - moved[1].mean()) / (2 * size)
    np.testing.assert_allclose(model.rows - fit.model.rows, slopes, atol=1e-8)


def test_labels_are_learned():
    train, valid = labelled(200), labelled(60, seed=1)
    fit = hs.fit(labeller(), train, hs.SGD(epochs=40, learning_rate=0.1), key=KEY, validation=valid)
    wrong = [np.mean((s == 2) != t) for s, t in (valid[i] for i in range(len(valid)))] @ valid.targets.lengths
    share = wrong / valid.targets.steps
    known = -(share * np.log(0.1) + (1 - share) * np.log(0.9))  # with the probabilities that the labels were drawn from
    assert hs.score(fit.model, valid).nats_per_step == pytest.approx(known, abs=0.02)


@pytest.mark.parametrize("missing", [False, True])
def test_a_score_of_pairs_has_the_error_of_a_mean_over_pairs(missing):
    model, pairs = labeller(), labelled(30, missing=missing)
    nats = nats_by_hand(model, pairs)
    totals, steps = np.array([n.sum() for n in nats]), np.array([len(n) for n in nats])
    found = hs.score(model, pairs)
    mean = totals.sum() / steps.sum()
    error = np.sqrt(((totals - mean * steps) ** 2).sum() * 30 / 29) / steps.sum()
    assert found.nats_per_step == pytest.approx(mean, rel=1e-12)
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    assert found.steps == pairs.scored_steps


def test_an_interrupted_run_on_pairs_continues_to_the_same_bits(tmp_path, monkeypatch):
    pairs, valid = labelled(missing=True), labelled(6, seed=3)

    def run(checkpoint):
        method = hs.SGD(epochs=4, batch_size=4, checkpoint_every=0)
        return hs.fit(labeller(), pairs, method, key=KEY, validation=valid, checkpoint=checkpoint)

    whole = run(None)
    with monkeypatch.context() as patch:
        interrupted_at(patch, 6, Interruption())
        with pytest.raises(Interruption):
            run(tmp_path / "run")
    assert_same_result(run(tmp_path / "run"), whole, tmp_path)
    other = hs.Pairs(pairs.sources, hs.Sequences.padded(1 - pairs.targets.values, pairs.targets.lengths))
    with pytest.raises(hs.FileError, match="the data differ"):
        hs.fit(
            labeller(), other, hs.SGD(epochs=4, batch_size=4), key=KEY, validation=valid, checkpoint=tmp_path / "run"
        )


def test_what_does_not_fit_together_is_said():
    pairs = labelled()
    with pytest.raises(hs.HiddenStateError, match="truncate is 3, but Labeller answers with all of a source"):
        hs.fit(labeller(), pairs, hs.SGD(truncate=3), key=KEY)
    with pytest.raises(hs.HiddenStateError, match=r"Labeller answers .* cannot learn; use hs.SGD"):
        hs.fit(labeller(), pairs, hs.EM(), key=KEY)
    with pytest.raises(hs.DataError, match=r"give hs.Pairs.of\(sources, targets\)"):
        hs.fit(labeller(), symbols(), hs.SGD(), key=KEY)
    with pytest.raises(hs.DataError, match=r"Unigram .* the data are Pairs"):
        hs.fit(Unigram(jnp.zeros(3)), pairs, hs.SGD(), key=KEY)
    with pytest.raises(hs.DataError, match=r"give hs.Pairs.of\(sources, targets\)"):
        hs.score(labeller(), symbols())
    nothing = hs.Pairs.of([[0, 1]], [[1, 0]], missing=[[True, True]])
    with pytest.raises(hs.DataError, match="all targets of the pairs are missing"):
        hs.fit(labeller(), nothing, hs.SGD(), key=KEY)
