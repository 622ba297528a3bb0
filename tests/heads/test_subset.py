"""The head for sets, against a plain loop over its definition."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast
from hiddenstate.heads import Mixture, Subset
from hiddenstate.inference import rebatch

KEY = jr.key(3)
BITS = np.array(list(itertools.product((0, 1), repeat=4)))
HEAD = Subset(3, 4, 5, key=KEY)
SMALL = Subset(3, 4, 5, most=2, key=KEY)
H = jnp.array([0.5, -1.0, 2.0])


def by_hand(head, h, x):
    """The probability of the ones in ascending order, then of the end; certain once there are as many as can be."""
    parameters = np.asarray(head.linear[0]) @ np.asarray(h) + np.asarray(head.linear[1])
    logits, seen, total, last = parameters[:5], parameters[5:].copy(), 0.0, -1
    members = [*np.flatnonzero(x), 4]
    for k, member in enumerate(members):
        if k == head.most:
            return total if member == 4 else -np.inf
        scores = logits + np.asarray(head.writing) @ np.tanh(seen)
        possible = [d for d in range(5) if d > last or d == 4]
        total += scores[member] - np.log(np.exp(scores[possible]).sum())
        if member < 4:
            seen, last = seen + np.asarray(head.reading)[member], member
    return total


@pytest.mark.parametrize("head", [HEAD, SMALL], ids=["any", "at most two"])
def test_probabilities_are_those_of_the_chain_and_sum_to_one(head):
    log_probs = jax.vmap(head(H).log_prob)(jnp.asarray(BITS))
    np.testing.assert_allclose(log_probs, [by_hand(head, H, x) for x in BITS], rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_probs).sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("head", [HEAD, SMALL], ids=["any", "at most two"])
def test_draws_follow_the_probabilities(head):
    draws = np.asarray(head(H).sample(jr.key(0), (20_000,)))
    assert draws.dtype == np.int32 and draws.sum(1).max() <= head.most
    np.testing.assert_allclose(head(H).mean, draws.mean(0), atol=0.12)
    seen = (draws[:, None] == BITS).all(-1).mean(0)
    expected = np.exp(jax.vmap(head(H).log_prob)(jnp.asarray(BITS)))
    np.testing.assert_allclose(seen, expected, atol=5 * np.sqrt(0.25 / 20_000))


@pytest.mark.parametrize("head", [SMALL, Mixture(SMALL, 2, key=KEY)], ids=["plain", "mixture"])
def test_a_batch_is_as_good_as_each(head):
    head = cast(head, jnp.float32)
    hs_ = jr.normal(jr.key(1), (2, 3, 3), jnp.float32)
    x = jnp.asarray(BITS[6])
    batch = rebatch(jax.vmap(jax.vmap(head))(hs_), (2, 3))
    each = jax.vmap(jax.vmap(lambda h: head(h).log_prob(x)))(hs_)
    assert each.dtype == jnp.float32 and batch.sample(jr.key(2), (5,)).shape == (5, 2, 3, 4)
    np.testing.assert_allclose(batch.log_prob(x), each, rtol=1e-5)


def test_gradients_stay_finite_far_out():
    far = jax.grad(lambda h: HEAD(h).log_prob(jnp.asarray(BITS[5])))(jnp.full(3, 1e4))
    assert np.isfinite(far).all()


def test_it_learns_bits_that_go_together(tmp_path):
    """Two bits that are always equal: independent ones need 2 log 2 a step, these log 2."""
    same = np.random.default_rng(0).integers(0, 2, (40, 10, 1)).repeat(2, axis=-1)
    data = hs.Sequences.of(list(same))
    model = hs.build("vanilla", data, hidden=2, head="subset", units=4, key=KEY)
    fit = hs.fit(model, data, hs.SGD(steps=150, learning_rate=0.1), key=KEY, progress=False)
    assert abs(hs.score(fit.model, data).nats_per_step - np.log(2)) < 0.02
    hs.save(fit.model, tmp_path / "m.safetensors")
    again = hs.load(tmp_path / "m.safetensors")
    ahead = hs.forecast(again, data, 3, key=KEY, n=50)
    assert (ahead.samples[..., 0] == ahead.samples[..., 1]).mean() > 0.95
    assert hs.describe(again)["head"] == {"family": "subset", "units": 4, "most": 2}


def test_twice_as_many_as_were_seen_may_be_on():
    rolls = np.zeros((1, 5, 12), int)
    rolls[0, 2, [1, 5, 7]] = 1
    assert hs.build("vanilla", hs.Sequences.of(list(rolls)), head="subset", key=KEY).head.most == 6


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Subset(3, 0, key=KEY), "bits is 0; a Subset head needs"),
        (lambda: Subset(3, 4, -1, key=KEY), "units is -1; a Subset head needs a whole number"),
        (lambda: Subset(3, 4, most=0, key=KEY), "most is 0; a Subset head needs"),
        (lambda: Subset(-3, 4, key=KEY), "hidden_size is -3; a Subset head needs"),
        (
            lambda: hs.build("gru", [np.ones((3, 2), int)], head="subset", most=1, key=KEY),
            "observations with 2 bits on",
        ),
        (lambda: hs.build("gru", [[0, 1, 1]], head="subset", key=KEY), "a subset head takes vectors of bits"),
        (lambda: hs.build("gru", [np.eye(3) * 2], head="subset", key=KEY), "a subset head takes 0 and 1"),
    ],
)
def test_bad_sizes_and_data_are_refused(make, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        make()
