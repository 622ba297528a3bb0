from math import comb, log

import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

import hiddenstate as hs
from hiddenstate.core import DataError
from hiddenstate.data import decode_symbols


def test_copying_asks_for_what_was_read():
    task = hs.tasks.copying(symbols=4, memory=3, delay=5, sequences=20, key=jr.key(0))
    read, answer = task.data.values, task.targets
    assert read.shape == answer.shape == (20, 5 + 2 * 3)
    np.testing.assert_array_equal(read[:, :3], answer[:, -3:])
    assert (read[:, 3:7] == 4).all() and (read[:, 7] == 5).all() and (read[:, 8:] == 4).all()
    assert (answer[:, :-3] == 4).all()
    assert task.scored.tolist() == [[False] * 8 + [True] * 3] * 20
    assert task.baseline == pytest.approx(3 * log(4) / 11)
    assert set(np.unique(read[:, :3])) == {0, 1, 2, 3}
    assert decode_symbols(task.data)[0][3:8] == ["blank"] * 4 + ["go"]


def test_the_copying_stream_repeats_its_beginning():
    task = hs.tasks.copying(symbols=4, memory=3, delay=5, sequences=20, key=jr.key(0))
    stream = task.stream.values
    np.testing.assert_array_equal(stream[:, :8], task.data.values[:, :8])
    np.testing.assert_array_equal(stream[:, 8:], stream[:, :3])
    assert task.optimal_log_prob == pytest.approx(-3 * log(4))


def test_selective_copying_keeps_order_and_forgets_places():
    task = hs.tasks.selective_copying(length=30, tokens=4, symbols=5, sequences=50, key=jr.key(1))
    body = task.data.values[:, :30]
    assert task.data.shape == (50, 30 + 1 + 4)
    assert ((body < 5).sum(axis=1) == 4).all()
    np.testing.assert_array_equal(body[body < 5].reshape(50, 4), task.targets[:, -4:])
    assert (task.data.values[:, 30] == 6).all()
    np.testing.assert_array_equal(task.stream.values[:, -4:], task.targets[:, -4:])
    np.testing.assert_array_equal(task.stream.values[:, :31], task.data.values[:, :31])
    assert len({tuple(np.flatnonzero(row < 5)) for row in body}) > 45
    assert task.optimal_log_prob == pytest.approx(-log(comb(30, 4)) - 4 * log(5))


def test_selective_copying_places_are_uniform():
    task = hs.tasks.selective_copying(length=6, tokens=2, symbols=2, sequences=6000, key=jr.key(1))
    share = (task.data.values[:, :6] < 2).mean(axis=0)
    np.testing.assert_allclose(share, 1 / 3, atol=4 * np.sqrt(2 / 9 / 6000))


def test_selective_copying_may_fill_all_places():
    task = hs.tasks.selective_copying(length=4, tokens=4, symbols=2, sequences=3, key=jr.key(1))
    np.testing.assert_array_equal(task.data.values[:, :4], task.targets[:, -4:])
    with pytest.raises(DataError, match="tokens is 5; there is place for 4"):
        hs.tasks.selective_copying(length=4, tokens=5, sequences=3, key=jr.key(1))


def test_parity_is_the_count_of_ones_modulo_two():
    task = hs.tasks.parity(length=9, sequences=30, key=jr.key(2))
    np.testing.assert_array_equal(task.targets, np.cumsum(task.data.values, axis=1) % 2)
    np.testing.assert_array_equal(task.stream.values[:, 0::2], task.data.values)
    np.testing.assert_array_equal(task.stream.values[:, 1::2], task.targets)
    assert task.optimal_log_prob == pytest.approx(-9 * log(2))
    assert task.scored is None


def test_adding_sums_the_marked_numbers():
    task = hs.tasks.adding(length=11, sequences=4000, key=jr.key(3))
    numbers, marks = task.data.values[..., 0], task.data.values[..., 1]
    assert ((marks == 0) | (marks == 1)).all()
    assert (marks[:, :5].sum(axis=1) == 1).all() and (marks[:, 5:].sum(axis=1) == 1).all()
    np.testing.assert_allclose(task.targets, numbers[marks == 1].reshape(4000, 2).sum(axis=1))
    assert task.data.schema.kinds == ("real", "bit")
    # The error's square has a standard deviation of about 0.2.
    assert ((task.targets - 1) ** 2).mean() == pytest.approx(task.baseline, abs=4 * 0.2 / np.sqrt(4000))
    assert task.stream is None
    with pytest.raises(DataError, match="length is 1; it must be a whole number of at least 2"):
        hs.tasks.adding(length=1, sequences=1, key=jr.key(0))


def mixture_log_prob(task, values):
    """The density of each segment as a mixture of its modes, written out."""
    segment = task.patterns.shape[1]
    total = 0.0
    for start in range(0, len(values), segment):
        part = values[start : start + segment]
        densities = [norm.pdf(part, mean[: len(part)], task.noise).prod() for mean in task.patterns]
        total += np.log(np.mean(densities))
    return total


@pytest.mark.parametrize("segment", [None, 1, 3, 4, 100])
def test_optimal_prediction_of_modes_is_the_mixture(segment):
    task = hs.tasks.modes(3, sequences=4, length=8, segment=segment, noise=0.5, key=jr.key(0))
    expected = [mixture_log_prob(task, values) for values in task.data]
    np.testing.assert_allclose(task.optimal_log_prob(), expected, rtol=1e-10)


def test_optimal_prediction_of_modes_marginalises_what_is_missing():
    task = hs.tasks.modes(3, sequences=1, length=4, noise=0.5, key=jr.key(0))
    steps = task.optimal_step_log_probs([[0.3, np.nan, 0.1]])
    seen = task.patterns[:, [0, 2]]
    expected = np.log(np.mean([norm.pdf([0.3, 0.1], mean, 0.5).prod() for mean in seen]))
    assert steps[0, 1] == 0.0
    assert steps.sum() == pytest.approx(expected)


def test_sequences_follow_their_modes():
    task = hs.tasks.modes(5, sequences=200, length=40, segment=16, noise=0.05, key=jr.key(1))
    assert task.chosen.shape == (200, 3) and set(np.unique(task.chosen)) == set(range(5))
    means = task.patterns[task.chosen].reshape(200, 48)[:, :40]
    assert (task.data.values - means).std() == pytest.approx(0.05, rel=0.05)
    gaussian = norm.logpdf(task.data.values[:, 0], task.data.values[:, 0].mean(), task.data.values[:, 0].std()).mean()
    assert task.optimal_step_log_probs()[:, 0].mean() > gaussian + 0.5


@pytest.mark.parametrize("change", [{"modes": 0}, {"segment": 0}, {"noise": 0.0}, {"length": 0}])
def test_modes_refuse_bad_sizes(change):
    with pytest.raises(DataError, match=next(iter(change))):
        hs.tasks.modes(**{"sequences": 1, "length": 4, "key": jr.key(0)} | change)


def test_a_single_mode_has_nothing_to_tell():
    task = hs.tasks.modes(1, sequences=2, length=5, key=jr.key(0))
    expected = norm.logpdf(task.data.values, task.patterns[0], task.noise).sum(axis=1)
    np.testing.assert_allclose(task.optimal_log_prob(), expected)


def r_peaks(signal):
    """Local maxima that stand half a millivolt above the signal's median."""
    inner = signal[1:-1]
    return np.flatnonzero((inner > signal[:-2]) & (inner >= signal[2:]) & (inner > np.median(signal) + 0.5)) + 1


def test_the_ecg_has_as_many_r_peaks_as_its_heart_rate_says():
    task = hs.tasks.ecg(sequences=20, length=250 * 60, heart_rate=(45.0, 150.0), noise=0.005, key=jr.key(0))
    found = np.array([len(r_peaks(signal)) for signal in task.data])
    # A minute: as many peaks as beats per minute, but for the last one and the drift of single beats.
    assert (np.abs(found - task.heart_rate) <= 0.02 * task.heart_rate + 1).all()
    np.testing.assert_array_equal(found, task.beats[:, 1:-1].sum(axis=1))
    assert task.heart_rate.min() >= 45 and task.heart_rate.max() <= 150


def test_r_peaks_stand_where_the_beats_are():
    task = hs.tasks.ecg(sequences=5, length=2000, noise=0.0, wander=0.0, key=jr.key(1))
    for signal, beats in zip(task.data, task.beats, strict=True):
        inside = np.flatnonzero(beats)
        inside = inside[(inside > 0) & (inside < 1999)]
        assert np.abs(r_peaks(signal) - inside).max() <= 1


def test_beats_vary_as_much_as_asked():
    task = hs.tasks.ecg(sequences=30, length=50000, heart_rate=(60, 60), variability=0.05, key=jr.key(2))
    gaps = np.concatenate([np.diff(np.flatnonzero(beats)) for beats in task.beats]) / 250.0
    assert gaps.mean() == pytest.approx(1.0, abs=0.005)
    assert gaps.std() == pytest.approx(0.05, rel=0.1)
    steady = hs.tasks.ecg(sequences=1, length=5000, heart_rate=(60, 60), variability=0.0, key=jr.key(2))
    assert set(np.diff(np.flatnonzero(steady.beats[0]))) == {250}


def test_ecg_samples_per_second():
    slow, fast = (hs.tasks.ecg(sequences=3, length=int(10 * r), rate=r, noise=0, key=jr.key(4)) for r in (100.0, 500.0))
    np.testing.assert_allclose(fast.data.values[:, ::5], slow.data.values, atol=1e-9)
    np.testing.assert_array_equal(slow.targets, slow.heart_rate)


@pytest.mark.parametrize(
    "change",
    [{"heart_rate": (80, 50)}, {"heart_rate": (0, 50)}, {"rate": 0.0}, {"variability": 0.5}, {"noise": -1.0}],
)
def test_ecg_refuses_the_impossible(change):
    with pytest.raises(DataError, match=next(iter(change))):
        hs.tasks.ecg(**{"sequences": 1, "length": 100, "key": jr.key(0)} | change)


@pytest.mark.parametrize(
    "make",
    [
        lambda key: hs.tasks.copying(sequences=3, delay=5, key=key),
        lambda key: hs.tasks.selective_copying(sequences=3, length=40, key=key),
        lambda key: hs.tasks.parity(sequences=3, length=20, key=key),
        lambda key: hs.tasks.adding(sequences=3, length=20, key=key),
        lambda key: hs.tasks.clock(sequences=3, length=20, key=key),
        lambda key: hs.tasks.modes(sequences=3, length=20, key=key),
        lambda key: hs.tasks.ecg(sequences=3, length=200, key=key),
    ],
)
def test_the_key_decides(make):
    one, two, other = make(jr.key(0)), make(jr.key(0)), make(jr.key(1))
    np.testing.assert_array_equal(one.data.values, two.data.values)
    assert (one.data.values != other.data.values).any()
    assert not one.data.has_missing and not one.data.ragged
