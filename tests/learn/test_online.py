"""Online learning: chunk by chunk, in constant memory."""

import jax
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.learn import EM, Online, update
from hiddenstate.learn.online import TAIL
from learn.small_models import network, symbols

TRANSITION = [[0.9, 0.1], [0.2, 0.8]]


@pytest.fixture(scope="module")
def stream():
    true = hs.HMM([0.5, 0.5], TRANSITION, hs.emissions.Gaussian([-2.0, 2.0], [1.0, 0.5]))
    return np.asarray(hs.sample(true, 8000, key=jr.key(0))[0])


@pytest.fixture(scope="module")
def start():
    return hs.HMM([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], hs.emissions.Gaussian([-0.5, 0.5], [3.0, 3.0]))


@pytest.fixture(scope="module")
def learned(start, stream):
    model = start
    for first in range(0, 8000, 200):
        model = update(model, stream[first : first + 200], continues=first > 0)
    return model


def test_it_learns_what_there_is_to_learn(learned, stream, start):
    np.testing.assert_allclose(learned.emission.means, [-2, 2], atol=0.1)
    np.testing.assert_allclose(learned.emission.covariances, [1.0, 0.5], atol=0.1)
    np.testing.assert_allclose(learned.transition, TRANSITION, atol=0.05)
    best = hs.score(hs.fit(start, stream, EM(), key=jr.key(0)).model, stream).nats_per_step
    assert hs.score(learned, stream).nats_per_step < best + 2e-3


def test_it_does_not_grow(learned, start, stream):
    first = update(start, stream[:200])
    assert [a.shape for a in jax.tree.leaves(first)] == [a.shape for a in jax.tree.leaves(learned)]
    assert int(learned.seen) == 8000 and learned.tail[0].value.shape == (TAIL,)


def test_it_is_a_model_like_the_one_inside(learned, stream, tmp_path):
    inner = learned.model
    assert isinstance(learned, Online) and hs.parameter_count(learned) == hs.parameter_count(inner)
    np.testing.assert_array_equal(hs.log_prob(learned, stream[:50]), hs.log_prob(inner, stream[:50]))
    decoded = hs.most_likely_states(learned, stream[:50])
    np.testing.assert_array_equal(decoded.states, hs.most_likely_states(inner, stream[:50]).states)
    hs.save(learned, tmp_path / "online.safetensors")
    again = hs.load(tmp_path / "online.safetensors")
    next_one, same = (update(m, stream[:200], continues=True) for m in (learned, again))
    for a, b in zip(jax.tree.leaves(next_one), jax.tree.leaves(same), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_chunk_of_everything_is_one_iteration(start, stream):
    chunk = hs.Sequences.of([stream[:100], stream[100:150]])
    once = update(start, chunk).model
    em = hs.fit(start, chunk, EM(iterations=1, repair=False), key=jr.key(0)).model
    np.testing.assert_allclose(once.emission.means, em.emission.means, rtol=1e-6)
    np.testing.assert_allclose(once.transition, em.transition, rtol=1e-6)


def test_chunks_that_go_on_know_where_they_begin(start, stream):
    """Two halves of one stream count as the whole does, without another first step; apart, a move is lost."""
    fast = {"rate": 1.0, "wait": 10**6}  # only the last chunk counts
    half = update(start, stream[:200], **fast)
    goes_on, fresh = (update(half, stream[200:400], continues=on).memory for on in (True, False))
    assert float(np.abs(goes_on[0].value).max()) < 1e-6 < float(fresh[0].value.max())
    both = update(start, stream[: 200 + 200], **fast).memory[1].value * 400
    apart = update(start, stream[:200], **fast).memory[1].value * 200
    np.testing.assert_allclose(goes_on[1].value * 200, both - apart, atol=1e-3)
    assert float((fresh[1].value * 200).sum()) == pytest.approx(199, rel=1e-4)
    assert float((goes_on[1].value * 200).sum()) == pytest.approx(200, rel=1e-4)


def test_a_rate_follows_data_that_change(start, stream):
    """A series that drifts up by 4: with a short memory the means go along, without one they lag behind."""
    fast, slow = update(start, stream[:2000], rate=0.01), update(start, stream[:2000])
    for i in range(40):
        chunk = stream[200 * i : 200 * i + 200] + 0.1 * (i + 1)
        fast, slow = update(fast, chunk), update(slow, chunk)
    np.testing.assert_allclose(np.sort(fast.emission.means), [2, 6], atol=0.4)
    assert float(np.mean(slow.emission.means)) < float(np.mean(fast.emission.means)) - 0.3


def test_few_steps_change_nothing_yet(start, stream):
    model = update(start, stream[:99])
    np.testing.assert_array_equal(model.emission.means, start.emission.means)
    assert not np.array_equal(update(model, stream[99:100]).emission.means, start.emission.means)


def test_what_cannot_be_is_told(start, learned, stream):
    with pytest.raises(hs.HiddenStateError, match=r"cannot learn by hs.update: it has no `expected_statistics`"):
        update(network(), symbols())
    with pytest.raises(hs.HiddenStateError, match="rate can be set in the first update only"):
        update(learned, stream[:10], rate=0.1)
    with pytest.raises(hs.HiddenStateError, match="rate is 2"):
        update(start, stream[:10], rate=2)
    with pytest.raises(hs.DataError, match="holds 2 sequences; with continues=True it must be one"):
        update(learned, [stream[:10], stream[:10]], continues=True)
    sure = hs.HMM([1.0], [[1.0]], hs.emissions.Categorical([[0.5, 0.5, 0.0]]))
    with pytest.raises(hs.DataError, match="holds 2 at step 2, which has probability zero"):
        update(sure, np.array([0, 2, 1]))
